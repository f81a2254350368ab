/* Any bytes as what a job printed, in two pieces: its lines, its checks, and what leads then. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/rules/causes.h"
#include "doctor/rules/checks_print.h"
#include "doctor/rules/job_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_suspect(struct muster_checks *checks, const char *id)
{
    muster_check_suspect(muster_check_begin(checks, id, ""), "a suspect");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct muster_job_log log;
    static struct muster_checks checks;
    const struct muster_checks_place place = {"fuzz", "fuzz", -1, -1};
    struct muster_causes causes;
    struct muster_err err;
    char words[128], *text = NULL;
    size_t half = size ? data[0] * size / 256 : 0, bytes;
    memset(&log, 0, sizeof log);
    muster_job_log_take(&log, (const char *)data, half);
    muster_job_log_take(&log, (const char *)data + half, size - half);
    muster_job_log_symptoms(&log, words, sizeof words);
    add_suspect(&checks, "net.firewall");
    add_suspect(&checks, "gpu.multicast");
    muster_job_log_checks(&log, "fuzz", &checks);
    FILE *out = open_memstream(&text, &bytes);
    if (muster_causes_find(&checks, words, &causes, &err))
        abort();
    if (!out)
        return 0;
    muster_checks_text(&checks, &causes, true, out);
    muster_checks_json(&checks, &causes, &place, out);
    fclose(out);
    free(text);
    muster_checks_free(&checks);
    return 0;
}
