#include "standin_device.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "standin.h"

enum { CHANNEL_SKEW_NS = 8, WAITING = 4096 };

/* Written by the launching thread, read by the proxy's: the counter last. */
struct stamp {
    _Atomic uint64_t counter, ns;
};

/* One channel of an operation that the host expects stamps of. */
struct expected {
    uint64_t work, until_ns; /* host: not over before */
    unsigned channel;
    bool aborted, started;
    void *parent, *handle;
};

struct standin_device {
    uint64_t ran[STANDIN_CHANNELS], counted[STANDIN_CHANNELS]; /* device's, host's */
    struct stamp begun[STANDIN_CHANNELS][STANDIN_RING], ended[STANDIN_CHANNELS][STANDIN_RING];
    struct expected waiting[WAITING]; /* the proxy thread's */
    unsigned waits;
};

struct standin_device *standin_device_create(void)
{
    struct standin_device *device = calloc(1, sizeof(*device));

    if (!device)
        _exit(96);
    return device;
}

void standin_device_destroy(struct standin_device *device)
{
    free(device);
}

unsigned standin_device_waiting(const struct standin_comm *comm)
{
    return comm->device ? comm->device->waits : 0;
}

/* --- the launch ------------------------------------------------------------------------------ */

static bool armed(const struct standin_task *task)
{
    return task && task->mask & STANDIN_KERNEL_CH;
}

static void write_stamp(struct stamp *stamp, uint64_t counter, uint64_t ns)
{
    atomic_store_explicit(&stamp->ns, ns, memory_order_relaxed);
    /* Release: pairs with the acquire in read_stamp. */
    atomic_store_explicit(&stamp->counter, counter, memory_order_release);
}

/* One work on `channels` channels; `timed`: the device was told so. */
static void run(struct standin_device *device, const struct standin_task *like, unsigned channels,
                bool timed)
{
    for (unsigned c = 0; c < channels; c++) {
        uint64_t n = ++device->ran[c];
        if (!timed)
            continue;
        uint64_t skew = c * CHANNEL_SKEW_NS;
        write_stamp(&device->begun[c][n % STANDIN_RING], n, like->gpu_begin_ns + skew);
        write_stamp(&device->ended[c][n % STANDIN_RING], n, like->gpu_end_ns - skew);
    }
}

/* The host's numbers of a work that `task` is part of. */
static void expect(struct standin_device *device, struct standin_task *task, unsigned channels,
                   bool advance)
{
    for (unsigned c = 0; c < channels; c++)
        task->work[c] = advance ? ++device->counted[c] : device->counted[c];
}

static unsigned channels_of(const struct standin_task *task)
{
    unsigned channels = task ? standin_op_channels(&task->op) : 0;
    return channels < STANDIN_CHANNELS ? channels : STANDIN_CHANNELS;
}

static void run_collective(struct standin_comm *comm, struct standin_task *task)
{
    bool shown = standin_shown(task), timed = shown && armed(task);
    bool counts = !comm->nccl->gen->profiler_thread || timed;

    run(comm->device, task, channels_of(task), timed);
    if (counts)
        expect(comm->device, task, channels_of(task), true);
}

/* Either may be NULL: alone in its work. */
static void run_pair(struct standin_comm *comm, struct standin_task *send,
                     struct standin_task *receive, bool counts)
{
    struct standin_task *first = receive ? receive : send, *second = receive ? send : NULL;
    unsigned channels = channels_of(first);
    bool to_itself = first->op.root_or_peer == comm->rank;
    bool advance = counts && (comm->nccl->gen->profiler_thread || !to_itself);

    if (channels_of(second) > channels)
        channels = channels_of(second);
    if (second && armed(first) != armed(second))
        standin_die("NCCL waits for ever: of a send and a receive of one group one was timed and "
                    "the other was not (masks %#x and %#x)",
                    send->mask, receive->mask);
    run(comm->device, first, channels, armed(first));
    expect(comm->device, first, channels, advance);
    if (second)
        memcpy(second->work, first->work, sizeof(second->work));
}

static struct standin_task *nth(struct standin_group *group, const struct standin_comm *comm,
                                const char *func, unsigned n)
{
    for (unsigned i = 0; i < group->tasks; i++) {
        struct standin_task *task = &group->task[i];
        if (task->comm == comm && !strcmp(task->op.func, func) && n-- == 0)
            return task;
    }
    return NULL;
}

static void run_pairs(struct standin_group *group, struct standin_comm *comm)
{
    bool once = comm->nccl->gen->profiler_thread, counted = false;

    for (unsigned k = 0;; k++) {
        struct standin_task *send = nth(group, comm, "Send", k);
        struct standin_task *receive = nth(group, comm, "Recv", k);
        if (!send && !receive)
            return;
        bool timed = armed(receive ? receive : send);
        run_pair(comm, send, receive, once ? timed && !counted : true);
        counted |= timed;
    }
}

