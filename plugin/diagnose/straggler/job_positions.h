/* Where in the step each call of a GPU stands, and which GPUs make the same calls, step for step.
 * Between job_units.c and job_positions.c. Calls are told apart by numbers, so that each is looked
 * up as seldom as can be: steps are alike. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_JOB_POSITIONS_H
#define MUSTER_DIAGNOSE_STRAGGLER_JOB_POSITIONS_H

#include "diagnose/straggler/hash_index.h"
#include "diagnose/straggler/job_graph.h"

enum {
    MUSTER_LAST_CALLS = 4, /* a position is told by so many calls */
    MUSTER_CALLS_MET = 1024,
    MUSTER_PLACES_MET = 512,
};

/* One call of a GPU, in their order. */
struct muster_call {
    uint32_t hash : 30; /* of the last calls: its number */
    uint32_t mark : 1;  /* here a step begins */
    uint32_t torn : 1;  /* calls are missing before it */
    uint32_t unit;      /* MUSTER_NO_UNIT: not timed */
};

/* A call that was met after a certain one. */
struct muster_call_met {
    uint64_t before, what; /* hash; member and class */
    uint64_t signature, hash;
    uint32_t number; /* of the hash, + 1; 0: free */
};

/* A place of the step that was met. */
struct muster_place_met {
    uint64_t place;
    uint32_t hash;  /* number, + 1; 0: free */
    uint32_t label; /* number in graph->label, + 1; 0: none yet */
    uint32_t met;   /* number of the position, + 1; 0: none yet */
};

/* What the steps of a GPU begin with. */
struct muster_mark_met {
    uint64_t hash, count, calls; /* count: of so many calls */
};

/* Hashes with numbers, and how often each was met. */
struct muster_counts {
    struct muster_places number;
    uint64_t *hash;
    uint32_t *count;
    size_t n;
};

struct muster_positions {
    struct muster_graph *graph;
    struct muster_arena *memory;
    /* Of the GPU at hand. */
    struct muster_call *call;
    size_t calls, sends; /* sends: and receives, of them */
    uint64_t step;       /* calls from mark to mark, at most; 0: nowhere all of a step are known */
    uint64_t last[MUSTER_LAST_CALLS]; /* of call i at i % MUSTER_LAST_CALLS */
    uint64_t last_hash;
    unsigned row; /* calls since some were missing, as many as `last` at most */
    struct muster_counts hashes, met;
    struct muster_call_met call_met[MUSTER_CALLS_MET];
    struct muster_place_met place_met[MUSTER_PLACES_MET];
    uint64_t *sorted, *longer; /* room for as many counts, and hashes */
    /* Of all. */
    struct muster_places labels;
    struct muster_mark_met *mark;
    size_t marks;
    struct muster_sketch *sketch; /* of each program that was met */
    size_t programs;
    struct muster_sketch *of_gpu; /* of the GPUs of a second half, by GPU; NULL: programs are set */
};

/* Room for the calls of the busiest GPU. */
void muster_positions_begin(struct muster_positions *positions, struct muster_graph *graph,
                            struct muster_arena *memory, size_t most);

/* GPU by GPU: its calls, in their order (unit: MUSTER_NO_UNIT where it was not timed; missing: some
 * between it and the one before are not known); then sets the labels of its units, and its program.
 */
void muster_positions_next_gpu(struct muster_positions *positions);
void muster_positions_add(struct muster_positions *positions, const struct muster_view_op *op,
                          uint32_t unit, bool missing);
void muster_positions_set(struct muster_positions *positions, uint32_t gpu);

/* The GPUs from `from` on went through `more`, which began with room for their sketches and with
 * the marks that `positions` had met: they come behind those of `positions`, as if they had gone
 * through it. Its labels are numbered anew, those of its units, `first` and up, too. */
void muster_positions_keep_sketches(struct muster_positions *more,
                                    const struct muster_positions *positions);
void muster_positions_join(struct muster_positions *positions, struct muster_positions *more,
                           size_t from, size_t first);

#endif
