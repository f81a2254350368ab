#include "record/event_reader.h"

#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "record/launch_state.h"
#include "record/recorder.h"

enum { BEGIN, END, PROBE };
enum { SKIPPED = 32 }; /* communicators that are waited for, remembered in one look */
#define PAUSE_NS      100000
#define PAUSE_MOST_NS (2 * MUSTER_NS_PER_MS)
#define IDLE_NS       (1 * MUSTER_NS_PER_MS)
#define REST_NS       (5 * MUSTER_NS_PER_MS) /* where the last look found nothing new */
#define COUNT_NS      (10 * MUSTER_NS_PER_MS)
/* How long a launch is outstanding before it is worth asking whether it has begun. */
#define BEGUN_NS MUSTER_NS_PER_MS

struct look {
    const struct muster_cuda *cuda;
    struct muster_gpu_context *gpu;
    uint64_t now_ns;
    uint64_t youngest_ns; /* age of the youngest that some communicator waits for */
    uint32_t outstanding;
    unsigned skipped;
    const struct muster_comm *skip[SKIPPED]; /* an earlier launch of theirs is not over */
};

static bool is_skipped(const struct look *look, const struct muster_comm *comm)
{
    for (unsigned i = 0; i < look->skipped; i++)
        if (look->skip[i] == comm)
            return true;
    return false;
}

/* The communicator's launches up to this one have ended. */
static void advance(const struct muster_launch *launch, uint64_t now_ns)
{
    struct muster_comm *comm = launch->comm;
    if (atomic_load_explicit(&comm->generation, memory_order_relaxed) != launch->generation)
        return; /* another communicator took the place, or its entry in the segment */
    struct muster_seg_comm *entry = comm->calls;
    if (launch->number > atomic_load_explicit(&entry->launches_ended, memory_order_relaxed)) {
        atomic_store_explicit(&entry->ended_ns, now_ns, memory_order_relaxed);
        /* Release: pairs with whoever reads the segment; the time comes before. */
        atomic_store_explicit(&entry->launches_ended, launch->number, memory_order_release);
    }
}

static void finish(struct muster_launch *launch, enum muster_launch_result result, uint32_t state)
{
    /* Release, both: the times come before the result (acquire in muster_launch_poll), the result
     * before the place is free (acquire in take). */
    atomic_store_explicit(&launch->result, result, memory_order_release);
    atomic_store_explicit(&launch->state, state, memory_order_release);
}

static void lose(struct muster_gpu_context *gpu)
{
    for (unsigned i = 0; i < MUSTER_LAUNCHES; i++)
        if (atomic_load_explicit(&gpu->launch[i].state, memory_order_acquire) == LAUNCH_RECORDED)
            finish(&gpu->launch[i], MUSTER_LAUNCH_LOST, LAUNCH_FREE);
    gpu->oldest = atomic_load_explicit(&gpu->next, memory_order_relaxed);
}

/* The context is gone, or broken for good: its events may not be touched any more. */
static void bury(struct muster_gpu_context *gpu)
{
    atomic_store_explicit(&gpu->dead, true, memory_order_relaxed);
    lose(gpu);
    gpu->anchor = NULL;
}

static int64_t ns_of(float ms)
{
    return (int64_t)((double)ms * 1e6 + (ms < 0 ? -0.5 : 0.5));
}

/* Neighbouring events only: the driver's float of milliseconds keeps half a microsecond over 8 s.
 */
static int read_times(struct look *look, struct muster_launch *launch)
{
    struct muster_gpu_context *gpu = look->gpu;
    float length, distance = 0;
    int code = look->cuda->event_elapsed(&length, launch->event[BEGIN], launch->event[END]);
    if (code == 0 && gpu->anchor)
        code = look->cuda->event_elapsed(&distance, gpu->anchor->event[END], launch->event[BEGIN]);
    if (code != 0)
        return code;
    uint64_t begin = gpu->anchor ? gpu->anchor_ns + (uint64_t)ns_of(distance)
                                 : look->now_ns - (uint64_t)ns_of(length);
    uint64_t end = begin + (uint64_t)ns_of(length);
    atomic_store_explicit(&launch->begin_ns, begin, memory_order_relaxed);
    atomic_store_explicit(&launch->end_ns, end, memory_order_relaxed);
    if (gpu->anchor)
        atomic_store_explicit(&gpu->anchor->state, LAUNCH_FREE, memory_order_release);
    gpu->anchor = launch;
    gpu->anchor_ns = end;
    return 0;
}

