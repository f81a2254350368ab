#include "bench_collective.h"

#include <string.h>

enum {
    COUNT = 8192,
    NRANKS = 8,
    KERNEL_NS = 32, /* shorter than the host needs to show the operation */
    BETWEEN_OPS_NS = 1000,
};

static const char *const call_names[BENCH_CALLS] = {
    "GroupApi start",     "GroupApi state",    "GroupApi stop",   "CollApi start",  "CollApi stop",
    "KernelLaunch start", "KernelLaunch stop", "the same + mark", "Group start",    "Group stop",
    "Coll start",         "Coll stop",         "KernelCh start",  "KernelCh state", "KernelCh stop",
};

const char *bench_call_name(enum bench_call call)
{
    return call_names[call];
}

static uint64_t bit(enum muster_event_kind kind)
{
    return UINT64_C(1) << kind;
}

static void describe_coll(struct nccl_coll_v4 *coll)
{
    coll->what.func = "AllReduce";
    coll->what.datatype = "ncclFloat32";
    coll->what.count = COUNT;
    coll->how.channels = BENCH_CHANNELS;
    coll->how.warps = 16;
    coll->how.algo = "RING";
    coll->how.proto = "LL";
}

static void describe_v4(struct bench_lane *lane)
{
    lane->group.v4.type = (uint8_t)bit(MUSTER_EVENT_GROUP);
    lane->coll.v4.type = (uint8_t)bit(MUSTER_EVENT_COLL);
    describe_coll(&lane->coll.v4.coll);
    lane->kernel.v4.type = (uint8_t)bit(MUSTER_EVENT_KERNEL_CH);
}

static void describe_v5(struct bench_lane *lane)
{
    lane->group_api.v7.type = bit(MUSTER_EVENT_GROUP_API);
    lane->group_api.v7.group_api.depth = 1;
    lane->coll_api.v7.type = bit(MUSTER_EVENT_COLL_API);
    lane->coll_api.v7.coll_api.v5.func = "AllReduce";
    lane->coll_api.v7.coll_api.v5.datatype = "ncclFloat32";
    lane->coll_api.v7.coll_api.v5.count = COUNT;
    lane->launch.v7.type = bit(MUSTER_EVENT_KERNEL_LAUNCH);
    lane->group.v7.type = bit(MUSTER_EVENT_GROUP);
    lane->coll.v7.type = bit(MUSTER_EVENT_COLL);
    describe_coll(&lane->coll.v7.coll.v5.v4);
    lane->kernel.v7.type = bit(MUSTER_EVENT_KERNEL_CH);
}

int bench_lane_init(struct bench_lane *lane, const struct muster_driver *driver, uint64_t comm_id,
                    int *mask, struct muster_err *err)
{
    const struct muster_event_init init = {
        .comm_hash = comm_id, .nnodes = 1, .nranks = NRANKS, .api = driver->api};
    return bench_lane_join(lane, driver, &init, mask, err);
}

int bench_lane_join(struct bench_lane *lane, const struct muster_driver *driver,
                    const struct muster_event_init *init, int *mask, struct muster_err *err)
{
    memset(lane, 0, sizeof *lane);
    lane->table = driver->table;
    lane->api = driver->api;
    if (driver->api < 5)
        describe_v4(lane);
    else
        describe_v5(lane);
    int code = muster_driver_init(driver, &lane->context, mask, init);
    if (code)
        return muster_fail(err, "%s: init returned %d", driver->name, code);
    /* A child's bit brings its ancestors (since NCCL 2.28), KernelLaunch comes only by its own. */
    lane->api_events = driver->api >= 5;
    lane->launch_events = driver->api >= 5 && (*mask & (int)bit(MUSTER_EVENT_KERNEL_LAUNCH));
    return 0;
}

static inline uint64_t before(struct bench_lane *lane, bool sampled)
{
    if (!sampled)
        return 0;
    bench_dither(&lane->random);
    return bench_ticks();
}

static inline void after(struct bench_lane *lane, bool sampled, enum bench_call call,
                         uint64_t begin)
{
    if (sampled)
        lane->sample[lane->samples++] =
            (struct bench_sample){call, (uint32_t)(bench_ticks() - begin)};
}

static inline void *start(struct bench_lane *lane, bool sampled, enum bench_call call,
                          const void *descriptor)
{
    void *handle = NULL;
    uint64_t begin = before(lane, sampled);
    lane->table->start(lane->context, &handle, descriptor);
    after(lane, sampled, call, begin);
    return handle;
}

static inline void stop(struct bench_lane *lane, bool sampled, enum bench_call call, void *handle)
{
    if (!handle)
        return;
    uint64_t begin = before(lane, sampled);
    lane->table->stop(handle);
    after(lane, sampled, call, begin);
}

