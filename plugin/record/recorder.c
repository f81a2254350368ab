#include "record/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "record/drain.h"
#include "record/event_reader.h"
#include "record/handle.h"

enum { HASH_PROBES = 64 };
#define EXIT_WAIT_NS (1 * MUSTER_NS_PER_S)

static uint32_t fresh_nonce(void)
{
    uint64_t seed = muster_now_ns() * 0x9e3779b97f4a7c15ull ^ (uint64_t)getpid() << 32;
    uint32_t nonce = (uint32_t)((seed * 0xff51afd7ed558ccdull) >> 44);
    return nonce ? nonce : 1; /* so that no handle is NULL */
}

int muster_recorder_create(struct muster_recorder **out,
                           const struct muster_recorder_options *options, struct muster_err *err)
{
    struct muster_recorder *recorder = calloc(1, sizeof *recorder);
    if (!recorder)
        return muster_fail_memory(err, "the recorder");
    recorder->seg = options->file.map;
    recorder->options = *options;
    recorder->nonce = fresh_nonce();
    atomic_store_explicit(&recorder->kernels, options->kernels, memory_order_relaxed);
    muster_fast_clock_init(&recorder->clock, options->replay);
    recorder->pid = getpid();
    pthread_mutex_init(&recorder->comm_lock, NULL);
    pthread_mutex_init(&recorder->drain_lock, NULL);
    muster_launches_init(&recorder->launches);
    struct muster_seg_comm *other = muster_seg_other(recorder->seg);
    other->uid = MUSTER_SEG_OTHER_UID;
    other->rank = -1;
    other->gpu_index = -1;
    int code = muster_drain_start(recorder);
    if (code) {
        free(recorder);
        return muster_fail(err, "cannot start the drain thread: %s", strerror(code));
    }
    if (options->cuda) {
        recorder->launches.cuda = *options->cuda;
        recorder->launches.possible = muster_completion_start(recorder) == 0;
    }
    *out = recorder;
    return 0;
}

void muster_recorder_forked(struct muster_recorder *recorder)
{
    atomic_store_explicit(&recorder->closed, true, memory_order_relaxed);
}

/* Not pthread_mutex_clocklock: ThreadSanitizer does not know it, and sees races. */
static bool lock_for_exit(pthread_mutex_t *lock)
{
    uint64_t until_ns = muster_now_ns() + EXIT_WAIT_NS;
    while (pthread_mutex_trylock(lock) != 0) {
        if (muster_now_ns() >= until_ns)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = MUSTER_NS_PER_MS}, NULL);
    }
    return true;
}

void muster_recorder_exit(struct muster_recorder *recorder)
{
    if (atomic_load_explicit(&recorder->closed, memory_order_relaxed))
        return;
    muster_completion_settle(&recorder->launches);
    atomic_store_explicit(&recorder->launches.stopped, true, memory_order_relaxed);
    if (lock_for_exit(&recorder->drain_lock)) {
        recorder->exiting = true;
        muster_drain_pass(recorder, muster_now_ns());
        atomic_store_explicit(&recorder->closed, true, memory_order_relaxed);
        pthread_mutex_unlock(&recorder->drain_lock);
    }
    struct muster_segment *seg = recorder->seg;
    /* Release: pairs with whoever copies the segment; what was recorded comes before. */
    uint32_t open = MUSTER_EXIT_OPEN;
    atomic_compare_exchange_strong_explicit(&seg->exit_state, &open, MUSTER_EXIT_EXITED,
                                            memory_order_release, memory_order_relaxed);
}

void muster_recorder_drop(struct muster_recorder *recorder, struct muster_comm *comm,
                          enum muster_drop reason)
{
    atomic_fetch_add_explicit(&recorder->seg->drops[reason], 1, memory_order_relaxed);
    if (comm)
        atomic_fetch_add_explicit(&comm->calls->drops[reason], 1, memory_order_relaxed);
}

