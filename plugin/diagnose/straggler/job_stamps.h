/* What a send is paired with; ends of receives that cannot be true. Between the files of this
 * folder only. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_JOB_STAMPS_H
#define MUSTER_DIAGNOSE_STRAGGLER_JOB_STAMPS_H

#include "diagnose/straggler/job_graph.h"

/* Units of a send and its receive. */
struct muster_tie {
    uint32_t send, recv;
};

/* No receive is over before its send begins. Where NCCL's stamps say so, the receive ends when its
 * send came and the transfer was done. What ties the two clocks is a collective that both GPUs left
 * together, before and after: so collectives have their turns by then. Changes ends of units alone.
 * `memory` gets what is needed on the way. */
void muster_graph_mend_ends(struct muster_graph *graph, const struct muster_tie *tie, size_t ties,
                            struct muster_arena *memory);

#endif
