/*
 * How long each call stood in its GPU's queue. Begin is on the GPU's clock and the call on the
 * host's, so only the difference to the soonest operation means something, by as much as the clocks
 * may have drifted since. A host that always runs ahead is soonest where the run, or a step,
 * begins.
 */
#include <stdlib.h>

#include "view/view_internal.h"

enum { NEAR = 64, QUEUED_MOST = MUSTER_QUEUED_UNKNOWN - 1 };

/* Of the time between: %globaltimer of H200 against CLOCK_MONOTONIC drifts by less than a tenth of
 * that; what NTP corrects a host by is 500 ppm at most, and seldom. */
#define DRIFT 100e-6

/* The soonest operation of a stretch, and when that began. */
struct stretch {
    int64_t soonest_ns;
    uint64_t begin_ns;
};

static bool has_queue(const struct muster_view_gpu *gpu, const struct muster_view_op *op)
{
    /* NCCL shows a replay when it runs, not when it was called. */
    return gpu->one_pace && op->end_ns > op->begin_ns && !(op->flags & MUSTER_OP_GRAPH);
}

static int64_t raw_ns(const struct muster_view_op *op)
{
    return (int64_t)(op->begin_ns - op->enqueue_ns);
}

/* Later than the other stretch's soonest by more than drift explains: that one counts. */
static void carry(const struct stretch *from, struct stretch *to)
{
    if (from->soonest_ns == INT64_MAX)
        return;
    uint64_t apart = from->begin_ns > to->begin_ns ? from->begin_ns - to->begin_ns
                                                   : to->begin_ns - from->begin_ns;
    int64_t most = from->soonest_ns + (int64_t)(DRIFT * (double)apart);
    to->soonest_ns = most < to->soonest_ns ? most : to->soonest_ns;
}

static void find_soonest(const struct muster_view *view, const struct muster_view_gpu *gpu,
                         struct stretch *stretch, uint32_t stretches)
{
    for (uint32_t s = 0; s < stretches; s++) {
        uint32_t first = s * NEAR < gpu->ordered ? s * NEAR : gpu->ordered - 1;
        stretch[s] = (struct stretch){INT64_MAX, view->op[gpu->order[first]].begin_ns};
    }
    for (uint32_t i = 0; i < gpu->ordered; i++) {
        const struct muster_view_op *op = &view->op[gpu->order[i]];
        int64_t *soonest = &stretch[i / NEAR].soonest_ns;
        /* Of a communicator's first operations the begin may be that of what its connections did
         * before the call was noted. */
        if (has_queue(gpu, op) && op->number >= MUSTER_WARM_UP && raw_ns(op) < *soonest)
            *soonest = raw_ns(op);
    }
}

static void carry_all(struct stretch *stretch, uint32_t stretches)
{
    for (uint32_t s = 1; s < stretches; s++)
        carry(&stretch[s - 1], &stretch[s]);
    for (uint32_t s = stretches; s-- > 1;)
        carry(&stretch[s], &stretch[s - 1]);
}

static void set_queued(struct muster_view *view, const struct muster_view_gpu *gpu,
                       const struct stretch *stretch)
{
    for (uint32_t i = 0; i < gpu->ordered; i++) {
        struct muster_view_op *op = &view->op[gpu->order[i]];
        if (has_queue(gpu, op) && stretch[i / NEAR].soonest_ns != INT64_MAX) {
            int64_t from = stretch[i / NEAR].soonest_ns;
            uint64_t ns = raw_ns(op) > from ? (uint64_t)raw_ns(op) - (uint64_t)from : 0;
            uint64_t queued = ns / MUSTER_QUEUED_NS;
            op->queued = (queued < QUEUED_MOST ? queued : QUEUED_MOST) & UINT16_MAX;
        }
    }
}

int muster_view_queue_times(struct muster_view *view)
{
    uint32_t most = 0;
    for (size_t g = 0; g < view->gpus; g++)
        most = view->gpu[g].ordered > most ? view->gpu[g].ordered : most;
    struct stretch *stretch = malloc((most / NEAR + 1) * sizeof *stretch);
    for (size_t g = 0; g < view->gpus && stretch; g++) {
        const struct muster_view_gpu *gpu = &view->gpu[g];
        uint32_t stretches = gpu->ordered / NEAR + 1;
        if (!gpu->ordered)
            continue;
        find_soonest(view, gpu, stretch, stretches);
        carry_all(stretch, stretches);
        set_queued(view, gpu, stretch);
    }
    bool whole = stretch != NULL;
    free(stretch);
    return whole ? 0 : -1;
}
