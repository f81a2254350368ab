#include "record/launches.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "record/comm.h"
#include "record/launch_state.h"

enum { TRIES = 4 }; /* places looked at before a launch goes untimed */
enum { BEGIN, END, PROBE };

static bool make_events(const struct muster_launches *launches, struct muster_gpu_context *gpu)
{
    for (unsigned i = 0; i < MUSTER_LAUNCHES; i++) {
        void **event = gpu->launch[i].event;
        if (launches->cuda.event_create(&event[BEGIN], MUSTER_CUDA_EVENT_DEFAULT) != 0 ||
            launches->cuda.event_create(&event[END], MUSTER_CUDA_EVENT_DEFAULT) != 0 ||
            launches->cuda.event_create(&event[PROBE], MUSTER_CUDA_EVENT_DISABLE_TIMING) != 0)
            return false;
    }
    return true;
}

void muster_launches_init(struct muster_launches *launches)
{
    pthread_mutex_init(&launches->lock, NULL);
    pthread_cond_init(&launches->asked, NULL);
    pthread_cond_init(&launches->answered, NULL);
}

bool muster_launches_lock(struct muster_launches *launches)
{
    if (atomic_load_explicit(&launches->stalled, memory_order_relaxed))
        return pthread_mutex_trylock(&launches->lock) == 0;
    struct timespec until = muster_realtime_in(MUSTER_LAUNCHES_WAIT_NS);
    bool locked = pthread_mutex_timedlock(&launches->lock, &until) == 0;
    atomic_store_explicit(&launches->stalled, !locked, memory_order_relaxed);
    return locked;
}

/* The place of the context; else a free one, else one whose context died, else one that has no
 * communicator. NULL: all are in use. */
static struct muster_gpu_context *find_place(struct muster_launches *launches,
                                             unsigned long long id)
{
    struct muster_gpu_context *best = NULL;
    for (unsigned i = 0; i < MUSTER_GPU_CONTEXTS; i++) {
        struct muster_gpu_context *gpu = &launches->gpu[i];
        unsigned long long its = atomic_load_explicit(&gpu->id, memory_order_relaxed);
        bool dead = atomic_load_explicit(&gpu->dead, memory_order_relaxed);
        if (its == id)
            return gpu;
        if (its == 0)
            return best && atomic_load_explicit(&best->dead, memory_order_relaxed) ? best : gpu;
        if (gpu->comms == 0 && (!best || dead))
            best = gpu;
    }
    return best;
}

/* Tickets go on where the place held another context before: what was known by the old ones is
 * lost. The old context's events died with it, or go with it. */
static bool make_context(struct muster_launches *launches, struct muster_gpu_context *gpu,
                         void *context, unsigned long long id)
{
    if (!gpu->launch)
        gpu->launch = calloc(MUSTER_LAUNCHES, sizeof *gpu->launch);
    if (!gpu->launch || (context && !make_events(launches, gpu)))
        return false;
    for (unsigned i = 0; i < MUSTER_LAUNCHES; i++) {
        atomic_store_explicit(&gpu->launch[i].result, MUSTER_LAUNCH_LOST, memory_order_relaxed);
        atomic_store_explicit(&gpu->launch[i].state, LAUNCH_FREE, memory_order_relaxed);
    }
    uint32_t next = atomic_load_explicit(&gpu->next, memory_order_relaxed);
    gpu->context = context;
    gpu->oldest = next ? next : 1;
    gpu->anchor = NULL;
    memset(&gpu->tie, 0, sizeof gpu->tie);
    atomic_store_explicit(&gpu->next, gpu->oldest, memory_order_relaxed);
    atomic_store_explicit(&gpu->dead, false, memory_order_relaxed);
    /* Release: pairs with the acquire in muster_completion_poll; the rest is there before. */
    atomic_store_explicit(&gpu->id, id, memory_order_release);
    return true;
}

static struct muster_gpu_context *context_locked(struct muster_launches *launches, void *context,
                                                 unsigned long long id)
{
    struct muster_gpu_context *gpu = find_place(launches, id);
    if (!gpu)
        return NULL;
    if (atomic_load_explicit(&gpu->id, memory_order_relaxed) == id) {
        if (atomic_load_explicit(&gpu->dead, memory_order_relaxed))
            return NULL;
    } else if (!make_context(launches, gpu, context, id)) {
        return NULL;
    }
    gpu->abandoned = false;
    gpu->comms++;
    return gpu;
}

