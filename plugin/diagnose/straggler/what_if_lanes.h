/* Times of all questions at once: by how much something is sooner, or the last of those that wait
 * for each other. For what_if.c alone. */
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

/* A time is known of all questions, or of none. */
static inline bool is_known(struct muster_lanes at)
{
    return at.ns[0] < NOT_YET / 2;
}

/* The sooner of those that are known. */
static inline struct muster_lanes soonest(struct muster_lanes a, struct muster_lanes b)
{
    return !is_known(a) ? b : is_known(b) ? later(a, b) : a;
}

/* Of units that wait for each other: how much sooner the last of them comes. What is free is as
 * much sooner as any of them was before: what was not seen may have let it wait for that one. */
struct coming {
    struct muster_lanes known, soonest;
    int64_t free_slack_ns; /* of the free one that waited least */
    bool any, any_known, any_free;
};

static inline void come(struct coming *coming, struct muster_lanes at, int64_t slack_ns, bool free)
{
    coming->soonest = coming->any ? later(coming->soonest, at) : at;
    coming->any = true;
    if (free) {
        int64_t least_ns = coming->any_free ? coming->free_slack_ns : slack_ns;
        coming->free_slack_ns = muster_ns_least(least_ns, slack_ns);
        coming->any_free = true;
    } else {
        at = plus(at, slack_ns);
        coming->known = coming->any_known ? sooner(coming->known, at) : at;
        coming->any_known = true;
    }
}

/* Who was not seen may have come last, and is as free. */
static inline void come_unseen(struct coming *coming)
{
    coming->free_slack_ns = 0;
    coming->any_free = true;
}

static inline struct muster_lanes came(const struct coming *coming)
{
    if (!coming->any)
        return not_yet;
    if (!coming->any_free)
        return coming->known;
    struct muster_lanes free = plus(coming->soonest, coming->free_slack_ns);
    return coming->any_known ? sooner(coming->known, free) : free;
}

#endif
