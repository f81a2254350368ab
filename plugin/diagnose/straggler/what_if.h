/* What the job would have taken if some GPUs had needed no longer than is usual, where they are
 * late. In each turn such a GPU needs what is usual in it, and as much more as another one, which
 * is not late, in the turn before: so that it is as uneven as the others are. Of two ranks this may
 * also make it later: else two that are late by turns would each have cost something. The graph is
 * gone through once more, and of every unit it is found how much sooner than it did it begins: by
 * as much as what it follows is over sooner, and of what waits for others by as much as the last of
 * them, less what the others waited for that one. Nothing is moved by what was as it was, however
 * well the graph explains it. Who waited for whom in what was not timed is not known: after it who
 * is met is as much sooner as any of those that meet. What one such walk costs is the graph, so
 * that it answers two questions at a time. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_WHAT_IF_H
#define MUSTER_DIAGNOSE_STRAGGLER_WHAT_IF_H

#include "diagnose/straggler/job_graph.h"

enum { MUSTER_LANES = 2 }; /* questions */

/* A time of each: by how much something is sooner. */
struct muster_lanes {
    int64_t ns[MUSTER_LANES];
};

/* The same beyond that of the first of a turn, shortened; MUSTER_NO_SHORT in the first of them: not
 * known. */
struct muster_lanes_after {
    int32_t ns[MUSTER_LANES];
};

/* A unit of the turn that a walk is at. */
struct muster_what_if_unit {
    struct muster_lanes begin;
    int64_t length_ns;
    uint32_t gpu;
};

struct muster_what_if {
    const struct muster_graph *graph;
    struct muster_what_if_unit *unit; /* of the turn at hand */
    struct muster_lanes_after *begin; /* of each unit; NULL where nothing follows a begin */
    struct muster_lanes_after *call;  /* of its host; NULL where nothing follows a call */
    struct muster_lanes *first;       /* of each turn: of its first unit; NULL without these two */
    bool keeps;                       /* there is one of these two */
    struct muster_lanes *last;        /* of each turn: the last of its units to begin */
    struct muster_lanes *waited;      /* of each GPU, in turns that are over with their last */
    struct muster_arena walk;         /* what the last walk left, beside these */
    struct muster_long_ns far_after;
    /* Of each position: beyond the usual time, of another GPU in the turn before. */
    struct muster_lanes *other;
    bool *compared;    /* of each position: `other` is asked for, as some seat is hastened */
    uint8_t *usual;    /* of each seat: the questions in which its GPU is as usual, by bits */
    uint8_t *hastened; /* these, where it is late otherwise */
    int64_t *least_ns; /* of each position: of the shortest of its units */
    bool *timed;       /* of each communicator: all its ranks are, now and then at least */
    bool *torn;        /* of each GPU: what it did between its units is not all known */
};

/* Of an arena: where that has failed nothing else may be asked. */
void muster_what_if_begin(struct muster_what_if *what_if, const struct muster_graph *graph,
                          struct muster_arena *memory);

/* When the last unit is over if the GPUs of `group` whose bit is in `usual` are as usual, for each
 * of two such sets. group: of each GPU its number, below 32; more: none. */
struct muster_lanes muster_what_if(struct muster_what_if *what_if, const uint8_t *group,
                                   const uint32_t usual[MUSTER_LANES]);

/* As the last call left it: how long each GPU waits for others in all; ns. Of the first question
 * for all GPUs, then of the second. */
void muster_what_if_waits(const struct muster_what_if *what_if, double *of_gpu);

/* The arena has failed if memory was short: what was answered is wrong then. */
void muster_what_if_end(struct muster_what_if *what_if, struct muster_arena *memory);

/* What the whole job would have saved if transfers had been shorter: nothing where computing hid
 * it. keep: of each communicator of the view the share of its transfers' time that stays; 1: all.
 * Goes through the happens-before graph anew; 0 once the arena, which checks are for, has failed.
 */
double muster_hastened_ns(const struct muster_view *view, const double *keep,
                          struct muster_arena *memory);

#endif
