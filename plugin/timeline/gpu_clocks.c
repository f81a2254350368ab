#include "timeline/gpu_clocks.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/sort.h"
#include "view/aligned.h"

/* Differences of one window. */
struct window {
    int64_t sample[MUSTER_CLOCK_WINDOW];
    unsigned n;
    uint64_t first_ns;
};

struct aligning {
    const struct muster_view *view;
    struct muster_gpu_clocks *clocks;
    struct window *window; /* one a GPU */
    uint64_t *stray;       /* of the GPU's samples, one a window */
    size_t strays;
};

static bool add_point(struct muster_gpu_clock *clock, uint64_t gpu_ns, int64_t offset_ns)
{
    if (!muster_grow(&clock->point, clock->points, sizeof(*clock->point)))
        return false;
    clock->point[clock->points++] =
        (struct muster_clock_point){.gpu_ns = gpu_ns, .offset_ns = offset_ns};
    return true;
}

int64_t muster_gpu_clock_offset(const struct muster_gpu_clock *clock, uint64_t gpu_ns)
{
    size_t low = 0, high = clock->points;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (clock->point[middle].gpu_ns <= gpu_ns)
            low = middle;
        else
            high = middle;
    }
    return clock->point[low].offset_ns;
}

static int64_t call_minus_begin(const struct muster_view_op *op)
{
    return (int64_t)op->enqueue_ns - (int64_t)op->begin_ns;
}

/* The tightest call of each window. Of calls without times the GPU's clock is the axis. */
static bool lay_by_calls(struct aligning *aligning, uint32_t gpu)
{
    const struct muster_view_gpu *of = &aligning->view->gpu[gpu];
    struct muster_gpu_clock *clock = &aligning->clocks->gpu[gpu];
    clock->method = MUSTER_CLOCK_CALLS;
    if (!of->host_times)
        return add_point(clock, 0, 0);
    for (uint32_t i = 0; i < of->ordered; i += MUSTER_CLOCK_WINDOW) {
        uint32_t end =
            of->ordered - i > MUSTER_CLOCK_WINDOW ? i + MUSTER_CLOCK_WINDOW : of->ordered;
        const struct muster_view_op *first = &aligning->view->op[of->order[i]];
        int64_t offset = call_minus_begin(first);
        for (uint32_t j = i + 1; j < end; j++) {
            int64_t next = call_minus_begin(&aligning->view->op[of->order[j]]);
            offset = next > offset ? next : offset;
        }
        if (!add_point(clock, first->begin_ns, offset))
            return false;
    }
    return true;
}

/* The next collective of a member at or behind `at` that all ranks leave together; NULL: none. */
static const struct muster_view_op *next_end(const struct muster_view *view,
                                             const struct muster_view_member *member, uint32_t *at)
{
    for (; *at < member->ops; ++*at) {
        const struct muster_view_op *op = &view->op[member->first_op + *at];
        if (muster_joint_takes_common_end(view, op))
            return op;
    }
    return NULL;
}

/* As a member's operations stand: eager before replayed, then by number. */
static int order_of(const struct muster_view_op *a, const struct muster_view_op *b)
{
    int graph_a = (a->flags & MUSTER_OP_GRAPH) != 0, graph_b = (b->flags & MUSTER_OP_GRAPH) != 0;
    return graph_a != graph_b       ? graph_a - graph_b
           : a->number != b->number ? (a->number < b->number ? -1 : 1)
                                    : 0;
}

/* A window is full, or the last one ends. */
static bool end_window(struct aligning *aligning, struct muster_gpu_clock *clock,
                       struct window *window)
{
    if (window->n == 0)
        return true;
    muster_sort_i64(window->sample, window->n);
    int64_t offset = window->sample[window->n / 2];
    for (unsigned i = 0; i < window->n; i++)
        window->sample[i] = llabs(window->sample[i] - offset);
    muster_sort_i64(window->sample, window->n);
    if (!muster_grow(&aligning->stray, aligning->strays, sizeof(*aligning->stray)) ||
        !add_point(clock, window->first_ns, offset))
        return false;
    aligning->stray[aligning->strays++] = (uint64_t)window->sample[window->n / 2];
    window->n = 0;
    return true;
}

static bool add_sample(struct aligning *aligning, struct muster_gpu_clock *clock,
                       struct window *window, const struct muster_view_op *here, int64_t offset_ns)
{
    if (window->n == 0)
        window->first_ns = here->begin_ns;
    window->sample[window->n++] = offset_ns;
    return window->n < MUSTER_CLOCK_WINDOW || end_window(aligning, clock, window);
}