struct muster_gpu_context *muster_launches_context(struct muster_launches *launches, bool played)
{
    unsigned long long id = 1;
    void *context = NULL;
    if (!played && (!launches->possible || launches->cuda.ctx_get_current(&context) != 0 ||
                    !context || launches->cuda.ctx_get_id(context, &id) != 0 || id == 0))
        return NULL;
    if (!muster_launches_lock(launches))
        return NULL;
    struct muster_gpu_context *gpu = context_locked(launches, context, id);
    pthread_mutex_unlock(&launches->lock);
    return gpu;
}

static struct muster_launch *take(struct muster_gpu_context *gpu)
{
    for (unsigned i = 0; i < TRIES; i++) {
        uint32_t ticket = atomic_fetch_add_explicit(&gpu->next, 1, memory_order_relaxed);
        struct muster_launch *launch = &gpu->launch[ticket % MUSTER_LAUNCHES];
        uint32_t state = LAUNCH_FREE;
        /* Acquire: pairs with the completion thread's release when it let the place go. */
        if (ticket == 0 ||
            !atomic_compare_exchange_strong_explicit(&launch->state, &state, LAUNCH_FILLING,
                                                     memory_order_acquire, memory_order_relaxed)) {
            atomic_store_explicit(&launch->passed_by, ticket, memory_order_relaxed);
            continue;
        }
        /* Release: pairs with the acquire in is_over: who sees the ticket sees the place taken. The
         * fence pairs with the acquire in muster_launch_poll: who sees the new result and times
         * sees the new ticket. */
        atomic_store_explicit(&launch->ticket, ticket, memory_order_release);
        atomic_thread_fence(memory_order_release);
        atomic_store_explicit(&launch->result, MUSTER_LAUNCH_PENDING, memory_order_relaxed);
        atomic_store_explicit(&launch->begin_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&launch->end_ns, 0, memory_order_relaxed);
        atomic_store_explicit(&launch->parts, 0, memory_order_relaxed);
        atomic_store_explicit(&launch->parts_ended, 0, memory_order_relaxed);
        return launch;
    }
    return NULL;
}

static void let_go(struct muster_launch *launch)
{
    atomic_store_explicit(&launch->result, MUSTER_LAUNCH_LOST, memory_order_relaxed);
    atomic_store_explicit(&launch->state, LAUNCH_FREE, memory_order_release);
}

/* On a stream that is being captured an event would become part of the graph; asking about the
 * legacy stream during a capture is an error that changes nothing. */
static bool may_record(const struct muster_launches *launches, const struct muster_gpu_context *gpu,
                       void *stream)
{
    int capture;
    return !atomic_load_explicit(&gpu->dead, memory_order_relaxed) &&
           !atomic_load_explicit(&launches->stopped, memory_order_relaxed) &&
           launches->cuda.stream_is_capturing(stream, &capture) == 0 &&
           capture == MUSTER_CUDA_NOT_CAPTURING;
}

static bool record(const struct muster_launches *launches, struct muster_launch *launch,
                   unsigned which, void *stream)
{
    if (launches->cuda.event_record(launch->event[which], stream) == 0)
        return true;
    let_go(launch);
    return false;
}

struct muster_launch *muster_launch_begin(struct muster_launches *launches,
                                          struct muster_comm *comm, void *stream, bool *full)
{
    struct muster_gpu_context *gpu = comm->gpu;
    bool played = !gpu->context;
    *full = false;
    if (!played && !may_record(launches, gpu, stream))
        return NULL;
    struct muster_launch *launch = take(gpu);
    *full = !launch;
    if (!launch || played)
        return launch;
    return record(launches, launch, BEGIN, stream) ? launch : NULL;
}

