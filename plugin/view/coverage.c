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
    uint64_t end_ns = 0, covered_ns = 0;
    for (uint32_t i = 0; i < gpu->ordered; i++)
        covered_ns += cycle(&view->op[gpu->order[i]], &end_ns);
    span->length_ns = gpu->ordered ? end_ns - view->op[gpu->order[0]].begin_ns : 0;
    span->covered_ns = covered_ns;
}

/* Of a GPU. */
struct calls {
    uint64_t first_ns, last_ns;
};

/* Graphs are replayed without calls. */
static void add_calls(const struct muster_view *view, const struct muster_view_member *member,
                      struct calls *calls)
{
    struct calls own = *calls;
    for (uint32_t i = member->first_op; i < member->first_op + member->ops; i++) {
        uint64_t ns = view->op[i].enqueue_ns;
        if (view->op[i].flags & MUSTER_OP_GRAPH)
            continue;
        own.first_ns = !own.last_ns || ns < own.first_ns ? ns : own.first_ns;
        own.last_ns = ns > own.last_ns ? ns : own.last_ns;
    }
    *calls = own;
}

struct muster_view_span *muster_view_spans(const struct muster_view *view,
                                           struct muster_arena *memory)
{
    struct muster_view_span *span = muster_arena_array(memory, view->gpus + 1, sizeof *span);
    struct calls *calls = muster_arena_array(memory, view->gpus + 1, sizeof *calls);
    if (!span || !calls)
        return NULL;
    for (size_t m = 0; m < view->members; m++)
        if (view->gpu[view->member[m].gpu].one_pace)
            add_calls(view, &view->member[m], &calls[view->member[m].gpu]);
    for (size_t g = 0; g < view->gpus; g++) {
        measure(view, &view->gpu[g], &span[g]);
        uint64_t called_ns = calls[g].last_ns - calls[g].first_ns;
        span[g].run_ns = called_ns > span[g].length_ns ? called_ns : span[g].length_ns;
    }
    return span;
}
