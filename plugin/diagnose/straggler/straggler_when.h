/* When a suspect is late: from when to when, and whether by a beat of the job's steps. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_WHEN_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_WHEN_H

#include "diagnose/straggler/suspects.h"

struct muster_when {
    /* But for a fiftieth of its lateness on either side; both 0: never. */
    uint64_t since_unix_ns, until_unix_ns;
    /* Late at each so-manieth step where it is late most, and how long that is; 0: at no beat. */
    uint32_t every_steps;
    double every_s;
    /* Its lateness in the whole run over that in what was timed, as more is timed at some times
     * than at others; 1: all was. */
    double of_run;
};

void muster_when_of(const struct muster_graph *graph, const struct muster_suspects *suspects,
                    size_t s, struct muster_when *when);

/* Whether n suspects are late one after the other: one culprit that moves. */
bool muster_when_moves(const struct muster_when *when, size_t n);

#endif