static uint32_t hand_over(struct muster_launch *launch, struct muster_comm *comm, bool timed,
                          uint64_t number, uint64_t now_ns, uint32_t state)
{
    uint32_t ticket = atomic_load_explicit(&launch->ticket, memory_order_relaxed);
    launch->comm = comm;
    launch->generation = atomic_load_explicit(&comm->generation, memory_order_relaxed);
    launch->number = number;
    launch->timed = timed;
    launch->recorded_ns = now_ns;
    /* Release: pairs with the acquire in muster_completion_poll. */
    atomic_store_explicit(&launch->state, state, memory_order_release);
    return ticket;
}

uint32_t muster_launch_end(struct muster_launches *launches, struct muster_launch *launch,
                           struct muster_comm *comm, void *stream, uint64_t number, uint64_t now_ns)
{
    if (!comm->gpu->context)
        return hand_over(launch, comm, true, number, now_ns, LAUNCH_FREE);
    if (!record(launches, launch, END, stream))
        return 0;
    atomic_store_explicit(&comm->calls->launches_probed, number, memory_order_relaxed);
    return hand_over(launch, comm, true, number, now_ns, LAUNCH_RECORDED);
}

/* The communicators that launch share the process's probes: each in its own time, so that none that
 * always launches first takes all of them. */
static bool take_turn(const struct muster_launches *launches, struct muster_comm *comm,
                      uint64_t now_ns)
{
    uint32_t active = atomic_load_explicit(&launches->active, memory_order_relaxed);
    if (now_ns < comm->probed_ns + (uint64_t)MUSTER_PROBE_INTERVAL_NS * (active ? active : 1))
        return false;
    comm->probed_ns = now_ns;
    return true;
}

uint32_t muster_launch_probe(struct muster_launches *launches, struct muster_comm *comm,
                             void *stream, uint64_t number, uint64_t now_ns)
{
    struct muster_gpu_context *gpu = comm->gpu;
    if (!gpu->context || !take_turn(launches, comm, now_ns) || !may_record(launches, gpu, stream))
        return 0;
    struct muster_launch *launch = take(gpu);
    if (!launch || !record(launches, launch, PROBE, stream))
        return 0;
    atomic_store_explicit(&comm->calls->launches_probed, number, memory_order_relaxed);
    return hand_over(launch, comm, false, number, now_ns, LAUNCH_RECORDED);
}

void muster_launch_poll(const struct muster_gpu_context *gpu, uint32_t ticket,
                        struct muster_launch_times *times)
{
    const struct muster_launch *launch = &gpu->launch[ticket % MUSTER_LAUNCHES];
    /* Acquire: pairs with the completion thread's release; the times are there before it. */
    uint32_t result = atomic_load_explicit(&launch->result, memory_order_acquire);
    *times = (struct muster_launch_times){
        .result = (enum muster_launch_result)result,
        .timed = launch->timed,
        .begin_ns = atomic_load_explicit(&launch->begin_ns, memory_order_relaxed),
        .end_ns = atomic_load_explicit(&launch->end_ns, memory_order_relaxed),
        .parts = atomic_load_explicit(&launch->parts, memory_order_relaxed),
        .parts_ended = atomic_load_explicit(&launch->parts_ended, memory_order_relaxed),
    };
    /* Acquire fence: pairs with the release in take: a later launch's times are not taken for this
     * one's. */
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&launch->ticket, memory_order_relaxed) != ticket)
        times->result = MUSTER_LAUNCH_LOST;
}

/* One thread plays: load and store are enough. */
void muster_launch_part(struct muster_gpu_context *gpu, uint32_t ticket, uint64_t begin_ns,
                        uint64_t end_ns)
{
    struct muster_launch *launch = &gpu->launch[ticket % MUSTER_LAUNCHES];
    if (atomic_load_explicit(&launch->ticket, memory_order_relaxed) != ticket)
        return;
    uint64_t begin = atomic_load_explicit(&launch->begin_ns, memory_order_relaxed);
    if (end_ns == 0) {
        if (begin == 0 || begin_ns < begin)
            atomic_store_explicit(&launch->begin_ns, begin_ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&launch->parts, 1, memory_order_relaxed);
        return;
    }
    if (end_ns > atomic_load_explicit(&launch->end_ns, memory_order_relaxed))
        atomic_store_explicit(&launch->end_ns, end_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&launch->parts_ended, 1, memory_order_release);
}
