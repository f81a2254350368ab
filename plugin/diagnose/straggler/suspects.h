/* From evidence to culprits: whose lateness cost the job time. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_SUSPECTS_H
#define MUSTER_DIAGNOSE_STRAGGLER_SUSPECTS_H

#include "diagnose/straggler/job_graph.h"
#include "view/coverage.h"

enum { MUSTER_SUSPECTS = 16 };

/* A rank, or all ranks of a host. */
struct muster_suspect {
    uint32_t gpu;  /* the first of them */
    uint32_t seat; /* where it is late most */
    bool host;     /* all ranks of its host */
    double excess_ns;
    double gain_ns;  /* what the job would have saved */
    double alone_ns; /* the same if all other suspects stay as they are */
    double last_ns;  /* the same once all other suspects are as usual */
    double share;    /* of the time that its timed operations cover */
};

struct muster_suspects {
    struct muster_suspect suspect[MUSTER_SUSPECTS]; /* by gain */
    uint8_t *group; /* of each GPU: suspect it belongs to; 255: none */
    /* Of suspect s and GPU g at [s * gpus + g]: how much less it would have waited; ns. */
    double *waits;
    size_t n;
};

/* Those that are worth naming, by their gain; in the graph's memory. */
void muster_suspects_find(const struct muster_graph *graph, const struct muster_view_span *span,
                          struct muster_suspects *suspects);

#endif