static void wait_longer(struct look *look, struct muster_launch *launch)
{
    uint64_t age = look->now_ns > launch->recorded_ns ? look->now_ns - launch->recorded_ns : 0;
    look->outstanding++;
    if (age < look->youngest_ns)
        look->youngest_ns = age;
    if (look->skipped < SKIPPED)
        look->skip[look->skipped++] = launch->comm;
    if (launch->timed && age > BEGUN_NS &&
        atomic_load_explicit(&launch->result, memory_order_relaxed) == MUSTER_LAUNCH_PENDING &&
        look->cuda->event_query(launch->event[BEGIN]) == 0)
        atomic_store_explicit(&launch->result, MUSTER_LAUNCH_STARTED, memory_order_relaxed);
}

/* False: the context is dead. */
static bool look_at(struct look *look, struct muster_launch *launch)
{
    if (is_skipped(look, launch->comm)) {
        look->outstanding++;
        return true;
    }
    int code =
        launch->timed ? read_times(look, launch) : look->cuda->event_query(launch->event[PROBE]);
    if (code == MUSTER_CUDA_NOT_READY) {
        wait_longer(look, launch);
        return true;
    }
    if (code != 0)
        return false;
    uint64_t over = launch->timed
                        ? muster_tie_host_ns(&look->gpu->tie, look->gpu->anchor_ns, look->now_ns)
                        : look->now_ns;
    advance(launch, over);
    finish(launch, MUSTER_LAUNCH_ENDED, launch->timed ? LAUNCH_ANCHOR : LAUNCH_FREE);
    return true;
}

/* Whether it is still the context that the events were made in. */
static bool is_alive(const struct look *look)
{
    unsigned long long id;
    return look->cuda->ctx_get_id(look->gpu->context, &id) == 0 &&
           id == atomic_load_explicit(&look->gpu->id, memory_order_relaxed);
}

/* Tickets wrap. */
static bool is_within(uint32_t ticket, uint32_t from, uint32_t end)
{
    return ticket - from < end - from;
}

/* Nothing will come of the ticket any more: its launch is over, or it found the place taken, or a
 * later one has it. A ticket that was drawn and has no place yet leaves the last lap's there; whose
 * a place is that is being filled need not be seen yet. */
static bool is_over(const struct muster_launch *launch, uint32_t ticket, uint32_t next)
{
    /* Acquire: pairs with the release in take; a place that has the ticket is taken, or was. */
    uint32_t its = atomic_load_explicit(&launch->ticket, memory_order_acquire);
    uint32_t state = atomic_load_explicit(&launch->state, memory_order_relaxed);
    if (state == LAUNCH_FILLING)
        return false;
    if (its == ticket)
        return state == LAUNCH_FREE || state == LAUNCH_ANCHOR;
    return is_within(its, ticket, next) ||
           is_within(atomic_load_explicit(&launch->passed_by, memory_order_relaxed), ticket, next);
}

/* From the oldest launch that is not over, each place once, so that launches are met in their
 * order. Where places ran out, tickets that found none are more than a lap ahead of it. */
static bool look_at_places(struct look *look, uint32_t next)
{
    struct muster_gpu_context *gpu = look->gpu;
    uint32_t oldest = gpu->oldest;
    bool prefix = true;
    for (uint32_t ticket = oldest; ticket != next && (prefix || ticket - oldest < MUSTER_LAUNCHES);
         ticket++) {
        struct muster_launch *launch = &gpu->launch[ticket % MUSTER_LAUNCHES];
        /* Acquire: pairs with the release in hand_over. */
        if (atomic_load_explicit(&launch->state, memory_order_acquire) == LAUNCH_RECORDED &&
            !look_at(look, launch))
            return false;
        prefix = prefix && is_over(launch, ticket, next);
        if (prefix)
            gpu->oldest = ticket + 1;
    }
    return true;
}

static void look_at_context(struct look *look)
{
    struct muster_gpu_context *gpu = look->gpu;
    uint32_t next = atomic_load_explicit(&gpu->next, memory_order_relaxed);
    if (gpu->oldest == next)
        return;
    if (!is_alive(look) || look->cuda->ctx_set_current(gpu->context) != 0 ||
        !look_at_places(look, next))
        bury(gpu);
}

static uint64_t pause_after(uint32_t outstanding, uint64_t age_ns, bool launched)
{
    if (outstanding == 0)
        return launched ? IDLE_NS : REST_NS;
    uint64_t pause = age_ns / 100;
    return pause < PAUSE_NS ? PAUSE_NS : pause < PAUSE_MOST_NS ? pause : PAUSE_MOST_NS;
}

