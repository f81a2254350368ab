/*
 * The part of a large job that is looked at closely: the few hosts that the sieve shows, those that
 * share a small communicator with them, and a sample of all others to hold them against. The join
 * keeps longer windows of these (struct muster_join_process, `near`), and a look at them takes a
 * fraction of one at all. One thread.
 */
#ifndef MUSTER_FLEET_NEAR_H
#define MUSTER_FLEET_NEAR_H

#include "fleet/sieve.h"

enum { MUSTER_NEAR_HOSTS = 8 };

struct muster_near {
    struct muster_sieve sieve;
    uint32_t host[MUSTER_NEAR_HOSTS]; /* that the sieve shows, ascending */
    size_t hosts;
    size_t processes; /* of the join, when they were marked */
    bool fresh;       /* some host shows that did not six seconds ago */
    struct muster_near_host {
        double score; /* of its highest rank */
        uint64_t first_ns,
            shown_ns; /* when that was worth a look first in a row, and last; 0: never */
    } *of_host;       /* of each of the join */
    double *sorted;   /* their scores, ascending */
    size_t room;      /* of these two */
};

/* Looks who it is now, and marks their processes. To begin with: {0}. False: no memory. */
bool muster_near_choose(struct muster_near *near, struct muster_join *join, uint64_t now_ns);
void muster_near_free(struct muster_near *near);

#endif
