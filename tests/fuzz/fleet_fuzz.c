/* Messages of agents from hostile bytes, each with its length in two bytes before it: what is read
 * becomes a job, and the job is evaluated. */
#include <stdint.h>
#include <stdlib.h>

#include "diagnose/diagnose.h"
#include "fleet/host_findings.h"
#include "fleet/join.h"
#include "fleet/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct muster_join *join_of(const uint8_t *data, size_t size)
{
    struct muster_arena arena = {0};
    struct muster_wire_message message;
    char name[MUSTER_FLEET_NAME] = "0.none";
    if (muster_wire_read("fuzz", data, size, &arena, &message, NULL) == 0 && message.described)
        muster_fleet_name(name, message.uid, message.run_dir);
    muster_arena_free(&arena);
    return muster_join_new(name);
}

static void evaluate(struct muster_join *join, uint64_t now_ns)
{
    struct muster_findings findings = {0};
    struct muster_run run;
    struct muster_view view;
    muster_host_findings(join, now_ns, &findings);
    if (!muster_join_run(join, now_ns, true, &run)) {
        muster_findings_free(&findings);
        return;
    }
    if (muster_view_of_run(&run, &view, NULL) == 0) {
        muster_diagnose_view(&view, 1, &findings, NULL);
        muster_view_free(&view);
    }
    muster_findings_free(&findings);
    muster_join_run_free(&run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_join *join = NULL;
    uint64_t now_ns = 1;
    for (size_t at = 0; at + 2 <= size;) {
        size_t bytes = data[at] | (size_t)data[at + 1] << 8;
        at += 2;
        bytes = bytes < size - at ? bytes : size - at;
        if (!join && !(join = join_of(data + at, bytes)))
            return 0;
        now_ns += 500000000;
        muster_join_take(join, data + at, bytes, now_ns, now_ns, NULL);
        at += bytes;
    }
    if (join)
        evaluate(join, now_ns);
    muster_join_free(join);
    return 0;
}