/* An unused place in the table: new, or of the communicator finalized longest ago. */
static struct muster_comm *take_place(struct muster_recorder *recorder)
{
    struct muster_comm *oldest = NULL;
    for (uint32_t i = 0; i < MUSTER_COMMS; i++) {
        struct muster_comm *comm = atomic_load_explicit(&recorder->comm[i], memory_order_relaxed);
        if (!comm) {
            comm = aligned_alloc(64, (sizeof *comm + 63) / 64 * 64);
            if (!comm)
                break;
            memset((void *)comm, 0, sizeof *comm);
            comm->index = i;
            comm->calls = &comm->own;
            return comm;
        }
        if (!atomic_load_explicit(&comm->alive, memory_order_relaxed) &&
            (!oldest || atomic_load_explicit(&comm->finalized_ns, memory_order_relaxed) <
                            atomic_load_explicit(&oldest->finalized_ns, memory_order_relaxed)))
            oldest = comm;
    }
    return oldest;
}

/* A free entry of the segment, or that of `other`. */
static uint32_t take_entry(const struct muster_segment *seg)
{
    uint32_t i = 0;
    while (i < MUSTER_SEG_COMMS && seg->comm[i].uid != 0)
        i++;
    return i;
}

static void label_entry(struct muster_seg_comm *entry, uint32_t uid,
                        const struct muster_event_init *init, const struct muster_gpu *gpu)
{
    entry->id = init->comm_hash;
    entry->rank = init->rank;
    entry->nranks = init->nranks > 0 ? (uint32_t)init->nranks : 0;
    entry->nnodes = init->nnodes > 0 ? (uint32_t)init->nnodes : 0;
    entry->gpu_index = gpu->index;
    muster_text_copy(entry->gpu_pci, sizeof entry->gpu_pci, gpu->pci);
    muster_text_copy(entry->gpu_uuid, sizeof entry->gpu_uuid, gpu->uuid);
    muster_text_copy(entry->name, sizeof entry->name, init->name);
    entry->begin_ns = muster_now_ns();
    /* Release: a reader that sees the uid sees what it names. */
    __atomic_store_n(&entry->uid, uid, __ATOMIC_RELEASE);
}

static void count_alive(struct muster_segment *seg, int change)
{
    uint32_t alive =
        atomic_fetch_add_explicit(&seg->comms_alive, (uint32_t)change, memory_order_relaxed) +
        (uint32_t)change;
    atomic_store_explicit(&seg->exit_state, alive ? MUSTER_EXIT_OPEN : MUSTER_EXIT_FINALIZED,
                          memory_order_relaxed);
}

static struct muster_comm *comm_open_locked(struct muster_recorder *recorder,
                                            const struct muster_event_init *init,
                                            const struct muster_gpu *gpu)
{
    struct muster_comm *comm = take_place(recorder);
    if (!comm)
        return NULL;
    if (!muster_comm_renew(comm, init)) {
        if (!atomic_load_explicit(&recorder->comm[comm->index], memory_order_relaxed))
            free(comm);
        return NULL;
    }
    struct muster_segment *seg = recorder->seg;
    comm->entry = take_entry(seg);
    if (comm->entry < MUSTER_SEG_COMMS) {
        comm->uid = ++recorder->next_uid;
        comm->calls = &seg->comm[comm->entry];
        label_entry(comm->calls, comm->uid, init, gpu);
    } else {
        comm->uid = MUSTER_SEG_OTHER_UID;
        comm->calls = &comm->own;
        seg->comm[MUSTER_SEG_COMMS].folded++;
    }
    comm->gpu = muster_launches_context(&recorder->launches, recorder->options.played);
    atomic_store_explicit(&comm->cursor, comm->index * 509u, memory_order_relaxed);
    atomic_store_explicit(&comm->alive, true, memory_order_relaxed);
    uint32_t generation = atomic_load_explicit(&comm->generation, memory_order_relaxed);
    atomic_store_explicit(&comm->generation, (generation + 1) & MUSTER_GENERATION_MASK,
                          memory_order_release);
    /* Release: pairs with the acquire in muster_recorder_comm. */
    atomic_store_explicit(&recorder->comm[comm->index], comm, memory_order_release);
    count_alive(seg, 1);
    return comm;
}

static void *context_of(const struct muster_recorder *recorder, const struct muster_comm *comm)
{
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_CONTEXT,
                              atomic_load_explicit(&comm->generation, memory_order_relaxed),
                              comm->index);
}

/* A context that is ours and no communicator's. */
static void *context_of_none(const struct muster_recorder *recorder)
{
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_CONTEXT, 0, UINT16_MAX);
}

