/*
 * How long each call stood in its GPU's queue. Begin is on the GPU's clock and the call on the
 * host's, so only the difference to the soonest of the operations near it means something: near,
 * because the clocks drift.
 */
#include <stdlib.h>

#include "view/view_internal.h"

enum { NEAR = 64, QUEUED_MOST = MUSTER_QUEUED_UNKNOWN - 1 };

static bool has_queue(const struct muster_view_gpu *gpu, const struct muster_view_op *op)
{
    /* NCCL shows a replay when it runs, not when it was called. */
    return gpu->host_times && op->end_ns > op->begin_ns && !(op->flags & MUSTER_OP_GRAPH);
}

static int64_t raw_ns(const struct muster_view_op *op)
{
    return (int64_t)(op->begin_ns - op->enqueue_ns);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void one_gpu(struct muster_view *view, const struct muster_view_gpu *gpu, int64_t *soonest)
{
    uint32_t stretches = gpu->ordered / NEAR + 1;
    for (uint32_t s = 0; s < stretches; s++) {
        soonest[s] = INT64_MAX;
    }
    for (uint32_t i = 0; i < gpu->ordered; i++) {
        const struct muster_view_op *op = &view->op[gpu->order[i]];
        if (has_queue(gpu, op)) {
            soonest[i / NEAR] = least(soonest[i / NEAR], raw_ns(op));
        }
    }
    for (uint32_t i = 0; i < gpu->ordered; i++) {
        struct muster_view_op *op = &view->op[gpu->order[i]];
        uint32_t s = i / NEAR;
        int64_t from = least(soonest[s], least(s ? soonest[s - 1] : INT64_MAX,
                                               s + 1 < stretches ? soonest[s + 1] : INT64_MAX));
        if (has_queue(gpu, op)) {
            uint64_t queued = ((uint64_t)raw_ns(op) - (uint64_t)from) / MUSTER_QUEUED_NS;
            op->queued = queued < MUSTER_QUEUED_UNKNOWN ? (uint16_t)queued : QUEUED_MOST;
        }
    }
}

int muster_view_queue_times(struct muster_view *view)
{
    uint32_t most = 0;
    for (size_t g = 0; g < view->gpus; g++) {
        most = view->gpu[g].ordered > most ? view->gpu[g].ordered : most;
    }
    int64_t *soonest = malloc((most / NEAR + 1) * sizeof *soonest);
    if (!soonest) {
        return -1;
    }
    for (size_t g = 0; g < view->gpus; g++) {
        one_gpu(view, &view->gpu[g], soonest);
    }
    free(soonest);
    return 0;
}
