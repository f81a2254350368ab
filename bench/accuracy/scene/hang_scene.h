/*
 * Generated jobs that hang, or only look as if they did, for scoring plugin/diagnose/hang. What the
 * hosts of all ranks call, when their GPUs begin and end it, and what is left of that in segments
 * and logs at the moment somebody looks. A case is a pure function of its seed. Shares no code with
 * the detector: of muster it knows only what a segment looks like (segment/layout.h).
 */
#ifndef MUSTER_BENCH_ACCURACY_SCENE_HANG_SCENE_H
#define MUSTER_BENCH_ACCURACY_SCENE_HANG_SCENE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "run/run.h"

enum {
    HANG_RANKS_MAX = 1024,
    HANG_POSITIONS_MAX = 24,
    HANG_CULPRIT_MAX = 8,
    HANG_CHANNELS = 8,
};
#define HANG_THRESHOLD_S 10.0
#define HANG_NEVER       1e300

enum hang_fault {
    HANG_NOTHING,     /* a running job */
    HANG_PAUSE,       /* all ranks do something else for long, having finished what they called */
    HANG_SHORT_PAUSE, /* one rank does, for less than the threshold; the others wait */
    HANG_ARRIVED,     /* one rank did for longer, and came */
    HANG_FINISHED,    /* the job is over */
    HANG_INTERRUPTED, /* the running job was killed as a whole */
    HANG_HARMLESS,    /* ranks called different types of the same size, and went on */
    HANG_ABSENT,
    HANG_DEAD,
    HANG_DIFFERENT, /* another function, size, type or root */
    HANG_EXTRA,     /* one call too many */
    HANG_SKIPPED,   /* one call too few */
    HANG_STUCK,
    HANG_GPU_BUSY, /* a GPU that computes for ever: entered by the host, so stuck */
    HANG_ORDER,
    HANG_FAULTS
};

/* What tells that operations ended. */
enum hang_proof { HANG_BY_NONE, HANG_BY_MARKS, HANG_BY_BLOCKS, HANG_BY_KERNELS, HANG_PROOFS };

/* Who an operation is among. */
enum hang_stream {
    HANG_WORLD,
    HANG_SECOND, /* another communicator of all ranks */
    HANG_TP,
    HANG_DP,
    HANG_COMMS,
    /* Sends and receives of a chain: a communicator of its own. */
    HANG_CHAIN = HANG_COMMS,
    HANG_SEND_ON = HANG_COMMS,
    HANG_RECV_ON,
    HANG_SEND_BACK,
    HANG_RECV_BACK,
    HANG_STREAMS
};

struct hang_call {
    uint8_t stream, func, dtype;
    bool sync;    /* the host waits for all before */
    bool grouped; /* launched together with the next call */
    uint64_t count;
    int32_t root; /* or peer */
    unsigned place;
    uint64_t number; /* in its stream */
    double work_ns, transfer_ns;
    /* What came of it: HANG_NEVER while it has not. */
    double call_ns, launch_ns, begin_ns;
    struct hang_meet *meet; /* where its end is */
};

struct hang_position {
    uint8_t stream, func, dtype;
    bool sync, grouped;
    uint64_t count;
    int32_t root;
    double work_ns, transfer_ns;
};

struct hang_case {
    uint64_t seed;
    unsigned ranks, hosts, tp; /* tp: ranks of a tensor-parallel group */
    unsigned positions, steps;
    struct hang_position position[HANG_POSITIONS_MAX];
    bool serial;    /* operations of one GPU run one after another, whatever the communicator */
    unsigned ahead; /* calls that a host may be ahead of its GPU */
    enum hang_fault fault;
    enum hang_proof proof;
    unsigned culprit[HANG_CULPRIT_MAX], n_culprits;
    unsigned place;   /* where it happens: step * positions + position */
    unsigned changed; /* of a different call: 0 function, 1 count, 2 type, 3 root */
    double pause_s;   /* of whoever pauses */
    double look_s;    /* how long after the last thing happened somebody looks */
    bool stopped;     /* the absent process does not even run */
    bool exits;       /* who goes runs its exit handlers */
    bool all_go;      /* the hung job is killed as a whole before somebody looks */
    unsigned hidden;  /* ranks without segment and log */
    bool culprit_hidden;
};

void hang_draw(uint64_t seed, bool large, struct hang_case *to);
void hang_print(const struct hang_case *hang, FILE *out);
const char *hang_fault_name(enum hang_fault fault);
const char *hang_proof_name(enum hang_proof proof);

/* What should be found. */
struct hang_truth {
    bool found;   /* false: nothing may be */
    bool or_none; /* nothing is right, too */
    int kind;     /* enum muster_finding_kind */
    int or_kind;  /* what looks the same to everybody; kind where nothing does */
    bool culprit[HANG_RANKS_MAX];
    bool spare[HANG_RANKS_MAX]; /* culprits, but nobody waits for it: need not be named */
    bool named;                 /* false: no rank may be named */
};

struct hang_job;
/* Plays the case to its end. Never NULL (exits without memory). */
struct hang_job *hang_play(const struct hang_case *hang);
void hang_free(struct hang_job *job);
void hang_emit(const struct hang_job *job, struct hang_truth *truth);

/* One rank as somebody finds it; false: it is not to be seen. */
struct hang_sight {
    struct muster_segment *segment;
    enum muster_process_state state;
    uint64_t seen_ns;
    bool from_log;
};
bool hang_show(const struct hang_job *job, unsigned rank, struct hang_sight *sight);
void hang_hide(struct hang_sight *sight);

#endif
