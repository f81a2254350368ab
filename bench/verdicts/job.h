/*
 * A generated training job: what each rank's host thread, compute stream and communication streams
 * do in a step, who talks with whom, how noisy it all is, and what is wrong with it. Written apart
 * from the detector: of muster it knows what an operation looks like, and nothing of how one is
 * evaluated. A job is a pure function of its seed and category. Times are in ns.
 */
#ifndef MUSTER_BENCH_VERDICTS_JOB_H
#define MUSTER_BENCH_VERDICTS_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chance.h"

enum {
    JOB_RANKS_MAX = 16384,
    JOB_HOST_GPUS = 8,
    JOB_STAGES_MAX = 8,
    JOB_SLOTS = 32, /* ends of calls that a rank may wait for */
    JOB_FAULTS_MAX = 4,
};

enum job_family {
    FAMILY_DDP,
    FAMILY_FSDP,
    FAMILY_TP,
    FAMILY_PIPELINE,
    FAMILY_INTERLEAVED,
    FAMILY_EXPERTS,
    FAMILY_EXPERT_SENDS,
    FAMILY_CONTEXT,
    FAMILIES
};

enum job_category {
    CASE_LATE_GPU,
    CASE_LATE_CPU,
    CASE_SLOW_GPU,
    CASE_THERMAL,
    CASE_SLOW_HOST,
    CASE_SLOW_LINK,
    CASE_TWO,
    CASE_MOVES,
    CASE_MIXED_TIMING,
    CASE_3D,
    CASE_MISSING_LOGS,
    CASE_NOISE,
    CASE_PARTIAL_IN,
    CASE_PARTIAL_OUT,
    CASE_ACCUMULATE,
    CASE_RANK0,
    CASE_TICKS,
    CASE_GRAPH,
    CASE_CLEAN,
    CASE_SEQUENCES,
    CASE_ROUTING,
    CASE_HOT_EXPERT,
    CASE_GC,
    CASE_STAGES,
    CASE_INPUT_WAIT,
    CASE_WARM_UP,
    CASE_NO_GPU_TIMES,
    CASES
};

const char *job_family_word(unsigned family);
const char *job_category_word(unsigned category);
/* -1: no such word. */
int job_family_of(const char *word);
int job_category_of(const char *word);

/* Communicators of a rank. */
enum job_group {
    GROUP_ALL,
    GROUP_DATA,
    GROUP_TENSOR,
    GROUP_STAGES,
    GROUP_EXPERT,
    GROUP_RING,
    GROUPS
};

/* The members of a rank's communicator: `n` ranks in steps of `stride`. n 0: there is none. */
struct job_shape {
    unsigned n, stride;
};

enum action_kind {
    ACT_HOST,   /* the host thread works */
    ACT_KERNEL, /* the compute stream works, launched by the host */
    ACT_CALL,   /* a collective on the communicator's stream */
    ACT_RING,   /* a send to the next and a receive from the one before, in one launch */
    ACT_LEGS,   /* sends and receives between stages, in one launch */
    ACT_WAIT,   /* the compute stream waits for the end of the call in `slot` */
    ACT_MARK,   /* a place in the compute stream that later calls may wait for */
    ACT_SYNC,   /* the host waits for the compute stream */
};

enum action_part { PART_INPUT, PART_FORWARD, PART_BACKWARD, PART_EXPERT, PART_UPDATE, PARTS };

/* What a call waits for beside its own stream. */
enum action_need { NEED_COMPUTE, NEED_MARK };

struct action {
    uint8_t kind, group, func, slot, part, need;
    uint8_t legs;
    bool micro;     /* of an accumulated micro-step that ends in no all-reduce */
    bool by_sends;  /* ACT_CALL: of grouped sends and receives, everybody to everybody */
    uint16_t leg;   /* first of `legs` in program.leg */
    double ns;      /* of work; of the transfer */
    uint64_t count; /* float32 elements */
};

struct action_leg {
    uint8_t peer; /* in GROUP_STAGES */
    bool send;
};

/* A step of the ranks of one pipeline stage. */
struct program {
    struct action *action;
    unsigned n, room;
    struct action_leg *leg;
    unsigned legs, leg_room;
    unsigned calls; /* launches of a step */
};

