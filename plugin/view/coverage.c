#include "view/coverage.h"

/* Of a GPU. */
struct calls {
    uint64_t first_ns, last_ns;
};

/* Graphs are replayed without calls. */
static bool is_called(const struct muster_view_op *op)
{
    return !(op->flags & MUSTER_OP_GRAPH);
}

/* Of a GPU whose operations stand in the order of its calls. */
static struct calls calls_in_step(const struct muster_view *view, const struct muster_view_gpu *gpu)
{
    uint32_t first = 0, end = gpu->ordered;
    while (first < end && !is_called(&view->op[gpu->order[first]]))
        first++;
    while (first < end && !is_called(&view->op[gpu->order[end - 1]]))
        end--;
    if (first == end)
        return (struct calls){0};
    return (struct calls){view->op[gpu->order[first]].enqueue_ns,
                          view->op[gpu->order[end - 1]].enqueue_ns};
}

static void add_calls(const struct muster_view *view, const struct muster_view_member *member,
                      struct calls *calls)
{
    struct calls own = *calls;
    for (uint32_t i = member->first_op; i < member->first_op + member->ops; i++) {
        uint64_t ns = view->op[i].enqueue_ns;
        if (!is_called(&view->op[i]))
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
    for (size_t m = 0; m < view->members; m++) {
        uint32_t g = view->member[m].gpu;
        if (view->gpu[g].one_pace && !view->gpu[g].in_step)
            add_calls(view, &view->member[m], &calls[g]);
    }
    for (size_t g = 0; g < view->gpus; g++) {
        const struct muster_view_gpu *gpu = &view->gpu[g];
        if (gpu->one_pace && gpu->in_step)
            calls[g] = calls_in_step(view, gpu);
        uint64_t called_ns = calls[g].last_ns - calls[g].first_ns;
        span[g] = (struct muster_view_span){
            .covered_ns = gpu->covered_ns,
            .length_ns = gpu->length_ns,
            .run_ns = called_ns > gpu->length_ns ? called_ns : gpu->length_ns,
        };
    }
    return span;
}
