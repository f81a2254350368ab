/* One rank of the built-in all-reduce job. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allreduce/allreduce_wire.h"
#include "base/clock.h"
#include "base/text.h"

enum {
    BARRIER_FLOATS = 1,
    STEPS_AHEAD = 10, /* steps the host may run ahead of the GPU */
};

struct rank {
    int fd;
    int index;
    struct muster_allreduce_plan plan;
    struct muster_cuda cuda;
    struct muster_nccl nccl;
    void *comm;
    void *stream;
    void *begin, *end; /* events */
    muster_cuda_ptr send, recv;
    size_t floats;  /* room in send and in recv */
    double fill_us; /* GPU time of filling recv once */
    struct muster_err err;
};

int muster_wire_send(int fd, const struct muster_wire *message)
{
    ssize_t n = send(fd, message, sizeof *message, MSG_NOSIGNAL);
    return n == (ssize_t)sizeof *message ? 0 : -1;
}

int muster_wire_receive(int fd, struct muster_wire *message)
{
    ssize_t n;
    do {
        n = recv(fd, message, sizeof *message, 0);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return 0;
    return n == (ssize_t)sizeof *message ? 1 : -1;
}

static int cuda_ok(struct rank *rank, int code, const char *what)
{
    return muster_cuda_check(&rank->cuda, code, what, &rank->err);
}

static size_t floats_of(uint64_t bytes)
{
    return bytes < sizeof(float) ? 1 : (size_t)(bytes / sizeof(float));
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static int receive_kind(struct rank *rank, uint32_t kind, struct muster_wire *message)
{
    if (muster_wire_receive(rank->fd, message) != 1 || message->kind != kind)
        return muster_fail(&rank->err, "the job's parent went away");
    return 0;
}

static int send_kind(struct rank *rank, uint32_t kind)
{
    struct muster_wire message = {.kind = kind};
    if (muster_wire_send(rank->fd, &message))
        return muster_fail(&rank->err, "the job's parent went away");
    return 0;
}

static int begin_turn(struct rank *rank)
{
    struct muster_wire message;
    if (rank->plan.jobs == 0)
        return 0;
    return send_kind(rank, MUSTER_WIRE_TURN) ? -1 : receive_kind(rank, MUSTER_WIRE_TURN, &message);
}

static int end_turn(struct rank *rank)
{
    return rank->plan.jobs ? send_kind(rank, MUSTER_WIRE_OVER) : 0;
}

/* Rank 0 makes the communicator's id and the parent hands it to the others. */
static int agree_on_id(struct rank *rank, struct muster_nccl_id *id)
{
    struct muster_wire message = {.kind = MUSTER_WIRE_ID};
    if (rank->index == 0) {
        if (muster_nccl_check(&rank->nccl, rank->nccl.unique_id(&message.id), "ncclGetUniqueId",
                              &rank->err))
            return -1;
        if (muster_wire_send(rank->fd, &message))
            return muster_fail(&rank->err, "the job's parent went away");
    } else if (receive_kind(rank, MUSTER_WIRE_ID, &message)) {
        return -1;
    }
    *id = message.id;
    return 0;
}

/* Ranks share GPUs where there are too few; NCCL allows that from 2.30 on, if it is set to. */
static int open_device(struct rank *rank)
{
    int device = 0, devices = 0;
    void *context = NULL;
    if (muster_cuda_open(&rank->cuda, &rank->err) ||
        cuda_ok(rank, rank->cuda.device_count(&devices), "cuDeviceGetCount") ||
        cuda_ok(rank, rank->cuda.device_get(&device, devices ? rank->index % devices : rank->index),
                "cuDeviceGet") ||
        cuda_ok(rank, rank->cuda.primary_retain(&context, device), "cuDevicePrimaryCtxRetain") ||
        cuda_ok(rank, rank->cuda.context_set(context), "cuCtxSetCurrent") ||
        cuda_ok(rank, rank->cuda.stream_create(&rank->stream, MUSTER_CUDA_STREAM_NON_BLOCKING),
                "cuStreamCreate") ||
        cuda_ok(rank, rank->cuda.event_create(&rank->begin, 0), "cuEventCreate") ||
        cuda_ok(rank, rank->cuda.event_create(&rank->end, 0), "cuEventCreate"))
        return -1;
    return 0;
}

/* In the stream's order: a fill outside it would not wait for the stream, nor it for the fill. */
static int fill(struct rank *rank, muster_cuda_ptr to, uint32_t word, size_t floats)
{
    return cuda_ok(rank, rank->cuda.fill32(to, word, floats, rank->stream), "cuMemsetD32Async");
}

static int open_buffers(struct rank *rank)
{
    const struct muster_allreduce_plan *plan = &rank->plan;
    rank->floats = BARRIER_FLOATS;
    for (uint32_t i = 0; i < plan->sizes; i++)
        if (floats_of(plan->bytes[i]) > rank->floats)
            rank->floats = floats_of(plan->bytes[i]);
    size_t bytes = rank->floats * sizeof(float);
    if (cuda_ok(rank, rank->cuda.alloc(&rank->send, bytes), "cuMemAlloc") ||
        cuda_ok(rank, rank->cuda.alloc(&rank->recv, bytes), "cuMemAlloc") ||
        fill(rank, rank->send, float_bits((float)(rank->index + 1)), rank->floats))
        return -1;
    return 0;
}

static int open_communicator(struct rank *rank)
{
    const struct muster_allreduce_plan *plan = &rank->plan;
    struct muster_nccl_id id;
    if (muster_nccl_open(&rank->nccl, *plan->nccl ? plan->nccl : NULL, &rank->err) ||
        agree_on_id(rank, &id))
        return -1;
    return muster_nccl_check(&rank->nccl,
                             rank->nccl.comm_init(&rank->comm, plan->gpus, id, rank->index),
                             "ncclCommInitRank", &rank->err);
}

static const void *device_pointer(muster_cuda_ptr ptr)
{
    return (const void *)(uintptr_t)ptr;
}

static int all_reduce(struct rank *rank, size_t floats)
{
    int code =
        rank->nccl.all_reduce(device_pointer(rank->send), (void *)(uintptr_t)rank->recv, floats,
                              MUSTER_NCCL_FLOAT32, MUSTER_NCCL_SUM, rank->comm, rank->stream);
    return muster_nccl_check(&rank->nccl, code, "ncclAllReduce", &rank->err);
}

static int finish_stream(struct rank *rank)
{
    return cuda_ok(rank, rank->cuda.stream_wait(rank->stream), "cuStreamSynchronize");
}

static int barrier(struct rank *rank)
{
    return all_reduce(rank, BARRIER_FLOATS) ? -1 : finish_stream(rank);
}

static int record(struct rank *rank, void *event)
{
    return cuda_ok(rank, rank->cuda.event_record(event, rank->stream), "cuEventRecord");
}

static int elapsed_us(struct rank *rank, double *us)
{
    float ms = 0;
    if (cuda_ok(rank, rank->cuda.event_wait(rank->end), "cuEventSynchronize") ||
        cuda_ok(rank, rank->cuda.event_elapsed(&ms, rank->begin, rank->end), "cuEventElapsedTime"))
        return -1;
    *us = (double)ms * 1e3;
    return 0;
}

/* Every element is the sum of 1 to the number of ranks. */
static int verify(struct rank *rank, size_t floats)
{
    const float n = (float)rank->plan.gpus;
    const float expected = n * (n + 1) / 2;
    float *got = malloc(floats * sizeof *got);
    int rc = 0;
    if (!got)
        return muster_fail_memory(&rank->err, "the values to verify");
    if (fill(rank, rank->recv, UINT32_MAX, floats) || barrier(rank) || all_reduce(rank, floats) ||
        finish_stream(rank) ||
        cuda_ok(rank, rank->cuda.to_host(got, rank->recv, floats * sizeof *got), "cuMemcpyDtoH"))
        rc = -1;
    for (size_t i = 0; rc == 0 && i < floats; i++)
        if (float_bits(got[i]) != float_bits(expected))
            rc = muster_fail(&rank->err,
                             "wrong result: element %zu of %zu is %g, not %g, after an all-reduce",
                             i, floats, (double)got[i], (double)expected);
    free(got);
    return rc;
}

/* One round of LAUNCH, GPU or FIRST: `iters` calls, timed together. */
static int timed_round(struct rank *rank, size_t floats, double *us)
{
    const bool by_gpu = rank->plan.mode == MUSTER_ALLREDUCE_GPU;
    double total_us = 0;
    if (rank->plan.mode != MUSTER_ALLREDUCE_FIRST && barrier(rank))
        return -1;
    uint64_t start_ns = muster_now_ns();
    if (by_gpu && record(rank, rank->begin))
        return -1;
    for (uint32_t i = 0; i < rank->plan.iters; i++)
        if (all_reduce(rank, floats))
            return -1;
    if (by_gpu && record(rank, rank->end))
        return -1;
    if (finish_stream(rank))
        return -1;
    if (!by_gpu)
        total_us = (double)(muster_now_ns() - start_ns) / 1e3;
    else if (elapsed_us(rank, &total_us))
        return -1;
    *us = total_us / rank->plan.iters;
    return 0;
}

static int stay_on_cpu(struct rank *rank)
{
    const struct muster_allreduce_plan *plan = &rank->plan;
    if (plan->cpus == 0)
        return 0;
    const int cpu = plan->cpu[(uint32_t)rank->index % plan->cpus];
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        return muster_fail(&rank->err, "rank %d cannot stay on CPU %d: %s", rank->index, cpu,
                           strerror(errno));
    return 0;
}

static int warm_up(struct rank *rank, size_t floats)
{
    const uint32_t warmup = rank->plan.mode == MUSTER_ALLREDUCE_FIRST ? 0 : rank->plan.warmup;
    for (uint32_t i = 0; i < warmup; i++)
        if (all_reduce(rank, floats))
            return -1;
    return finish_stream(rank);
}

static int run_size(struct rank *rank, size_t floats, double *us)
{
    if (begin_turn(rank) || warm_up(rank, floats) || end_turn(rank) || stay_on_cpu(rank))
        return -1;
    for (uint32_t round = 0; round < rank->plan.rounds; round++)
        if (begin_turn(rank) || timed_round(rank, floats, &us[round]) || end_turn(rank))
            return -1;
    return begin_turn(rank) || verify(rank, floats) || end_turn(rank) ? -1 : 0;
}

static int run_sizes(struct rank *rank)
{
    for (uint32_t i = 0; i < rank->plan.sizes; i++) {
        struct muster_wire times = {.kind = MUSTER_WIRE_TIMES, .index = i};
        if (run_size(rank, floats_of(rank->plan.bytes[i]), times.us))
            return -1;
        if (muster_wire_send(rank->fd, &times))
            return muster_fail(&rank->err, "the job's parent went away");
    }
    return 0;
}

static int fill_recv(struct rank *rank)
{
    return fill(rank, rank->recv, 0, rank->floats);
}

/* How long filling the receive buffer keeps this GPU busy: the unit of a late GPU's extra work. */
static int measure_fill(struct rank *rank)
{
    enum { FILLS = 50 };
    double us = 0;
    for (int i = 0; i < 2 * FILLS; i++) {
        if (i == FILLS && record(rank, rank->begin))
            return -1;
        if (fill_recv(rank))
            return -1;
    }
    if (record(rank, rank->end) || elapsed_us(rank, &us))
        return -1;
    rank->fill_us = us > 0 ? us / FILLS : 1;
    return 0;
}

static int be_late(struct rank *rank)
{
    const struct muster_allreduce_plan *plan = &rank->plan;
    unsigned fills = plan->late_gpu_us ? (unsigned)(plan->late_gpu_us / rank->fill_us) + 1 : 0;
    for (unsigned i = 0; i < fills; i++)
        if (fill_recv(rank))
            return -1;
    if (plan->late_host_us && finish_stream(rank))
        return -1;
    if (plan->late_host_us)
        usleep(plan->late_host_us);
    return 0;
}

/* Events of one step: before the first call and after each. */
static void **step_events(void **events, const struct rank *rank, uint32_t round)
{
    return &events[(size_t)round * (rank->plan.sizes + 1)];
}

static int run_step(struct rank *rank, void **event)
{
    if (rank->index == rank->plan.late_rank && be_late(rank))
        return -1;
    if (event && record(rank, event[0]))
        return -1;
    for (uint32_t i = 0; i < rank->plan.sizes; i++)
        if (all_reduce(rank, floats_of(rank->plan.bytes[i])) ||
            (event && record(rank, event[i + 1])))
            return -1;
    return 0;
}

static int send_steps(struct rank *rank, void **events)
{
    for (uint32_t i = 0; i < rank->plan.sizes; i++) {
        struct muster_wire times = {.kind = MUSTER_WIRE_TIMES, .index = i};
        for (uint32_t round = 0; round < rank->plan.rounds; round++) {
            void **event = step_events(events, rank, round);
            float ms = 0;
            if (cuda_ok(rank, rank->cuda.event_elapsed(&ms, event[i], event[i + 1]),
                        "cuEventElapsedTime"))
                return -1;
            times.us[round] = (double)ms * 1e3;
        }
        if (muster_wire_send(rank->fd, &times))
            return muster_fail(&rank->err, "the job's parent went away");
    }
    return 0;
}

static int run_steps_with(struct rank *rank, void **events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cuda_ok(rank, rank->cuda.event_create(&events[i], 0), "cuEventCreate"))
            return -1;
    if (rank->index == rank->plan.late_rank && measure_fill(rank))
        return -1;
    for (uint32_t i = 0; i < rank->plan.warmup; i++)
        if (run_step(rank, NULL))
            return -1;
    if (barrier(rank))
        return -1;
    for (uint32_t round = 0; round < rank->plan.rounds; round++) {
        if (run_step(rank, step_events(events, rank, round)))
            return -1;
        if (round % STEPS_AHEAD == STEPS_AHEAD - 1 && finish_stream(rank))
            return -1;
    }
    for (uint32_t i = 0; i < rank->plan.sizes; i++)
        if (verify(rank, floats_of(rank->plan.bytes[i])))
            return -1;
    return send_steps(rank, events);
}

static int run_steps(struct rank *rank)
{
    size_t n = (size_t)rank->plan.rounds * (rank->plan.sizes + 1);
    void **events = calloc(n, sizeof *events);
    if (!events)
        return muster_fail_memory(&rank->err, "the events of the steps");
    int rc = run_steps_with(rank, events, n);
    for (size_t i = 0; i < n && events[i]; i++)
        rank->cuda.event_destroy(events[i]);
    free(events);
    return rc;
}

static void close_device(struct rank *rank)
{
    rank->cuda.free(rank->send);
    rank->cuda.free(rank->recv);
    rank->cuda.event_destroy(rank->begin);
    rank->cuda.event_destroy(rank->end);
    rank->cuda.stream_destroy(rank->stream);
}

/* A communicator that failed is left alone: destroying it may wait for ranks that are gone. */
static int run_plan(struct rank *rank)
{
    if (open_device(rank) || open_buffers(rank) || open_communicator(rank))
        return -1;
    if (rank->plan.mode == MUSTER_ALLREDUCE_STEP ? run_steps(rank) : run_sizes(rank))
        return -1;
    if (muster_nccl_check(&rank->nccl, rank->nccl.comm_destroy(rank->comm), "ncclCommDestroy",
                          &rank->err))
        return -1;
    close_device(rank);
    return 0;
}

bool muster_allreduce_is_rank(int argc, char **argv)
{
    return argc >= 2 && strcmp(argv[argc - 2], MUSTER_ALLREDUCE_RANK) == 0;
}

int muster_allreduce_rank(const char *fd)
{
    struct muster_wire message;
    struct rank rank = {0};
    uint64_t number = 0;
    if (!muster_text_u64(fd, &number) || number > INT_MAX) {
        fprintf(stderr, "muster: " MUSTER_ALLREDUCE_RANK " is for muster's own use\n");
        return 2;
    }
    rank.fd = (int)number;
    if (receive_kind(&rank, MUSTER_WIRE_PLAN, &message)) {
        fprintf(stderr, "muster: " MUSTER_ALLREDUCE_RANK " is for muster's own use\n");
        return 2;
    }
    rank.index = (int)message.index;
    rank.plan = message.plan;
    int failed = run_plan(&rank);
    memset(&message, 0, sizeof message);
    message.kind = failed ? MUSTER_WIRE_FAILED : MUSTER_WIRE_DONE;
    if (failed)
        message.failed = rank.err;
    muster_wire_send(rank.fd, &message);
    return failed ? 1 : 0;
}
