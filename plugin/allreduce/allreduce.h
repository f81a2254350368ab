/*
 * The built-in all-reduce job: one process per GPU, made by running this program again, so that
 * CUDA starts only after the fork. For `muster demo` and bench/allreduce.
 */
#ifndef MUSTER_ALLREDUCE_ALLREDUCE_H
#define MUSTER_ALLREDUCE_ALLREDUCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum {
    MUSTER_ALLREDUCE_GPUS = 64,
    MUSTER_ALLREDUCE_SIZES = 16,
    MUSTER_ALLREDUCE_ROUNDS = 256,
    MUSTER_ALLREDUCE_PATH = 1024,
};

enum muster_allreduce_mode {
    MUSTER_ALLREDUCE_LAUNCH, /* host clock around `iters` calls and their completion */
    MUSTER_ALLREDUCE_GPU,    /* CUDA events around `iters` calls */
    MUSTER_ALLREDUCE_STEP,   /* a round is a training step: one call of each size, each between
                                CUDA events; the late rank is late before each step */
    MUSTER_ALLREDUCE_FIRST,  /* host clock around each round, which is `iters` calls and their
                                completion; the first round holds the communicator's first call */
};

/* Plain data, sent to every rank. */
struct muster_allreduce_plan {
    int32_t gpus; /* ranks; rank r uses device r */
    int32_t mode; /* enum muster_allreduce_mode */
    uint32_t sizes;
    uint64_t bytes[MUSTER_ALLREDUCE_SIZES]; /* float32 elements: rounded down to 4, at least 4 */
    uint32_t iters;                         /* per round; not for STEP */
    uint32_t warmup;                        /* calls before the rounds of a size; STEP: steps;
                                               FIRST: none */
    uint32_t rounds;
    int32_t late_rank;     /* STEP only; -1: none */
    uint32_t late_gpu_us;  /* extra work on its GPU before each step */
    uint32_t late_host_us; /* sleep on its host, after its GPU is done, before each step */
    uint32_t cpus; /* 0: the scheduler's choice; else, from a size's warm-up on, rank r's calling
                      thread stays on cpu[r % cpus], and the threads that were made before do not */
    int32_t cpu[MUSTER_ALLREDUCE_GPUS];
    uint32_t hosts; /* not 0: each rank is a host of its own to NCCL (NCCL_HOSTID), and goes by
                       sockets of this machine; any NCCL lets ranks share a GPU so */
    uint32_t jobs;  /* not 0: so many jobs share the GPUs and take turns, a round or warm-up each */
    char turns[MUSTER_ALLREDUCE_PATH]; /* the file that these jobs lock; "": a job alone */
    char nccl[MUSTER_ALLREDUCE_PATH];  /* path of libnccl; "": wherever it is found */
};

struct muster_allreduce_result {
    uint64_t bytes;
    double us[MUSTER_ALLREDUCE_ROUNDS]; /* per all-reduce, mean over ranks, round by round */
    double median_us;
};

struct muster_allreduce_probe {
    int gpus;
    int nccl; /* version code */
    char gpu[64];
};

/* What this machine offers, looked up in a process of its own that is given up after `deadline_s`.
 * Fails if the driver or NCCL cannot be loaded; err has which and why. */
int muster_allreduce_probe(const char *nccl, unsigned deadline_s,
                           struct muster_allreduce_probe *probe, struct muster_err *err);

/* Runs the job; result[plan->sizes]. `self` is what makes this program run one rank: its arguments
 * (at most 4, NULL at the end) before MUSTER_ALLREDUCE_RANK and a descriptor's number. Every rank
 * gets RANK, LOCAL_RANK and WORLD_SIZE. Every result is verified. A rank that fails or dies, or
 * the deadline, ends all ranks. */
int muster_allreduce_run(const struct muster_allreduce_plan *plan, const char *const *self,
                         unsigned deadline_s, struct muster_allreduce_result *result,
                         struct muster_err *err);

#define MUSTER_ALLREDUCE_RANK "--allreduce-rank"

/* argv is {..., MUSTER_ALLREDUCE_RANK, FD}: this process is a rank. */
bool muster_allreduce_is_rank(int argc, char **argv);
/* Its whole life; returns the exit status. */
int muster_allreduce_rank(const char *fd);

#endif
