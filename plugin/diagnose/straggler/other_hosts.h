/*
 * At each position the bets of the ranks of one host together: who is late there with its whole
 * host is held against the ranks of other hosts. Between e_process.c and other_hosts.c only.
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_OTHER_HOSTS_H
#define MUSTER_DIAGNOSE_STRAGGLER_OTHER_HOSTS_H

#include "diagnose/straggler/job_graph.h"

/* The seats of one host at one position. */
struct muster_host_tally {
    struct muster_tally tally; /* of those that are no culprits */
    uint32_t position, seats;
};

struct muster_other_hosts {
    uint32_t *of_seat; /* of each seat its place in `host`; NULL: there is one host */
    struct muster_host_tally *host;
    size_t hosts;
    uint32_t *seats; /* of each position */
};

/* Of a graph whose seats are counted, in its memory. Fails with it. */
void muster_other_hosts_make(struct muster_other_hosts *hosts, const struct muster_graph *graph);
/* Counts anew, as culprits are now. */
void muster_other_hosts_count(struct muster_other_hosts *hosts, const struct muster_graph *graph);
/* Those of its host at a seat's position; NULL where it is alone there, or other hosts have fewer
 * ranks there than its own. */
const struct muster_host_tally *muster_other_hosts_of(const struct muster_other_hosts *hosts,
                                                      size_t seat);

/* Adds a seat that is no culprit. */
void muster_tally_add(struct muster_tally *tally, const struct muster_seat *seat);
struct muster_tally muster_tally_without(const struct muster_tally *all,
                                         const struct muster_tally *some);

#endif
