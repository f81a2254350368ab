#include "standin.h"

#include <sched.h>
#include <unistd.h>

#include "base/clock.h"

/* Channel 0 begins first and ends last, so that works of one kernel agree channel by channel. */
enum { CHANNEL_SKEW_NS = 8, SPIN_NS = 100000 };

static void wait_host(uint64_t until_ns)
{
    uint64_t now = muster_now_ns();

    if (now + SPIN_NS < until_ns)
        usleep((useconds_t)((until_ns - now - SPIN_NS) / 1000));
    while (muster_now_ns() < until_ns)
        sched_yield();
}

static void step(const struct standin_task *task, void *parent, int number)
{
    static const unsigned send_states[] = {8, 20, 9}, recv_states[] = {10, 11, 12};
    struct standin *nccl = task->comm->nccl;
    const unsigned *states = task->op.net_send ? send_states : recv_states;
    struct standin_args args = {.trans_bytes = (uint64_t)task->op.net_chunk};
    struct standin_event event = {
        .type = STANDIN_PROXY_STEP, .parent = parent, .rank = task->comm->rank, .step = number};
    void *handle = NULL;

    standin_start(nccl, task->comm->context, &handle, &event);
    if (!handle)
        return;
    for (unsigned i = 0; i < 3; i++) {
        if (states[i] == 20 && nccl->gen->api < 4)
            continue;
        standin_record(nccl, handle, states[i], nccl->gen->step_args ? &args : NULL);
        wait_host(muster_now_ns() + task->op.net_wait_ns);
    }
    standin_stop(nccl, handle);
}

static void proxy_op(const struct standin_task *task, int number)
{
    struct standin *nccl = task->comm->nccl;
    const struct standin_op *op = &task->op;
    struct standin_args args = {.steps = op->net_steps};
    struct standin_event event = {.type = STANDIN_PROXY_OP,
                                  .parent = task->coll,
                                  .rank = task->comm->rank,
                                  .pid = getpid(),
                                  .channel = (unsigned)number,
                                  .root_or_peer = op->net_peer,
                                  .steps = op->net_steps,
                                  .chunk = op->net_chunk,
                                  .send = op->net_send};
    void *handle = NULL;

    if (standin_delivers(nccl, STANDIN_PROXY_OP, task->mask))
        standin_start(nccl, task->comm->context, &handle, &event);
    if (handle && !nccl->gen->op_states)
        standin_record(nccl, handle, 19, &args);
    if (standin_delivers(nccl, STANDIN_PROXY_STEP, task->mask) && (handle || nccl->gen->api >= 5))
        for (int i = 0; i < op->net_steps; i++)
            step(task, handle, i);
    for (unsigned state = op->net_send ? 0 : 4, i = 0; handle && nccl->gen->op_states && i < 4;
         i++) {
        args.trans_bytes = (uint64_t)op->net_chunk * (uint64_t)op->net_steps;
        standin_record(nccl, handle, state + i, &args);
    }
    if (handle && !op->aborted)
        standin_stop(nccl, handle);
}

static void kernel_channels(const struct standin_task *task)
{
    struct standin *nccl = task->comm->nccl;
    const struct standin_op *op = &task->op;
    unsigned n = standin_op_channels(op) - op->silent_channels;
    void *handle[64] = {0};

    for (unsigned c = 0; c < n && c < 64; c++) {
        struct standin_event event = {.type = STANDIN_KERNEL_CH,
                                      .parent = task->coll,
                                      .channel = c,
                                      .ptimer = task->gpu_begin_ns + c * CHANNEL_SKEW_NS};
        standin_start(nccl, task->comm->context, &handle[c], &event);
    }
    wait_host(task->called_ns + task->gpu_end_ns - task->gpu_begin_ns + 1);
    wait_host(task->gpu_end_ns - task->comm->gpu->ahead_ns);
    for (unsigned c = 0; c < n && c < 64 && !op->aborted; c++) {
        struct standin_args args = {.ptimer = task->gpu_end_ns - c * CHANNEL_SKEW_NS};
        if (!handle[c])
            continue;
        if (nccl->gen->api >= 4)
            standin_record(nccl, handle[c], 22, &args);
        standin_stop(nccl, handle[c]);
    }
}

/* With exact_gpu standin_device.c shows them. */
static bool has_channels(const struct standin_task *task)
{
    return !task->comm->device && standin_delivers(task->comm->nccl, STANDIN_KERNEL_CH, task->mask);
}

static void progress(void *argument)
{
    const struct standin_task *task = argument;

    for (int i = 0; i < task->op.net_ops; i++)
        proxy_op(task, i);
    if (has_channels(task))
        kernel_channels(task);
}

void standin_proxy_post(const struct standin_task *task)
{
    struct standin_worker *worker = task->comm->proxy->worker;

    if (task->op.net_ops || has_channels(task))
        standin_worker_post(worker, progress, task, sizeof(*task));
    /* NCCL keeps 64 stamps a channel: a proxy that is further behind reads later works' ones. */
    if (has_channels(task) && ++task->comm->proxy->posted % 16 == 0)
        standin_worker_keep_up(worker);
}
