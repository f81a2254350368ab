/* Between path*.c only. */
#ifndef MUSTER_DIAGNOSE_PATH_PATH_INTERNAL_H
#define MUSTER_DIAGNOSE_PATH_PATH_INTERNAL_H

#include "diagnose/path/path_pair.h"

struct muster_path_missing {
    uint32_t host;
    struct muster_path_pair pair;      /* one of them */
    uint32_t comm;                     /* where it is */
    uint32_t pairs;                    /* of that communicator on this host */
    const struct muster_view_net *net; /* the network carries some of it; NULL: not seen */
    const struct muster_view_gpu *net_to;
};

struct muster_path_scan {
    const struct muster_view *view;
    struct muster_arena *memory;
    uint32_t *host; /* of each GPU of the view */
    /* While a communicator is looked at: the next member on the same host, and the first one of
     * each host; MUSTER_VIEW_NONE: none. */
    uint32_t *next, *first;
    struct muster_path_missing *missing;
    size_t n;
    const struct muster_view_net *unknown; /* inside a host, between GPUs without facts; or NULL */
};

void muster_path_format_missing(const struct muster_view *view,
                                const struct muster_path_missing *missing,
                                const struct muster_path_reached *reached,
                                struct muster_finding *finding);

/* Paths that are used and do less than they can, and NICs of the other socket. */
int muster_path_find_low(const struct muster_path_scan *scan, struct muster_findings *findings);

/* A finding about a pair of GPUs: who, where, since when. */
void muster_path_begin(const struct muster_view *view, uint32_t comm,
                       const struct muster_view_gpu *a, const struct muster_view_gpu *b,
                       struct muster_finding *finding);

/* Right of made-up machines: what is counted or configured (bench/paths, seeds 101 to 200), and
 * what is concluded from figures alone, for which no cases are generated. */
double muster_path_confidence(bool concluded);

#endif
