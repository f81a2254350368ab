/* Who may hold the others back: ranks, or hosts, of whose lateness there is evidence. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_SUSPECTS_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_SUSPECTS_H

#include "diagnose/straggler/job_graph.h"

enum { MUSTER_SUSPECTS = 16 };

/* A rank, or all ranks of a host. */
struct muster_suspect {
    uint32_t gpu;  /* the first of them */
    uint32_t seat; /* where it is late most */
    bool host;     /* all ranks of its host */
    bool ordinary; /* as slow as any GPU may be: late at several places, by little in all */
    double excess_ns;
    double gain_ns;  /* what the job would have saved */
    double alone_ns; /* the same if all other suspects stay as they are */
    double last_ns;  /* the same once all other suspects are as usual */
    double share;    /* of the time that its timed operations cover */
    double run_ns;   /* its gain in the whole run, what was not timed included */
};

struct muster_suspects {
    struct muster_suspect suspect[MUSTER_SUSPECTS]; /* by gain */
    double worth;   /* share of the time from which on a gain is worth a finding */
    uint8_t *group; /* of each GPU: suspect it belongs to; 255: none */
    /* The same, and of GPUs that came late because they had waited for one, unseen: that one. */
    uint8_t *bound;
    uint32_t *because; /* of each GPU the one that it had waited for; MUSTER_NO_UNIT: none */
    /* Of suspect s and GPU g at [s * gpus + g]: how much less it would have waited; ns. */
    double *waits;
    size_t n;
};

/* Of a graph whose seats are evaluated: n suspects, the most late first, and of each GPU because of
 * whom it is late. A host whose ranks are all late alike is one suspect. Ranks that wait for a late
 * one in their communicator come as late as it does to what follows; where that wait was not timed
 * they seem late by themselves, and are no suspects; nor is who is late as several others are, by
 * little in all. span: of each GPU. Without memory the graph's arena has failed.
 */
void muster_suspects_choose(const struct muster_graph *graph, const struct muster_view_span *span,
                            struct muster_suspects *suspects);

#endif
