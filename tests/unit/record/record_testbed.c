#include "lab.h"

#include <stdlib.h>
#include <string.h>

/* Recorders that are not freed, within reach so that they do not count as leaks. */
static struct left {
    struct left *next;
    struct muster_recorder *rec;
} * left_behind;

static void leave_behind(struct muster_recorder *rec)
{
    struct left *left = malloc(sizeof *left);
    assert_non_null(left);
    *left = (struct left){left_behind, rec};
    left_behind = left;
}

void lab_open(struct lab *lab, bool armed, bool host_times)
{
    struct muster_recorder_options options = {.arming = {.possible = armed, .always = armed},
                                              .host_times = host_times};
    options.file.map = aligned_alloc(64, (sizeof(struct muster_segment) + 63) / 64 * 64);
    assert_non_null(options.file.map);
    memset((void *)options.file.map, 0, sizeof(struct muster_segment));
    assert_int_equal(muster_recorder_create(&lab->rec, &options, NULL), 0);
    leave_behind(lab->rec);
    pthread_mutex_lock(&lab->rec->drain_lock);
    lab->ctx = lab_comm(lab, 0xc0ffee, 4, 1, 5);
}

/* The recorder lives as long as its thread may look at it: it is left behind, as in a process. */
void lab_close(struct lab *lab)
{
    atomic_store(&lab->rec->closed, true);
    pthread_mutex_unlock(&lab->rec->drain_lock);
}

void *lab_comm(struct lab *lab, uint64_t hash, int nranks, int nnodes, uint32_t api)
{
    struct muster_event_init init = {
        .comm_hash = hash, .name = "dp", .nnodes = nnodes, .nranks = nranks, .rank = 1, .api = api};
    struct muster_gpu gpu = {.index = 3};
    return muster_recorder_comm_open(lab->rec, &init, &gpu);
}

void lab_drain(struct lab *lab, uint64_t later_ns)
{
    muster_drain_pass(lab->rec, muster_now_ns() + later_ns);
}

struct muster_event_op lab_op(unsigned func, uint64_t count)
{
    return (struct muster_event_op){.count = count,
                                    .func = (uint8_t)func,
                                    .dtype = MUSTER_DTYPE_FLOAT32,
                                    .algo = MUSTER_ALGO_RING,
                                    .proto = MUSTER_PROTO_LL,
                                    .channels = 8};
}

void *lab_call(struct lab *lab, void *ctx, const struct muster_event_op *op)
{
    struct muster_event event = {.kind = MUSTER_EVENT_COLL_API, .op = *op};
    return muster_track_start(lab->rec, ctx, &event);
}

void *lab_launch(struct lab *lab, void *ctx, void *call, const struct muster_event_op *op)
{
    struct muster_event event = {.kind = MUSTER_EVENT_COLL, .parent = call, .op = *op};
    return muster_track_start(lab->rec, ctx, &event);
}

void *lab_p2p(struct lab *lab, void *ctx, unsigned func, int peer, uint64_t count, int channels)
{
    struct muster_event event = {.kind = MUSTER_EVENT_P2P, .op = lab_op(func, count)};
    event.op.root_or_peer = peer;
    event.op.channels = (uint8_t)channels;
    return muster_track_start(lab->rec, ctx, &event);
}

void *lab_group(struct lab *lab, void *ctx, bool graph)
{
    struct muster_event event = {.kind = MUSTER_EVENT_GROUP_API, .group_api = {graph, 1}};
    return muster_track_start(lab->rec, ctx, &event);
}

void *lab_kernel(struct lab *lab, void *parent, unsigned channel, uint64_t start)
{
    struct muster_event event = {.kind = MUSTER_EVENT_KERNEL_CH,
                                 .parent = parent,
                                 .kernel_ch = {.channel = (uint8_t)channel, .ptimer = start}};
    return muster_track_start(lab->rec, lab->ctx, &event);
}

void lab_kernel_stop(struct lab *lab, void *kernel, uint64_t stop)
{
    struct muster_event_args args = {.given = true, .ptimer = stop};
    muster_track_state(lab->rec, kernel, MUSTER_STATE_KERNEL_CH_STOP, &args);
    muster_track_stop(lab->rec, kernel);
}

void *lab_collective(struct lab *lab, void *ctx, unsigned func, uint64_t count)
{
    struct muster_event_op op = lab_op(func, count);
    lab_group(lab, ctx, false);
    void *call = lab_call(lab, ctx, &op);
    if (call)
        muster_track_stop(lab->rec, call);
    void *launch = lab_launch(lab, ctx, call, &op);
    if (launch)
        muster_track_stop(lab->rec, launch);
    return launch;
}

uint64_t lab_count(const struct lab *lab, unsigned func)
{
    uint64_t n = 0;
    for (unsigned r = 0; r < MUSTER_SEG_ROWS; r++)
        n += lab->rec->seg->row[r].func == func ? lab->rec->seg->row[r].count : 0;
    return n;
}

uint64_t lab_bytes(const struct lab *lab, unsigned func)
{
    uint64_t n = 0;
    for (unsigned r = 0; r < MUSTER_SEG_ROWS; r++)
        n += lab->rec->seg->row[r].func == func ? lab->rec->seg->row[r].bytes : 0;
    return n;
}

const struct muster_seg_row *lab_row(const struct lab *lab, unsigned func)
{
    for (unsigned r = 0; r < MUSTER_SEG_ROWS; r++)
        if (lab->rec->seg->row[r].func == func && lab->rec->seg->row[r].count)
            return &lab->rec->seg->row[r];
    fail_msg("no row of function %u", func);
    return NULL;
}

const struct muster_op *lab_last(const struct lab *lab)
{
    const struct muster_segment *seg = lab->rec->seg;
    uint64_t head = atomic_load(&seg->ring_head);
    assert_true(head > 0);
    return &seg->ring[(head - 1) % MUSTER_SEG_RING];
}

uint64_t lab_drops(const struct lab *lab, enum muster_drop reason)
{
    return atomic_load(&lab->rec->seg->drops[reason]);
}
