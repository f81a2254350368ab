/* Call traces from hostile bytes: either refused with file and line, or every call is one that a
 * player can follow. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replay/replay_plan.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_calls(const struct muster_trace *trace)
{
    struct muster_plan plan;
    if (muster_plan_make(&plan, trace, NULL))
        return;
    for (size_t i = 0; i < trace->calls; i++) {
        const struct muster_trace_call *call = &trace->call[i];
        require(call->op <= MUSTER_TRACE_FINI);
        require(call->op == MUSTER_TRACE_INIT || call->op == MUSTER_TRACE_FINI
                    ? plan.event_of[i] < plan.contexts
                    : plan.event_of[i] < plan.events && call->kind < MUSTER_EVENT_KINDS);
    }
    muster_plan_free(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_trace trace;
    struct muster_err err = {""};
    bool truncated;
    if (muster_trace_parse("fuzz", (const char *)data, size, &trace, &truncated, &err)) {
        require(strncmp(err.text, "fuzz:", 5) == 0 && strlen(err.text) > 7);
        return 0;
    }
    require(err.text[0] == '\0');
    require(trace.meta.api >= 1 && trace.meta.api <= 7);
    check_calls(&trace);
    muster_trace_free(&trace);
    return 0;
}