static inline void state(struct bench_lane *lane, bool sampled, enum bench_call call, void *handle,
                         enum muster_event_state which, const union nccl_args_v4 *args)
{
    if (!handle)
        return;
    uint64_t begin = before(lane, sampled);
    lane->table->record(handle, (int)which, args);
    after(lane, sampled, call, begin);
}

/* A launch's stop is told apart from one that also left a mark. */
static inline void launch_stop(struct bench_lane *lane, bool sampled, void *handle)
{
    uint64_t marks = sampled && lane->marks ? lane->marks() : 0;
    stop(lane, sampled, BENCH_LAUNCH_STOP, handle);
    if (sampled && handle && lane->marks && lane->marks() != marks)
        lane->sample[lane->samples - 1].call = BENCH_LAUNCH_MARK;
}

static inline void kernel_v4(struct bench_lane *lane, void *coll, uint8_t channel)
{
    lane->kernel.v4.parent = coll;
    lane->kernel.v4.kernel_ch.channel = channel;
    lane->kernel.v4.kernel_ch.ptimer = lane->gpu_ns;
}

static inline void kernel_v5(struct bench_lane *lane, void *coll, uint8_t channel)
{
    lane->kernel.v7.parent = coll;
    lane->kernel.v7.kernel_ch.channel = channel;
    lane->kernel.v7.kernel_ch.ptimer = lane->gpu_ns;
}

/* The clock is read, for some 20 ns: stamps that fall behind the host's time are refused. */
static inline void kernel(struct bench_lane *lane, bool sampled, void *coll)
{
    uint64_t now = muster_now_ns();
    if (now > lane->gpu_ns)
        lane->gpu_ns = now;
    const union nccl_args_v4 args = {.kernel_ch = {lane->gpu_ns + KERNEL_NS}};
    for (unsigned channel = 0; channel < BENCH_CHANNELS; channel++) {
        if (lane->api < 5)
            kernel_v4(lane, coll, (uint8_t)channel);
        else
            kernel_v5(lane, coll, (uint8_t)channel);
        void *handle = start(lane, sampled, BENCH_KERNEL_START, &lane->kernel);
        state(lane, sampled, BENCH_KERNEL_STATE, handle, MUSTER_STATE_KERNEL_CH_STOP, &args);
        stop(lane, sampled, BENCH_KERNEL_STOP, handle);
    }
    lane->gpu_ns += BETWEEN_OPS_NS;
}

static inline void plan_v4(struct bench_lane *lane, bool timed, bool sampled)
{
    void *group = start(lane, sampled, BENCH_GROUP_START, &lane->group);
    lane->coll.v4.parent = group;
    void *coll = group ? start(lane, sampled, BENCH_COLL_START, &lane->coll) : NULL;
    lane->coll.v4.coll.what.seq++;
    stop(lane, sampled, BENCH_COLL_STOP, coll);
    stop(lane, sampled, BENCH_GROUP_STOP, group);
    if (timed)
        kernel(lane, sampled, coll);
}

static inline void plan_v5(struct bench_lane *lane, bool timed, bool sampled)
{
    void *group_api = start(lane, sampled, BENCH_GROUP_API_START, &lane->group_api);
    state(lane, sampled, BENCH_GROUP_API_STATE, group_api, MUSTER_STATE_GROUP_START_STOP, NULL);
    lane->coll_api.v7.parent = group_api;
    void *coll_api = start(lane, sampled, BENCH_COLL_API_START, &lane->coll_api);
    stop(lane, sampled, BENCH_COLL_API_STOP, coll_api);
    state(lane, sampled, BENCH_GROUP_API_STATE, group_api, MUSTER_STATE_GROUP_END_START, NULL);
    if (lane->launch_events) {
        lane->launch.v7.parent = group_api;
        void *launch = start(lane, sampled, BENCH_LAUNCH_START, &lane->launch);
        launch_stop(lane, sampled, launch);
    }
    void *group = start(lane, sampled, BENCH_GROUP_START, &lane->group);
    lane->coll.v7.parent = coll_api;
    lane->coll.v7.coll.v5.parent_group = group;
    void *coll = start(lane, sampled, BENCH_COLL_START, &lane->coll);
    lane->coll.v7.coll.v5.v4.what.seq++;
    stop(lane, sampled, BENCH_COLL_STOP, coll);
    stop(lane, sampled, BENCH_GROUP_STOP, group);
    stop(lane, sampled, BENCH_GROUP_API_STOP, group_api);
    if (timed)
        kernel(lane, sampled, coll);
}

static inline void collective(struct bench_lane *lane, bool timed, bool sampled)
{
    lane->samples = 0;
    if (lane->api_events)
        plan_v5(lane, timed, sampled);
    else
        plan_v4(lane, timed, sampled);
}

void bench_lane_collective(struct bench_lane *lane, bool timed)
{
    collective(lane, timed, false);
}

void bench_lane_collective_sampled(struct bench_lane *lane, bool timed)
{
    collective(lane, timed, true);
}
