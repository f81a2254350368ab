/* A trace of torch.profiler from hostile bytes, laid beside a small run. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"
#include "timeline/torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Two ranks, two communicators, one of them without a name, 16 operations each. */
static void make_run(struct muster_view *view)
{
    for (uint32_t g = 0; g < 2; g++) {
        const struct muster_view_gpu gpu = {
            .rank = (int32_t)g, .host = "h", .host_times = true, .one_pace = true};
        uint32_t at = muster_view_add_gpu(view, &gpu);
        for (uint64_t c = 0; c < 2; c++) {
            uint32_t member =
                muster_view_add_member(view, at, 7 + c, (int32_t)g, 2, 1, c ? "group" : "");
            for (uint64_t n = 0; n < 16; n++) {
                uint64_t begin = 1000000 * (n + 1) + 300000 * c;
                const struct muster_op op = {.number = n,
                                             .enqueue_ns = begin - 1000,
                                             .begin_ns = begin,
                                             .end_ns = begin + 5000,
                                             .count = 16,
                                             .peer = -1,
                                             .func = MUSTER_FUNC_ALL_REDUCE,
                                             .source = MUSTER_SOURCE_GPU};
                muster_view_add_op(view, member, &op);
            }
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct muster_view view;
    static const struct muster_findings findings;
    static struct muster_timeline_count count;
    static struct muster_timeline timeline = {
        .view = &view, .findings = &findings, .count = &count};
    struct muster_timeline_beside beside = {.path = "fuzz"};
    struct muster_err err = {""};
    if (!view.ops) {
        make_run(&view);
        if (muster_view_finish(&view, &err) || muster_timeline_prepare(&timeline, &err))
            abort();
    }
    if (muster_torch_lay(&timeline, "fuzz", (const char *)data, size, &beside, &err)) {
        if (strncmp(err.text, "fuzz:", 5) != 0 && !muster_is_memory(&err))
            abort();
    } else if (beside.matched > beside.operations) {
        abort();
    }
    return 0;
}
