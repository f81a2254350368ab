/* What is found out before anything is written, and the trace that is written. Between timeline*.c
 * only. */
#ifndef MUSTER_TIMELINE_TIMELINE_INTERNAL_H
#define MUSTER_TIMELINE_TIMELINE_INTERNAL_H

#include <stdio.h>

#include "base/arena.h"
#include "timeline/gpu_clocks.h"
#include "timeline/protobuf.h"
#include "timeline/timeline.h"

struct muster_timeline_wait {
    uint64_t wait_ns; /* of an operation, for ranks that came later */
    uint32_t late;    /* GPU that came last */
    uint32_t flow;    /* arrow that ends here or begins here; 0: none */
};

struct muster_timeline {
    struct muster_arena arena; /* of what it points to, clocks apart */
    const struct muster_view *view;
    const struct muster_findings *findings;
    struct muster_gpu_clocks clocks;
    struct muster_timeline_wait *wait; /* one an operation */
    uint32_t *of_member;               /* operations by member, by begin */
    uint32_t *member_end;              /* of each member in of_member */
    uint64_t *host;                    /* of each GPU: number of its host, from 1 */
    bool whole;
    bool dated;       /* operations are near findings: only these are shown */
    uint64_t last_ns; /* the latest end, on the axis */
    struct muster_timeline_count *count;
};

/* Clocks, waits, order. -1: no memory. */
int muster_timeline_prepare(struct muster_timeline *timeline, struct muster_err *err);
void muster_timeline_free(struct muster_timeline *timeline);

/* Where an operation with GPU times begins on the axis. */
static inline uint64_t muster_timeline_at(const struct muster_timeline *timeline, uint32_t gpu,
                                          uint64_t gpu_ns)
{
    return gpu_ns + (uint64_t)muster_gpu_clock_offset(&timeline->clocks.gpu[gpu], gpu_ns);
}

/* Whether this moment of the axis is shown. */
bool muster_timeline_shows(const struct muster_timeline *timeline, uint64_t at_ns);

/* A finding's moment on the axis; where nothing is near it, the end. */
uint64_t muster_timeline_of_unix(const struct muster_timeline *timeline, uint64_t unix_ns);

/* Everything, packet by packet; what cannot be written shows in `out`. False: no memory. */
bool muster_perfetto_write(const struct muster_timeline *timeline, FILE *out);

#endif
