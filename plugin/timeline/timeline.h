/*
 * A run as a Perfetto trace: a track a rank and communicator under its host, a slice an operation,
 * inside it whom it waited for and the transfer, an arrow from the rank that came last to the one
 * that waited longest, findings as instants, counters of each rank. GPU clocks are laid on one axis
 * (gpu_clocks.h); how and how well stands in the trace, at the start of each rank.
 */
#ifndef MUSTER_TIMELINE_TIMELINE_H
#define MUSTER_TIMELINE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "diagnose/finding.h"
#include "view/view.h"

struct muster_timeline_count {
    uint64_t drawn;   /* operations */
    uint64_t untimed; /* without GPU times: not drawn */
    uint64_t outside; /* of the windows around findings: not drawn */
};

/* Around a finding that much is shown unless all is asked for; without findings, or with nothing
 * near them, the run's end. */
enum { MUSTER_TIMELINE_BEFORE_S = 1, MUSTER_TIMELINE_AFTER_S = 9 };

/* A trace of torch.profiler that is packed beside ours. */
struct muster_timeline_beside {
    const char *path;     /* in */
    int64_t rank;         /* as in the file; -1: not there */
    size_t operations;    /* NCCL's kernels in it that name their group and number */
    size_t matched;       /* of them, found in the run: what the offset rests on; 0: not laid */
    int64_t offset_ns;    /* from its clock to the axis */
    uint64_t residual_ns; /* median of what single operations stray */
};

struct muster_timeline_request {
    const char *path;
    bool whole;
    struct muster_timeline_beside *beside; /* filled; with any, the file is a tar archive of all */
    size_t besides;
};

/* Writes request->path, which is there whole or not at all. The view is finished, with what each
 * GPU did in between. Memory: 12 bytes an operation. */
int muster_timeline_write(const struct muster_view *view, const struct muster_findings *findings,
                          const struct muster_timeline_request *request,
                          struct muster_timeline_count *count, struct muster_err *err);

#endif