/* What ranks differ by without anything being wrong. */
struct job_noise {
    double speed;  /* GPUs of a kind: up to so much slower than the fastest */
    double wander; /* clocks: up to so much slower for a while */
    unsigned wander_steps;
    double kernel;      /* deviation of a kernel, relative */
    double spike_share; /* of kernels */
    double spike_ns;
    double host_speed; /* hosts: up to so much slower than the fastest */
    double host;       /* deviation of host work, relative */
    double host_spike_share, host_spike_ns;
    double pause_share; /* of steps: collector of garbage */
    double pause_ns;
    double link;                  /* deviation of transfers, relative */
    double batch;                 /* of a rank's step: lengths of sequences */
    double routing;               /* of a rank's expert work */
    double input_share, input_ns; /* steps in which every rank waits for its input */
    double warm_up_ns;            /* of each rank in its first steps: compiling, caches */
    unsigned warm_up_steps;
};

enum fault_how {
    HOW_GPU,    /* more work in one place of the step */
    HOW_HOST,   /* the host thread is held up in one place of the step */
    HOW_SLOW,   /* every kernel takes `factor` longer (0.1: by 10 %) */
    HOW_DRIFT,  /* the same, growing from nothing over the run */
    HOW_EXPERT, /* only kernels of experts */
    HOW_LINK,   /* transfers of communicators that go from host `first` to host `to` */
};

struct fault {
    enum fault_how how;
    unsigned first, ranks; /* culprits: ranks [first, first + ranks) */
    unsigned to;           /* HOW_LINK: host; `first` is the other, ranks 0 */
    unsigned at;           /* HOW_GPU, HOW_HOST: action of the step */
    unsigned stage;        /* whose step */
    double ns, factor;
    double share;         /* of the steps */
    unsigned from, until; /* steps [from, until) */
    unsigned every;       /* of these each so-manieth; 0, 1: all */
    bool owed;            /* somebody's fault; false: what the job is like, may be named */
};

enum job_timing { TIMED_FULL, TIMED_AUTO, TIMED_LIGHT };

struct job {
    uint64_t seed;
    enum job_category category;
    enum job_family family;
    unsigned ranks, stages, steps, accumulate;
    struct job_shape shape[GROUPS];
    struct program program[JOB_STAGES_MAX];
    struct job_noise noise;
    struct fault fault[JOB_FAULTS_MAX];
    unsigned faults;
    unsigned calm;   /* 1 + a rank that has no noise of its own, to see what that costs; 0: none */
    bool sync;       /* the host waits for its GPU in each step */
    bool eager;      /* sends are over once they are buffered, whether or not anybody receives */
    bool graph;      /* the step is a captured graph */
    double ahead_ns; /* that a host may be before its GPU */
    double work_ns;  /* of computing in a step, of one GPU */
    double step_ns;  /* of a clean step, as simulated */
    /* How it is recorded. */
    uint8_t timing[JOB_RANKS_MAX]; /* enum job_timing */
    uint8_t level; /* auto: one block in 2^level is timed; ranks may differ by one */
    bool level_differs;
    bool seen[JOB_RANKS_MAX];
    bool blind;     /* no rank has GPU times; what would have been timed counts as hit */
    double lost;    /* share of operations that the log has not */
    bool by_events; /* times by CUDA events, to half a microsecond; else the GPU's stamps */
};

/* family FAMILIES: any that the category allows. ranks 0: as the case has it. */
void job_draw(uint64_t seed, enum job_category category, enum job_family family, unsigned ranks,
              struct job *to);
/* Faults as a share of the time of a step: needs step_ns. */
void job_draw_faults(struct job *job);
void job_free(struct job *job);

static inline unsigned job_stage(const struct job *job, unsigned rank)
{
    return job->stages < 2 ? 0 : rank / (job->ranks / job->stages);
}

static inline unsigned job_host(unsigned rank)
{
    return rank / JOB_HOST_GPUS;
}

/* The rank's place in its communicator, and the first member. */
static inline unsigned job_local(const struct job *job, enum job_group group, unsigned rank)
{
    return rank / job->shape[group].stride % job->shape[group].n;
}

static inline unsigned job_first(const struct job *job, enum job_group group, unsigned rank)
{
    return rank - job_local(job, group, rank) * job->shape[group].stride;
}

static inline unsigned job_member(const struct job *job, enum job_group group, unsigned first,
                                  unsigned local)
{
    return first + local * job->shape[group].stride;
}

/* Whether a communicator's members are on several hosts. */
bool job_crosses(const struct job *job, enum job_group group, unsigned first);

#endif
