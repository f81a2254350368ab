#include "view/coverage.h"

/* From the end of all before to the end of this operation; 0: it ended within. */
static uint64_t cycle(const struct muster_view_op *op, uint64_t *end_ns)
{
    uint64_t before = *end_ns;
    if (op->end_ns <= before)
        return 0;
    *end_ns = op->end_ns;
    bool from_begin = !before || (!op->self_known && op->begin_ns > before);
    return op->end_ns - (from_begin ? op->begin_ns : before);
}

static void measure(const struct muster_view *view, const struct muster_view_gpu *gpu,
                    struct muster_view_span *span)
{
    uint64_t end_ns = 0;
    for (uint32_t i = 0; i < gpu->ordered; i++) {
        uint64_t ns = cycle(&view->op[gpu->order[i]], &end_ns);
        span->length_ns = end_ns - view->op[gpu->order[0]].begin_ns;
        span->covered_ns += ns;
    }
}

struct muster_view_span *muster_view_spans(const struct muster_view *view,
                                           struct muster_arena *memory)
{
    struct muster_view_span *span = muster_arena_array(memory, view->gpus + 1, sizeof *span);
    for (size_t g = 0; g < view->gpus && span; g++)
        measure(view, &view->gpu[g], &span[g]);
    return span;
}
