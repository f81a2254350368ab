#include "timeline/gpu_clocks.h"

#include <stdlib.h>

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
};

/* A GPU on its way to a place beside another one. */
struct laying {
    struct muster_gpu_clocks *clocks;
    struct muster_gpu_clock *clock;
    struct window window;
    struct muster_arena memory; /* of `stray`, and of what is aligned */
    uint64_t *stray;            /* of its samples, one a window */
    size_t strays;
};

static void add_point(struct muster_gpu_clocks *clocks, struct muster_gpu_clock *clock,
                      uint64_t gpu_ns, int64_t offset_ns)
{
    struct muster_clock_point *point =
        muster_arena_add(&clocks->memory, &clock->point, &clock->points, sizeof *point);
    *point = (struct muster_clock_point){.gpu_ns = gpu_ns, .offset_ns = offset_ns};
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
static void lay_by_calls(struct aligning *aligning, uint32_t gpu)
{
    const struct muster_view_gpu *of = &aligning->view->gpu[gpu];
    struct muster_gpu_clock *clock = &aligning->clocks->gpu[gpu];
    if (!of->host_times)
        add_point(aligning->clocks, clock, 0, 0);
    for (uint32_t i = 0; of->host_times && i < of->ordered; i += MUSTER_CLOCK_WINDOW) {
        uint32_t end =
            of->ordered - i > MUSTER_CLOCK_WINDOW ? i + MUSTER_CLOCK_WINDOW : of->ordered;
        const struct muster_view_op *first = &aligning->view->op[of->order[i]];
        int64_t offset = call_minus_begin(first);
        for (uint32_t j = i + 1; j < end; j++) {
            int64_t next = call_minus_begin(&aligning->view->op[of->order[j]]);
            offset = next > offset ? next : offset;
        }
        add_point(aligning->clocks, clock, first->begin_ns, offset);
    }
    clock->method = clock->points ? MUSTER_CLOCK_CALLS : MUSTER_CLOCK_UNKNOWN;
}

/* A window is full, or the last one ends. */
static void end_window(struct laying *laying)
{
    struct window *window = &laying->window;
    if (window->n == 0)
        return;
    muster_sort_i64(window->sample, window->n);
    int64_t offset = window->sample[window->n / 2];
    for (unsigned i = 0; i < window->n; i++)
        window->sample[i] = llabs(window->sample[i] - offset);
    muster_sort_i64(window->sample, window->n);
    uint64_t *stray =
        muster_arena_add(&laying->memory, &laying->stray, &laying->strays, sizeof *stray);
    *stray = (uint64_t)window->sample[window->n / 2];
    add_point(laying->clocks, laying->clock, window->first_ns, offset);
    window->n = 0;
}

static void add_sample(struct laying *laying, const struct muster_view_op *here, int64_t offset_ns)
{
    struct window *window = &laying->window;
    if (window->n == 0)
        window->first_ns = here->begin_ns;
    window->sample[window->n++] = offset_ns;
    if (window->n == MUSTER_CLOCK_WINDOW)
        end_window(laying);
}

/* Lays a member's GPU beside that of another one whose clock is known. Only these two are read: a
 * communicator of n ranks is gone through once, not n times. */
static void lay_by_ends(struct aligning *aligning, uint32_t from, uint32_t to)
{
    const struct muster_view *view = aligning->view;
    const struct muster_gpu_clock *beside = &aligning->clocks->gpu[view->member[from].gpu];
    struct muster_gpu_clock *clock = &aligning->clocks->gpu[view->member[to].gpu];
    struct laying laying = {.clocks = aligning->clocks, .clock = clock};
    const struct muster_joint_rule rule = {.takes = muster_joint_takes_common_end, .least = 2};
    struct muster_joint joint;
    muster_joint_begin_two(&joint, view, from, to, &rule, &laying.memory);
    while (muster_joint_next(&joint)) {
        const struct muster_view_op *there = joint.op[from > to], *here = joint.op[to > from];
        add_sample(&laying, here,
                   (int64_t)there->end_ns + muster_gpu_clock_offset(beside, there->end_ns) -
                       (int64_t)here->end_ns);
    }
    end_window(&laying);
    if (clock->points) {
        clock->method = MUSTER_CLOCK_ENDS;
        clock->residual_ns = muster_upper_median_u64(laying.stray, laying.strays);
    }
    muster_arena_end(&laying.memory, &aligning->clocks->memory);
}

static bool is_known(const struct aligning *aligning, uint32_t member)
{
    uint32_t gpu = aligning->view->member[member].gpu;
    return aligning->clocks->gpu[gpu].method != MUSTER_CLOCK_UNKNOWN;
}

/* One round through the communicators; whether a clock became known. */
static bool spread(struct aligning *aligning)
{
    const struct muster_view *view = aligning->view;
    bool more = false;
    for (uint32_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        uint32_t first = comm->first_member, end = first + comm->members, from = first;
        while (from < end && !is_known(aligning, from))
            from++;
        if (from == end || !muster_joint_possible(comm))
            continue;
        for (uint32_t to = first; to < end; to++) {
            if (is_known(aligning, to))
                continue;
            lay_by_ends(aligning, from, to);
            more |= is_known(aligning, to);
        }
    }
    return more;
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

static void align_all(struct aligning *aligning)
{
    struct muster_gpu_clocks *clocks = aligning->clocks;
    lay_by_calls(aligning, clocks->leader);
    while (spread(aligning)) {
    }
    for (uint32_t i = 0; i < clocks->gpus; i++)
        if (clocks->gpu[i].method == MUSTER_CLOCK_UNKNOWN && aligning->view->gpu[i].ordered)
            lay_by_calls(aligning, i);
}

int muster_gpu_clocks_align(const struct muster_view *view, struct muster_gpu_clocks *clocks,
                            struct muster_err *err)
{
    struct aligning aligning = {.view = view, .clocks = clocks};
    *clocks = (struct muster_gpu_clocks){.gpus = view->gpus, .leader = busiest(view)};
    clocks->gpu = muster_arena_array(&clocks->memory, view->gpus + 1, sizeof(*clocks->gpu));
    if (clocks->gpu && clocks->leader != MUSTER_VIEW_NONE)
        align_all(&aligning);
    int result = muster_arena_check(&clocks->memory, err, "the clocks of the GPUs");
    if (result)
        muster_gpu_clocks_free(clocks);
    return result;
}

void muster_gpu_clocks_free(struct muster_gpu_clocks *clocks)
{
    muster_arena_free(&clocks->memory);
    *clocks = (struct muster_gpu_clocks){.leader = MUSTER_VIEW_NONE};
}