void standin_device_slip(struct standin_comm *comm)
{
    uint64_t now = muster_now_ns() + comm->gpu->ahead_ns;
    const struct standin_task like = {.gpu_begin_ns = now - 2048, .gpu_end_ns = now - 1024};

    run(comm->device, &like, STANDIN_CHANNELS, true);
}

void standin_device_launch(struct standin_group *group, struct standin_comm *comm)
{
    if (!comm->device)
        return;
    for (unsigned i = 0; i < group->tasks; i++) {
        struct standin_task *task = &group->task[i];
        if (task->comm == comm && !standin_is_p2p(&task->op) &&
            (standin_shown(task) || !strcmp(task->op.func, "Broadcast")))
            run_collective(comm, task);
    }
    run_pairs(group, comm);
}

/* --- the thread that looks ------------------------------------------------------------------- */

static bool read_stamp(struct stamp *stamp, uint64_t work, uint64_t *ns)
{
    /* Acquire: pairs with the release in write_stamp. */
    if (atomic_load_explicit(&stamp->counter, memory_order_acquire) < work)
        return false;
    *ns = atomic_load_explicit(&stamp->ns, memory_order_relaxed);
    return true;
}

static void open_channel(struct standin_comm *comm, struct expected *one)
{
    struct standin_event event = {
        .type = STANDIN_KERNEL_CH, .parent = one->parent, .channel = one->channel};

    if (one->started || !read_stamp(&comm->device->begun[one->channel][one->work % STANDIN_RING],
                                    one->work, &event.ptimer))
        return;
    standin_start(comm->nccl, comm->context, &one->handle, &event);
    one->started = true;
}

/* Whether it is over. */
static bool close_channel(struct standin_comm *comm, const struct expected *one)
{
    struct standin_args args = {0};

    while (muster_now_ns() < one->until_ns)
        sched_yield();
    if (!one->started || one->aborted ||
        !read_stamp(&comm->device->ended[one->channel][one->work % STANDIN_RING], one->work,
                    &args.ptimer))
        return one->started && one->aborted;
    if (one->handle) {
        if (comm->nccl->gen->api >= 4)
            standin_record(comm->nccl, one->handle, 22, &args);
        standin_stop(comm->nccl, one->handle);
    }
    return true;
}

static void close_what_ended(void *argument)
{
    struct standin_comm *comm = *(struct standin_comm **)argument;
    struct standin_device *device = comm->device;
    unsigned kept = 0;

    for (unsigned i = 0; i < device->waits; i++)
        if (!close_channel(comm, &device->waiting[i]))
            device->waiting[kept++] = device->waiting[i];
    device->waits = kept;
}

/* The next round closes: what else was posted by now is opened before. */
static void look(struct standin_comm *comm)
{
    for (unsigned i = 0; i < comm->device->waits; i++)
        open_channel(comm, &comm->device->waiting[i]);
    standin_worker_post(comm->proxy->worker, close_what_ended, &comm, sizeof(comm));
}

static void take(struct standin_device *device, const struct standin_task *task)
{
    unsigned channels = channels_of(task) - task->op.silent_channels;

    for (unsigned c = 0; c < channels; c++) {
        if (device->waits == WAITING)
            standin_die("%u stamps waited for", WAITING);
        device->waiting[device->waits++] =
            (struct expected){.work = task->work[c],
                              .until_ns = task->gpu_end_ns - task->comm->gpu->ahead_ns,
                              .channel = c,
                              .parent = task->coll,
                              .aborted = task->op.aborted};
    }
}

static void look_for_task(void *argument)
{
    const struct standin_task *task = argument;

    take(task->comm->device, task);
    look(task->comm);
}

struct plan {
    unsigned tasks;
    struct standin_task task[STANDIN_MAX_TASKS];
};

static void look_for_plan(void *argument)
{
    const struct plan *plan = argument;

    for (unsigned i = 0; i < plan->tasks; i++)
        take(plan->task[i].comm->device, &plan->task[i]);
    look(plan->task[0].comm);
}

void standin_device_post(const struct standin_group *group, struct standin_comm *comm)
{
    struct plan plan = {0};
    bool sent = false;

    if (!comm->device)
        return;
    for (unsigned i = 0; i < group->tasks; i++) {
        const struct standin_task *task = &group->task[i];
        bool p2p = standin_is_p2p(&task->op);
        if (task->comm != comm || !standin_shown(task) || !armed(task) ||
            (p2p && sent && comm->nccl->gen->profiler_thread))
            continue;
        sent |= p2p;
        plan.task[plan.tasks++] = *task;
    }
    if (plan.tasks == 0)
        return;
    if (comm->nccl->gen->profiler_thread) {
        standin_worker_post(comm->proxy->worker, look_for_plan, &plan,
                            offsetof(struct plan, task) + plan.tasks * sizeof(plan.task[0]));
        return;
    }
    for (unsigned i = 0; i < plan.tasks; i++)
        standin_worker_post(comm->proxy->worker, look_for_task, &plan.task[i],
                            sizeof(plan.task[i]));
}
