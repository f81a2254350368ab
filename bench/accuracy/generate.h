/*
 * Generated jobs with known culprits, for scoring plugin/diagnose. Made from the steps of real
 * recordings (extract.py) by simulating what collectives do: nobody goes on before the last has
 * come. A case is a pure function of its seed. Shares no code with the detector: of muster it knows
 * only what an operation looks like (segment/op.h).
 */
#ifndef MUSTER_BENCH_ACCURACY_GENERATE_H
#define MUSTER_BENCH_ACCURACY_GENERATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "diagnose/finding.h"
#include "draw.h"
#include "segment/layout.h"
#include "view/view.h"

enum {
    MODELS_MAX = 8,
    POSITIONS_MAX = 64,
    BASE_RANKS = 4,
    RANKS_MAX = 1024,
    CULPRIT_MAX = 2,
};

enum group { GROUP_WORLD, GROUP_TP, GROUP_DP };

struct position {
    enum group group;
    uint8_t func;
    uint64_t count;
};

struct model {
    char name[32];
    unsigned positions, steps;
    struct position position[POSITIONS_MAX];
    uint64_t *transfer_ns;          /* [step * positions + position] */
    int64_t (*self_ns)[BASE_RANKS]; /* the same; -1: not known */
    bool sockets;
};

struct models {
    struct model model[MODELS_MAX];
    unsigned n;
};

/* Exits with a message where the file is not what extract.py writes. */
void models_read(const char *path, struct models *models);
void models_free(struct models *models);

/* FAULT_SLOWED: transfers of one communicator take longer for some of the steps. */
enum fault { FAULT_NONE, FAULT_LATE, FAULT_SLOW, FAULT_SLOWED };

struct scenario {
    uint64_t seed;
    const struct model *model;
    enum fault fault;
    unsigned ranks, steps;
    unsigned culprit[CULPRIT_MAX], n_culprits; /* slow: from, to */
    uint64_t delay_ns;
    double share;      /* of the places that the delay can hit */
    bool everywhere;   /* every position of the step can be hit; else one */
    unsigned position; /* that one */
    double factor;     /* slow: transfers over the culprit's link; slowed: of the communicator */
    enum group slow_group; /* slowed: of which rank `slow_first` is the first */
    unsigned slow_first;
    unsigned slow_from, slow_to; /* steps */
    bool jitter;                 /* a delay of somebody else each time */
    unsigned burst;              /* of so many steps in a row; 0 as 1 */
    bool overlap;         /* a step computes on while its operations wait; it ends when all have */
    bool host_bound;      /* each operation waits for its host; hosts are as fast as each other */
    unsigned pause_every; /* steps between checkpoints of all ranks; 0: none */
    bool blocks;          /* timed in blocks */
    double dropped;       /* share of operations that are missing */
    unsigned hidden;      /* ranks that are not seen, the last ones that are no culprits */
    bool culprit_hidden;
    bool host; /* the delay is on the host: its call comes late */
};

/* What the case is; `large`: up to RANKS_MAX ranks. */
void scenario_draw(const struct models *models, uint64_t seed, bool large, struct scenario *to);

/* What came out besides the operations. */
struct outcome {
    uint64_t timed;    /* operations per rank with GPU times */
    uint64_t affected; /* of them, hit by the delay on the first culprit */
    uint64_t hits;     /* the same of all its operations */
    double length_ns;  /* of the job */
    uint64_t p99_ns;   /* clean deviation of the classes that can be hit, the largest, with what
                          the GPUs' clocks add to the recording's */
};

struct sink {
    void *arg;
    /* Ranks that are seen, in order; then their communicators; then operations in the order of
     * their begin, and network totals. `comm` of the operation is not set. */
    uint32_t (*gpu)(void *arg, unsigned rank);
    uint32_t (*member)(void *arg, uint32_t gpu, uint64_t id, unsigned rank, unsigned nranks,
                       unsigned nnodes);
    void (*op)(void *arg, uint32_t member, const struct muster_op *op);
    void (*net)(void *arg, uint32_t member, const struct muster_seg_net *net);
};

/* Feeds a view; its GPUs time all. */
struct sink sink_of_view(struct muster_view *view);

/* In a job whose ranks all stop for checkpoints it is true that all wait alike: no verdict on what
 * these cases are about. */
void drop_checkpoints(const struct scenario *s, struct muster_findings *findings);

void scenario_play(const struct scenario *scenario, const struct sink *sink,
                   struct outcome *outcome);

/* The speed of one GPU over time: clocks change for a tenth of a second, and no two GPUs are alike.
 * As on H200 (docs/constants.md): 2.5 % between GPUs, up to 12.5 % for a while. */
struct speed {
    double offset, state; /* of computing time */
    double until_ns;
};

void speed_draw(struct draw *draw, struct speed *speed);
/* How many times as long it computes at this time. */
double speed_at(struct draw *draw, struct speed *speed, double now_ns);

/* Deviations between ranks, by size. */
enum { DEVIATIONS = 64 * 16 };
struct deviations {
    uint32_t count[DEVIATIONS];
};

void deviations_add(struct deviations *deviations, double ns);
uint64_t deviations_p99(const struct deviations *deviations);

/* "seed 7: clean, 4 ranks, ..." */
void scenario_print(const struct scenario *scenario, FILE *out);

#endif