uint64_t muster_completion_poll(struct muster_launches *launches)
{
    uint32_t outstanding = 0;
    uint64_t youngest = UINT64_MAX;
    bool launched = false;
    for (unsigned i = 0; i < MUSTER_GPU_CONTEXTS; i++) {
        struct muster_gpu_context *gpu = &launches->gpu[i];
        /* Acquire: pairs with the release in muster_launches_context. */
        if (atomic_load_explicit(&gpu->id, memory_order_acquire) == 0)
            break;
        if (atomic_load_explicit(&gpu->dead, memory_order_relaxed) ||
            atomic_load_explicit(&launches->stopped, memory_order_relaxed) || !gpu->context)
            continue;
        struct look look = {.cuda = &launches->cuda,
                            .gpu = gpu,
                            .now_ns = muster_now_ns(),
                            .youngest_ns = UINT64_MAX};
        launched |= gpu->oldest != atomic_load_explicit(&gpu->next, memory_order_relaxed);
        look_at_context(&look);
        if (gpu->abandoned)
            lose(gpu);
        outstanding += look.outstanding;
        youngest = look.youngest_ns < youngest ? look.youngest_ns : youngest;
    }
    return pause_after(outstanding, youngest, launched);
}

void muster_completion_count_active(struct muster_recorder *recorder)
{
    uint32_t active = 0;
    for (unsigned i = 0; i < MUSTER_COMMS; i++) {
        struct muster_comm *comm = atomic_load_explicit(&recorder->comm[i], memory_order_acquire);
        if (!comm)
            break;
        uint64_t launches = atomic_load_explicit(&comm->calls->launches, memory_order_relaxed);
        active += launches != comm->launches_seen;
        comm->launches_seen = launches;
    }
    atomic_store_explicit(&recorder->launches.active, active, memory_order_relaxed);
}

static void ask_locked(struct muster_launches *launches)
{
    struct timespec until = muster_realtime_in(MUSTER_LAUNCHES_WAIT_NS);
    uint64_t mine = ++launches->asks;
    int code = 0;
    pthread_cond_signal(&launches->asked);
    while (code == 0 && launches->answers < mine &&
           !atomic_load_explicit(&launches->stalled, memory_order_relaxed))
        code = pthread_cond_timedwait(&launches->answered, &launches->lock, &until);
    if (code)
        atomic_store_explicit(&launches->stalled, true, memory_order_relaxed);
}

void muster_completion_settle(struct muster_launches *launches)
{
    if (!launches->possible || !muster_launches_lock(launches))
        return;
    ask_locked(launches);
    pthread_mutex_unlock(&launches->lock);
}

void muster_completion_leave(struct muster_launches *launches, struct muster_gpu_context *gpu)
{
    if (!launches->possible || !muster_launches_lock(launches))
        return;
    gpu->comms--;
    gpu->abandoned = gpu->comms == 0;
    if (gpu->abandoned)
        ask_locked(launches);
    pthread_mutex_unlock(&launches->lock);
}

/* Looks, answers whoever asked for it, and pauses; in the pause the lock is free. */
static void turn(struct muster_launches *launches)
{
    uint64_t asks = launches->asks;
    uint64_t pause = muster_completion_poll(launches);
    launches->answers = asks;
    atomic_store_explicit(&launches->stalled, false, memory_order_relaxed);
    pthread_cond_broadcast(&launches->answered);
    struct timespec until = muster_realtime_in(pause);
    if (launches->asks == asks)
        pthread_cond_timedwait(&launches->asked, &launches->lock, &until);
}

static void *completion_main(void *arg)
{
    struct muster_recorder *recorder = arg;
    struct muster_launches *launches = &recorder->launches;
    uint64_t counted = 0;
    int mode = MUSTER_CUDA_CAPTURE_RELAXED;
    if (launches->cuda.exchange_capture_mode(&mode) != 0)
        atomic_store_explicit(&launches->stopped, true, memory_order_relaxed);
    pthread_mutex_lock(&launches->lock);
    while (!atomic_load_explicit(&launches->stopped, memory_order_relaxed)) {
        turn(launches);
        uint64_t now = muster_now_ns();
        if (now >= counted + COUNT_NS) {
            counted = now;
            muster_completion_count_active(recorder);
        }
    }
    launches->answers = UINT64_MAX;
    pthread_mutex_unlock(&launches->lock);
    return NULL;
}

int muster_completion_start(struct muster_recorder *recorder)
{
    return muster_thread_start("muster-events", completion_main, recorder);
}