void *muster_recorder_comm_open(struct muster_recorder *recorder,
                                const struct muster_event_init *init, const struct muster_gpu *gpu)
{
    pthread_mutex_lock(&recorder->comm_lock);
    struct muster_comm *comm = comm_open_locked(recorder, init, gpu);
    pthread_mutex_unlock(&recorder->comm_lock);
    if (!comm)
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_NO_COMM);
    return comm ? context_of(recorder, comm) : context_of_none(recorder);
}

static void comm_close_locked(struct muster_recorder *recorder, struct muster_comm *comm)
{
    uint64_t now = muster_now_ns();
    atomic_store_explicit(&comm->finalized_ns, now, memory_order_relaxed);
    atomic_store_explicit(&comm->alive, false, memory_order_relaxed);
    /* Relaxed: pairs with make_room_for_comms, which then takes the lock that is held here. */
    __atomic_store_n(&comm->calls->end_ns, now, __ATOMIC_RELAXED);
    count_alive(recorder->seg, -1);
}

void muster_recorder_comm_close(struct muster_recorder *recorder, const void *context)
{
    pthread_mutex_lock(&recorder->comm_lock);
    struct muster_comm *comm = muster_recorder_comm(recorder, context);
    struct muster_gpu_context *gpu = comm ? comm->gpu : NULL;
    if (comm)
        comm_close_locked(recorder, comm);
    pthread_mutex_unlock(&recorder->comm_lock);
    /* Without the lock: it waits. */
    if (gpu)
        muster_completion_leave(&recorder->launches, gpu);
}

void muster_recorder_comm_close_all(struct muster_recorder *recorder)
{
    pthread_mutex_lock(&recorder->comm_lock);
    for (unsigned i = 0; i < MUSTER_COMMS; i++) {
        struct muster_comm *comm = atomic_load_explicit(&recorder->comm[i], memory_order_relaxed);
        if (comm && atomic_load_explicit(&comm->alive, memory_order_relaxed))
            comm_close_locked(recorder, comm);
    }
    for (unsigned i = 0; i < MUSTER_COMM_HASH; i++)
        atomic_store_explicit(&recorder->by_hash[i], 0, memory_order_relaxed);
    pthread_mutex_unlock(&recorder->comm_lock);
}

static unsigned hash_place(uint64_t hash, int32_t rank, unsigned probe)
{
    uint64_t mixed = (hash ^ (uint64_t)(uint32_t)rank * 0x9e3779b97f4a7c15ull);
    return ((unsigned)(mixed * 0xff51afd7ed558ccdull >> 40) + probe) % MUSTER_COMM_HASH;
}

static struct muster_comm *find_named(struct muster_recorder *recorder, uint64_t hash, int32_t rank,
                                      unsigned *free_place)
{
    for (unsigned probe = 0; probe < HASH_PROBES; probe++) {
        unsigned place = hash_place(hash, rank, probe);
        unsigned index = atomic_load_explicit(&recorder->by_hash[place], memory_order_acquire);
        *free_place = place;
        if (index == 0)
            return NULL;
        struct muster_comm *comm =
            atomic_load_explicit(&recorder->comm[index - 1], memory_order_acquire);
        if (comm->id == hash && comm->rank == rank)
            return comm;
    }
    *free_place = MUSTER_COMM_HASH;
    return NULL;
}

struct muster_comm *muster_recorder_comm_named(struct muster_recorder *recorder, uint64_t hash,
                                               int32_t rank, const char *name)
{
    unsigned place;
    struct muster_comm *comm = find_named(recorder, hash, rank, &place);
    if (comm)
        return comm;
    struct muster_event_init init = {.comm_hash = hash, .name = name, .rank = rank, .api = 3};
    struct muster_gpu gpu = {.index = -1};
    pthread_mutex_lock(&recorder->comm_lock);
    comm = find_named(recorder, hash, rank, &place);
    if (!comm && place < MUSTER_COMM_HASH)
        comm = comm_open_locked(recorder, &init, &gpu);
    if (comm && place < MUSTER_COMM_HASH)
        atomic_store_explicit(&recorder->by_hash[place], (uint16_t)(comm->index + 1),
                              memory_order_release);
    pthread_mutex_unlock(&recorder->comm_lock);
    if (!comm)
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_NO_COMM);
    return comm;
}
