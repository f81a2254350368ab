#include "record_testbed.h"

#include <stdlib.h>
#include <string.h>

/* Recorders that are not freed, within reach so that they do not count as leaks. */
static struct left {
    struct left *next;
    struct muster_recorder *rec;
} *left_behind;

static void leave_behind(struct muster_recorder *rec)
{
    struct left *left = malloc(sizeof *left);
    assert_non_null(left);
    *left = (struct left){left_behind, rec};
    left_behind = left;
}

void testbed_open(struct testbed *testbed, bool kernels, bool host_times)
{
    struct muster_recorder_options options = {.timing = kernels ? MUSTER_TIMING_CHANNELS
                                                                : MUSTER_TIMING_AUTO,
                                              .kernels = kernels,
                                              .host_times = host_times,
                                              .cpus = 8};
    testbed_open_with(testbed, &options);
}

void testbed_open_with(struct testbed *testbed, const struct muster_recorder_options *wanted)
{
    struct muster_recorder_options options = *wanted;
    options.file.map = aligned_alloc(64, (sizeof(struct muster_segment) + 63) / 64 * 64);
    assert_non_null(options.file.map);
    memset((void *)options.file.map, 0, sizeof(struct muster_segment));
    assert_int_equal(muster_recorder_create(&testbed->rec, &options, NULL), 0);
    leave_behind(testbed->rec);
    pthread_mutex_lock(&testbed->rec->drain_lock);
    testbed->ctx = testbed_comm(testbed, 0xc0ffee, 4, 1, 5);
}

/* The recorder lives as long as its thread may look at it: it is left behind, as in a process. */
void testbed_close(struct testbed *testbed)
{
    atomic_store(&testbed->rec->closed, true);
    pthread_mutex_unlock(&testbed->rec->drain_lock);
}

void *testbed_comm(struct testbed *testbed, uint64_t hash, int nranks, int nnodes, uint32_t api)
{
    struct muster_event_init init = {
        .comm_hash = hash, .name = "dp", .nnodes = nnodes, .nranks = nranks, .rank = 1, .api = api};
    struct muster_gpu gpu = {.index = 3};
    return muster_recorder_comm_open(testbed->rec, &init, &gpu);
}

void testbed_drain(struct testbed *testbed, uint64_t later_ns)
{
    muster_drain_pass(testbed->rec, muster_now_ns() + later_ns);
}

struct muster_event_op testbed_op(unsigned func, uint64_t count)
{
    return (struct muster_event_op){.count = count,
                                    .func = (uint8_t)func,
                                    .dtype = MUSTER_DTYPE_FLOAT32,
                                    .algo = MUSTER_ALGO_RING,
                                    .proto = MUSTER_PROTO_LL,
                                    .channels = 8};
}

void *testbed_call(struct testbed *testbed, void *ctx, const struct muster_event_op *op)
{
    struct muster_event event = {.kind = MUSTER_EVENT_COLL_API, .op = *op};
    return muster_track_start(testbed->rec, ctx, &event);
}

void *testbed_launch(struct testbed *testbed, void *ctx, void *call,
                     const struct muster_event_op *op)
{
    struct muster_event event = {.kind = MUSTER_EVENT_COLL, .parent = call, .op = *op};
    return muster_track_start(testbed->rec, ctx, &event);
}

void *testbed_p2p(struct testbed *testbed, void *ctx, unsigned func, int peer, uint64_t count,
                  int channels)
{
    struct muster_event event = {.kind = MUSTER_EVENT_P2P, .op = testbed_op(func, count)};
    event.op.root_or_peer = peer;
    event.op.channels = (uint8_t)channels;
    return muster_track_start(testbed->rec, ctx, &event);
}

void *testbed_group(struct testbed *testbed, void *ctx, bool graph)
{
    struct muster_event event = {.kind = MUSTER_EVENT_GROUP_API, .group_api = {graph, 1}};
    return muster_track_start(testbed->rec, ctx, &event);
}

void *testbed_kernel(struct testbed *testbed, void *parent, unsigned channel, uint64_t start)
{
    struct muster_event event = {.kind = MUSTER_EVENT_KERNEL_CH,
                                 .parent = parent,
                                 .kernel_ch = {.channel = (uint8_t)channel, .ptimer = start}};
    return muster_track_start(testbed->rec, testbed->ctx, &event);
}

void testbed_kernel_stop(struct testbed *testbed, void *kernel, uint64_t stop)
{
    struct muster_event_args args = {.given = true, .ptimer = stop};
    muster_track_state(testbed->rec, kernel, MUSTER_STATE_KERNEL_CH_STOP, &args);
    muster_track_stop(testbed->rec, kernel);
}

void *testbed_collective(struct testbed *testbed, void *ctx, unsigned func, uint64_t count)
{
    struct muster_event_op op = testbed_op(func, count);
    testbed_group(testbed, ctx, false);
    void *call = testbed_call(testbed, ctx, &op);
    if (call)
        muster_track_stop(testbed->rec, call);
    void *launch = testbed_launch(testbed, ctx, call, &op);
    if (launch)
        muster_track_stop(testbed->rec, launch);
    return launch;
}

uint64_t testbed_count(const struct testbed *testbed, unsigned func)
{
    uint64_t n = 0;
    for (unsigned r = 0; r < MUSTER_SEG_ROWS; r++)
        n += testbed->rec->seg->row[r].func == func ? testbed->rec->seg->row[r].count : 0;
    return n;
}

uint64_t testbed_bytes(const struct testbed *testbed, unsigned func)
{
    uint64_t n = 0;
    for (unsigned r = 0; r < MUSTER_SEG_ROWS; r++)
        n += testbed->rec->seg->row[r].func == func ? testbed->rec->seg->row[r].bytes : 0;
    return n;
}

const struct muster_seg_row *testbed_row(const struct testbed *testbed, unsigned func)
{
    for (unsigned r = 0; r < MUSTER_SEG_ROWS; r++)
        if (testbed->rec->seg->row[r].func == func && testbed->rec->seg->row[r].count)
            return &testbed->rec->seg->row[r];
    fail_msg("no row of function %u", func);
    return NULL;
}

const struct muster_op *testbed_last(const struct testbed *testbed)
{
    const struct muster_segment *seg = testbed->rec->seg;
    uint64_t head = atomic_load(&seg->ring_head);
    assert_true(head > 0);
    return &seg->ring[(head - 1) % MUSTER_SEG_RING];
}

uint64_t testbed_drops(const struct testbed *testbed, enum muster_drop reason)
{
    return atomic_load(&testbed->rec->seg->drops[reason]);
}
