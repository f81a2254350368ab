/* Times of all questions at once: by how much something is sooner. For what_if.c alone. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_WHAT_IF_LANES_H
#define MUSTER_DIAGNOSE_STRAGGLER_WHAT_IF_LANES_H

#include "diagnose/straggler/what_if.h"

/* Where a circle of edges had to be cut, what is followed is not known yet, and holds nothing. */
#define NOT_YET (INT64_MAX / 4)

static const struct muster_lanes none = {{0}};
static const struct muster_lanes not_yet = {{NOT_YET, NOT_YET}};

static inline struct muster_lanes later(struct muster_lanes a, struct muster_lanes b)
{
    for (unsigned l = 0; l < MUSTER_LANES; l++)
        a.ns[l] = muster_ns_most(a.ns[l], b.ns[l]);
    return a;
}

static inline struct muster_lanes sooner(struct muster_lanes a, struct muster_lanes b)
{
    for (unsigned l = 0; l < MUSTER_LANES; l++)
        a.ns[l] = muster_ns_least(a.ns[l], b.ns[l]);
    return a;
}

static inline struct muster_lanes plus(struct muster_lanes a, int64_t ns)
{
    for (unsigned l = 0; l < MUSTER_LANES; l++)
        a.ns[l] += ns;
    return a;
}

static inline bool is_known(struct muster_lanes at)
{
    return at.ns[0] < NOT_YET / 2 && at.ns[1] < NOT_YET / 2;
}

/* The sooner of those that are known. */
static inline struct muster_lanes soonest(struct muster_lanes a, struct muster_lanes b)
{
    return !is_known(a) ? b : is_known(b) ? later(a, b) : a;
}

#endif
