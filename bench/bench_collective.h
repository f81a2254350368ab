/*
 * One all-reduce as NCCL shows it to a profiler plugin, call for call (the order is that of
 * NCCL 2.28 to 2.30: docs/formats.md's recordings show it). NULL handles get no stop and no state.
 */
#ifndef MUSTER_BENCH_BENCH_COLLECTIVE_H
#define MUSTER_BENCH_BENCH_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "nccl/profiler_abi.h"
#include "replay/replay_driver.h"
#include "ticks.h"

enum bench_call {
    BENCH_GROUP_API_START,
    BENCH_GROUP_API_STATE,
    BENCH_GROUP_API_STOP,
    BENCH_COLL_API_START,
    BENCH_COLL_API_STOP,
    BENCH_LAUNCH_START,
    BENCH_LAUNCH_STOP,
    BENCH_LAUNCH_MARK, /* the stop of a launch that left a completion mark */
    BENCH_GROUP_START,
    BENCH_GROUP_STOP,
    BENCH_COLL_START,
    BENCH_COLL_STOP,
    BENCH_KERNEL_START,
    BENCH_KERNEL_STATE,
    BENCH_KERNEL_STOP,
    BENCH_CALLS
};

enum {
    BENCH_CHANNELS = 8,
    BENCH_CALLS_MAX = 16 + 3 * BENCH_CHANNELS, /* per collective */
};

struct bench_sample {
    uint32_t call; /* enum bench_call */
    uint32_t ticks;
};

/* One communicator in the hands of one thread. */
struct bench_lane {
    const struct nccl_profiler_v1 *table; /* from `start` on the same in every version */
    unsigned api;
    bool api_events, launch_events; /* what the plugin's mask asks for */
    uint64_t (*marks)(void);        /* this thread's marks so far; NULL: none are made */
    void *context;
    uint64_t gpu_ns; /* this GPU's clock */
    union {
        struct nccl_descr_v4 v4;
        struct nccl_descr_v7 v7; /* v5 and v6 are its beginning */
    } group_api, coll_api, launch, group, coll, kernel;
    uint32_t random;
    struct bench_sample sample[BENCH_CALLS_MAX]; /* of the newest collective */
    unsigned samples;
};

const char *bench_call_name(enum bench_call call);

/* Makes a communicator. `mask` outlives the driver. */
int bench_lane_init(struct bench_lane *lane, const struct muster_driver *driver, uint64_t comm_id,
                    int *mask, struct muster_err *err);
/* The same as one rank of a communicator. */
int bench_lane_join(struct bench_lane *lane, const struct muster_driver *driver,
                    const struct muster_event_init *init, int *mask, struct muster_err *err);
/* One collective, with KernelCh events if `timed`. */
void bench_lane_collective(struct bench_lane *lane, bool timed);
/* The same, with every call timed into lane->sample. */
void bench_lane_collective_sampled(struct bench_lane *lane, bool timed);

#endif
