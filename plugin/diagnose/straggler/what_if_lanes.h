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

/* What it followed was not timed, but another rank tells when it was over. */
static inline bool met_untimed(const struct muster_graph *graph, uint32_t u)
{
    return graph->untimed && graph->untimed[u].before != MUSTER_NO_UNIT &&
           !(graph->unit[u].known >> graph->unit[u].edge & 1);
}

/* What it followed was not seen: it is as much sooner as those that it meets. */
static inline bool is_free(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return !(unit->known >> unit->edge & 1) &&
           !met_untimed(graph, (uint32_t)(unit - graph->unit)) &&
           muster_unit_before(graph, unit, unit->edge) != MUSTER_NO_UNIT;
}

static const struct muster_lanes_after after_not_yet = {{MUSTER_NO_SHORT, MUSTER_NO_SHORT}};

/* Units of a turn are so close to each other that four bytes hold what lies between. */
static inline struct muster_lanes_after
after(struct muster_what_if *what_if, const struct muster_lanes *first, struct muster_lanes at)
{
    struct muster_lanes_after own = after_not_yet;
    for (unsigned l = 0; l < MUSTER_LANES && is_known(at); l++)
        own.ns[l] = muster_shorten_ns(&what_if->far_after, at.ns[l] - first->ns[l]);
    return own;
}

/* u: whose time it is. */
static inline struct muster_lanes at(const struct muster_what_if *what_if, uint32_t u,
                                     struct muster_lanes_after own)
{
    const struct muster_lanes *first = &what_if->first[what_if->graph->unit[u].turn];
    struct muster_lanes at = own.ns[0] == MUSTER_NO_SHORT ? not_yet : *first;
    for (unsigned l = 0; l < MUSTER_LANES && own.ns[0] != MUSTER_NO_SHORT; l++)
        at.ns[l] += muster_ns_of_short(&what_if->far_after, own.ns[l]);
    return at;
}

static inline struct muster_lanes begin_of(const struct muster_what_if *what_if, uint32_t u)
{
    return at(what_if, u, what_if->begin[u]);
}

static inline struct muster_lanes call_of(const struct muster_what_if *what_if, uint32_t u)
{
    return at(what_if, u, what_if->call[u]);
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
