/*
 * A process that loads one plugin and measures it round by round when told to: the plugins of one
 * call take turns without meeting in one address space.
 */
#ifndef MUSTER_BENCH_COST_WORKER_H
#define MUSTER_BENCH_COST_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "bench_collective.h"

enum {
    COST_THREADS = 64,
    COST_BUCKETS = 32768, /* a quarter of a nanosecond each; the last one has all above */
    COST_PER_NS = 4,
    COST_ZERO = 256,          /* bucket of 0 ns */
    COST_WHOLE = BENCH_CALLS, /* row of a whole collective */
    COST_ROWS = BENCH_CALLS + 1,
};

/* Nanoseconds net of the clock's own cost, by call. */
struct cost_hist {
    uint32_t n[COST_ROWS][COST_BUCKETS];
};

struct cost_plan {
    const char *plugin;
    const char *timing;  /* MUSTER_TIMING unless the environment has one */
    bool marks;          /* launches that leave a mark are told from the others */
    const char *run_dir; /* MUSTER_DIR */
    unsigned api;        /* interface version; 0: the newest it has */
    bool timed;          /* collectives with KernelCh events */
    const char *cuda;    /* library to load before the plugin, for events; NULL: none */
    bool gpu;            /* the calling threads have the first GPU's CUDA context */
    size_t cold_bytes;   /* gone through before each collective */
    unsigned threads;
    double tick_ns;
    struct bench_tick_cost tick_cost;
};

struct cost_worker {
    pid_t pid;
    int to, from;
    unsigned threads;
    struct cost_hist *hist; /* shared with the process; one per thread */
    char name[64];          /* the plugin's own, with the interface version */
    bool asks_kernel;       /* its mask has KernelCh */
    bool asks_launch;       /* and KernelLaunch */
    double driver_ns;       /* median of what the driver takes of a timed launch; 0 without one */
};

/* Starts the process and waits until the plugin is loaded and has its communicators. */
int cost_worker_start(struct cost_worker *worker, const struct cost_plan *plan,
                      struct muster_err *err);
/* One round, waited for. */
int cost_worker_round(struct cost_worker *worker, struct muster_err *err);
/* Lets the plugin finalize and the process exit. Collectives that it was shown. */
int cost_worker_finish(struct cost_worker *worker, uint64_t *collectives, struct muster_err *err);
/* Kills the process if it is there; frees. */
void cost_worker_free(struct cost_worker *worker);

/* Over all threads; negative where there is nothing. */
double cost_quantile_ns(const struct cost_worker *worker, unsigned row, double q);
/* Mean without the slowest `cut` of the samples: finer than a coarse clock, unlike a quantile. */
double cost_mean_ns(const struct cost_worker *worker, unsigned row, double cut);

#endif