/* Lays a member's GPU beside that of another one whose clock is known. Only these two are read: a
 * communicator of n ranks is gone through once, not n times. */
static bool lay_by_ends(struct aligning *aligning, const struct muster_view_member *from,
                        const struct muster_view_member *to)
{
    const struct muster_view *view = aligning->view;
    const struct muster_gpu_clock *beside = &aligning->clocks->gpu[from->gpu];
    struct muster_gpu_clock *clock = &aligning->clocks->gpu[to->gpu];
    struct window *window = &aligning->window[to->gpu];
    uint32_t at_there = 0, at_here = 0;
    const struct muster_view_op *there, *here;
    bool good = true;
    aligning->strays = 0;
    while (good && (there = next_end(view, from, &at_there)) &&
           (here = next_end(view, to, &at_here))) {
        int order = order_of(there, here);
        at_there += order <= 0;
        at_here += order >= 0;
        if (order != 0 || there->func != here->func || there->count != here->count)
            continue;
        good = add_sample(aligning, clock, window, here,
                          (int64_t)there->end_ns + muster_gpu_clock_offset(beside, there->end_ns) -
                              (int64_t)here->end_ns);
    }
    good = good && end_window(aligning, clock, window);
    if (clock->points) {
        clock->method = MUSTER_CLOCK_ENDS;
        clock->residual_ns = muster_upper_median_u64(aligning->stray, aligning->strays);
    }
    return good;
}

static bool is_known(const struct aligning *aligning, const struct muster_view_member *member)
{
    return aligning->clocks->gpu[member->gpu].method != MUSTER_CLOCK_UNKNOWN;
}

/* One round through the communicators; *more: a clock became known. */
static bool spread(struct aligning *aligning, bool *more)
{
    const struct muster_view *view = aligning->view;
    *more = false;
    for (uint32_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        const struct muster_view_member *member = &view->member[comm->first_member];
        uint32_t from = 0;
        while (from < comm->members && !is_known(aligning, &member[from]))
            from++;
        if (from == comm->members || !muster_joint_possible(comm))
            continue;
        for (uint32_t to = 0; to < comm->members; to++) {
            if (is_known(aligning, &member[to]))
                continue;
            if (!lay_by_ends(aligning, &member[from], &member[to]))
                return false;
            *more |= is_known(aligning, &member[to]);
        }
    }
    return true;
}

static uint32_t busiest(const struct muster_view *view)
{
    uint32_t best = MUSTER_VIEW_NONE;
    for (uint32_t i = 0; i < view->gpus; i++)
        if (view->gpu[i].ordered && view->gpu[i].host_times &&
            (best == MUSTER_VIEW_NONE || view->gpu[i].ordered > view->gpu[best].ordered))
            best = i;
    for (uint32_t i = 0; best == MUSTER_VIEW_NONE && i < view->gpus; i++)
        if (view->gpu[i].ordered)
            best = i;
    return best;
}

static bool align_all(struct aligning *aligning)
{
    struct muster_gpu_clocks *clocks = aligning->clocks;
    bool more = true;
    if (!lay_by_calls(aligning, clocks->leader))
        return false;
    while (more)
        if (!spread(aligning, &more))
            return false;
    for (uint32_t i = 0; i < clocks->gpus; i++)
        if (clocks->gpu[i].method == MUSTER_CLOCK_UNKNOWN && aligning->view->gpu[i].ordered &&
            !lay_by_calls(aligning, i))
            return false;
    return true;
}

int muster_gpu_clocks_align(const struct muster_view *view, struct muster_gpu_clocks *clocks,
                            struct muster_err *err)
{
    struct aligning aligning = {.view = view, .clocks = clocks};
    clocks->gpus = view->gpus;
    clocks->leader = busiest(view);
    clocks->gpu = calloc(view->gpus + 1, sizeof(*clocks->gpu));
    aligning.window = calloc(view->gpus + 1, sizeof(*aligning.window));
    bool good = clocks->gpu && aligning.window;
    if (good && clocks->leader != MUSTER_VIEW_NONE)
        good = align_all(&aligning);
    free(aligning.window);
    free(aligning.stray);
    if (good)
        return 0;
    muster_gpu_clocks_free(clocks);
    return muster_fail_memory(err, "the clocks of the GPUs");
}

void muster_gpu_clocks_free(struct muster_gpu_clocks *clocks)
{
    for (size_t i = 0; clocks->gpu && i < clocks->gpus; i++)
        free(clocks->gpu[i].point);
    free(clocks->gpu);
    *clocks = (struct muster_gpu_clocks){.leader = MUSTER_VIEW_NONE};
}
