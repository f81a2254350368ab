#include "record/drain.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "record/handle.h"
#include "record/launch_timing.h"
#include "record/track.h"
#include "segment/seqlock.h"

enum {
    CROWDED = MUSTER_SEG_SLOTS * 3 / 4, /* slots in use that make room by force */
    BUSY = MUSTER_SEG_SLOTS / 4,        /* slots in use that shorten the pause */
    SPARE_ENTRIES = 16,                 /* communicator entries kept free in the segment */
};
#define PAUSE_NS      (5 * MUSTER_NS_PER_MS)
#define BUSY_PAUSE_NS (1 * MUSTER_NS_PER_MS)
#define HEARTBEAT_NS  (100 * MUSTER_NS_PER_MS)
/* A send or receive uses fewer channels than it announces, and proxies come one by one: it has
 * ended when nothing was added for this long. */
#define QUIET_NS (20 * MUSTER_NS_PER_MS)
/* How long a launch may stay away before its call is taken for one that NCCL does not show, and
 * how long a proxy may before the operation is retired without times. */
#define PATIENCE_NS (2 * MUSTER_NS_PER_S)
/* How long a slot that was given up early stays out of use: late callbacks may be inside it. */
#define REST_NS (50 * MUSTER_NS_PER_MS)

enum verdict { KEEP, RETIRE, RETIRE_EARLY, RETIRE_CALL };

static uint64_t age(uint64_t now, uint64_t then)
{
    return now > then ? now - then : 0;
}

/* Finalized at least `ns` ago: nothing more will come. */
static bool over_for(const struct muster_comm *comm, uint64_t now, uint64_t ns)
{
    uint64_t at = atomic_load_explicit(&comm->finalized_ns, memory_order_relaxed);
    return at != 0 && age(now, at) >= ns;
}

/* A probe behind its launch is over, or a later operation's kernels are. */
static bool ended_unseen(const struct muster_comm *comm, const struct muster_seg_slot *slot)
{
    uint64_t ended = atomic_load_explicit(&comm->calls->launches_ended, memory_order_relaxed);
    return (slot->launch != 0 && (uint32_t)ended >= slot->launch) ||
           slot->enqueue_ns < atomic_load_explicit(&comm->ended_ns, memory_order_relaxed);
}

/* In a replay: whether the recorded stamps of the slot's launch are all there. A launch of one
 * collective has as many as channels; of others NCCL announces more than come. */
static bool is_played(const struct muster_seg_slot *slot, const struct muster_launch_times *launch,
                      bool quiet)
{
    uint32_t ended = atomic_load_explicit(&slot->ended, memory_order_acquire);
    if (launch->parts == 0 || launch->parts != launch->parts_ended)
        return false;
    return (!slot->p2p && ended == launch->parts && ended >= slot->channels) || quiet;
}

/* What the events around or behind the slot's launch show. */
static enum verdict evaluate_launch(struct muster_recorder *recorder, struct muster_seg_slot *slot,
                                    bool quiet, struct muster_launch_times *launch)
{
    struct muster_gpu_context *gpu = muster_timing_context(recorder, slot);
    if (!gpu)
        return RETIRE;
    muster_launch_poll(gpu, slot->ticket, launch);
    switch (launch->result) {
    case MUSTER_LAUNCH_STARTED:
        /* Its kernel runs: who asks why nothing ends sees that. */
        if (!muster_recorder_kernels(recorder))
            atomic_store_explicit(&slot->started, 1, memory_order_relaxed);
        return KEEP;
    case MUSTER_LAUNCH_PENDING:
        if (!recorder->options.played || !is_played(slot, launch, quiet))
            return KEEP;
        launch->result = MUSTER_LAUNCH_ENDED;
        return RETIRE;
    case MUSTER_LAUNCH_ENDED:
        return RETIRE;
    case MUSTER_LAUNCH_LOST:
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_NO_EVENT);
        return RETIRE;
    }
    return RETIRE;
}

/* The network's proxies may end after the kernels that they serve. */
static bool has_open_proxies(const struct muster_seg_slot *slot)
{
    return atomic_load_explicit(&slot->proxy_started, memory_order_relaxed) !=
           atomic_load_explicit(&slot->proxy_ended, memory_order_relaxed);
}

/* NCCL stamps the operation's kernels. */
static enum verdict evaluate_kernels(const struct muster_recorder *recorder,
                                     struct muster_comm *comm, const struct muster_seg_slot *slot,
                                     bool quiet, uint64_t now)
{
    uint32_t ended = atomic_load_explicit(&slot->ended, memory_order_acquire);
    uint32_t started = atomic_load_explicit(&slot->started, memory_order_relaxed);
    bool given_up = over_for(comm, now, MUSTER_NS_PER_S);
    if (started != ended)
        return given_up ? RETIRE_EARLY : KEEP;
    if (ended > 0 && (ended >= slot->channels || (slot->p2p && quiet))) {
        atomic_store_explicit(&comm->ended_ns, slot->enqueue_ns, memory_order_relaxed);
        return has_open_proxies(slot) && !given_up ? KEEP : RETIRE;
    }
    /* NCCL need not stamp a send to oneself. */
    if (slot->p2p && slot->peer == comm->rank && age(now, slot->enqueue_ns) > MUSTER_NS_PER_S)
        return RETIRE;
    /* Its kernels will not come: it has ended all the same, or room is needed. */
    bool passed = started == 0 && ended_unseen(comm, slot);
    bool crowded = recorder->slots_used > CROWDED;
    bool waited = age(now, slot->enqueue_ns) > MUSTER_NS_PER_S;
    return given_up || (waited && (passed || crowded)) ? RETIRE_EARLY : KEEP;
}

static enum verdict evaluate_proxies(const struct muster_comm *comm,
                                     const struct muster_seg_slot *slot, bool quiet, uint64_t now)
{
    uint32_t ended = atomic_load_explicit(&slot->proxy_ended, memory_order_acquire);
    uint32_t started = atomic_load_explicit(&slot->proxy_started, memory_order_relaxed);
    if (started != ended)
        return over_for(comm, now, MUSTER_NS_PER_S) ? RETIRE_EARLY : KEEP;
    if (!slot->expects_proxy)
        return RETIRE;
    if (started > 0)
        return quiet || over_for(comm, now, 0) ? RETIRE : KEEP;
    return over_for(comm, now, 0) || age(now, slot->enqueue_ns) > PATIENCE_NS ? RETIRE : KEEP;
}

static enum verdict evaluate_parts(struct muster_recorder *recorder, struct muster_comm *comm,
                                   struct muster_seg_slot *slot, uint64_t now,
                                   struct muster_launch_times *launch)
{
    uint64_t touched = atomic_load_explicit(&slot->touched_ns, memory_order_relaxed);
    bool quiet = age(now, touched) >= QUIET_NS;
    bool timed = slot->flags & MUSTER_OP_IN_WINDOW;
    enum verdict events = evaluate_launch(recorder, slot, quiet, launch);
    if (events == KEEP)
        return over_for(comm, now, MUSTER_NS_PER_S) ? RETIRE_EARLY : KEEP;
    if (muster_recorder_kernels(recorder) && timed)
        return evaluate_kernels(recorder, comm, slot, quiet, now);
    /* Kernels show more than the network's proxies, which may come long after. */
    if (timed && launch->timed && launch->result == MUSTER_LAUNCH_ENDED)
        return has_open_proxies(slot) && !over_for(comm, now, MUSTER_NS_PER_S) ? KEEP : RETIRE;
    return evaluate_proxies(comm, slot, quiet, now);
}

/* A call without a launch: blocked in NCCL, or of a kind whose launch NCCL does not show (every
 * broadcast from 2.29 on). It is the latter once the communicator was called again, in another
 * group, or is finalized. Where room is needed a later call is enough: a launch that comes all the
 * same costs the operation its algorithm, a call that finds no slot is lost. */
static enum verdict evaluate_call(const struct muster_recorder *recorder,
                                  const struct muster_comm *comm,
                                  const struct muster_seg_slot *slot, uint64_t now)
{
    bool later = atomic_load_explicit(&comm->calls->calls, memory_order_relaxed) > slot->number + 1;
    bool other_group = atomic_load_explicit(&comm->groups, memory_order_relaxed) != slot->group;
    bool waited = recorder->exiting || age(now, slot->enqueue_ns) > PATIENCE_NS;
    bool crowded = recorder->slots_used > CROWDED;
    return (later && (crowded || (other_group && waited))) || over_for(comm, now, 0) ? RETIRE_CALL
                                                                                     : KEEP;
}

static void release_slot(struct muster_recorder *recorder, unsigned i, uint32_t generation)
{
    struct muster_segment *seg = recorder->seg;
    struct muster_seg_slot *slot = &seg->slot[i];
    atomic_store_explicit(&recorder->open_kernels[i], 0, memory_order_relaxed);
    /* Atomic stores although nobody should look: a late callback may. */
    atomic_store_explicit(&slot->begin_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->end_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->started, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->ended, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->proxy_begin_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->proxy_end_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->proxy_started, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->proxy_ended, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->touched_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->bad, 0, memory_order_relaxed);
    /* Release: pairs with the acquire of the callback that reserves it. */
    atomic_store_explicit(&seg->slot_state[i], muster_slot_word(generation, MUSTER_SLOT_FREE),
                          memory_order_release);
}

static void publish_op(struct muster_recorder *recorder, const struct muster_op *op)
{
    struct muster_segment *seg = recorder->seg;
    uint64_t n = atomic_load_explicit(&seg->ring_head, memory_order_relaxed);
    seg->ring[n % MUSTER_SEG_RING] = *op;
    /* Release: pairs with the reader's acquire of ring_head; the entry is whole before it. */
    atomic_store_explicit(&seg->ring_head, n + 1, memory_order_release);
    if (recorder->options.log)
        muster_log_put(recorder->options.log, op);
}

/* The times of the operation's launch, where NCCL's own stamps have none. */
static void add_launch(const struct muster_recorder *recorder, struct muster_op *op,
                       const struct muster_launch_times *launch)
{
    if (launch->result != MUSTER_LAUNCH_ENDED || !launch->timed ||
        (muster_recorder_kernels(recorder) && op->source == MUSTER_SOURCE_GPU))
        return;
    op->source = recorder->options.played ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_EVENT;
    op->begin_ns = launch->begin_ns;
    op->end_ns = launch->end_ns;
    op->flags &= (uint16_t)~MUSTER_OP_INCOMPLETE;
}

static void retire(struct muster_recorder *recorder, unsigned i, uint32_t generation,
                   enum verdict verdict, const struct muster_launch_times *launch, uint64_t now)
{
    struct muster_segment *seg = recorder->seg;
    struct muster_seg_slot *slot = &seg->slot[i];
    struct muster_op op;
    muster_slot_op(slot, &op);
    add_launch(recorder, &op, launch);
    unsigned entry = slot->comm_entry;
    if (seg->comm[entry].uid != op.comm) { /* folded meanwhile */
        entry = MUSTER_SEG_COMMS;
        op.comm = MUSTER_SEG_OTHER_UID;
    }
    if (verdict == RETIRE_CALL)
        op.flags |= MUSTER_OP_API_ONLY;
    if (verdict == RETIRE_EARLY) {
        op.flags |= MUSTER_OP_INCOMPLETE;
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_INCOMPLETE);
    }
    uint64_t bytes = muster_op_size_bytes(op.func, op.dtype, op.count, slot->nranks);
    muster_rows_retire(seg, &recorder->rows, i, muster_slot_word(generation, MUSTER_SLOT_RESTING),
                       entry, &op, bytes);
    publish_op(recorder, &op);
    if (verdict == RETIRE)
        release_slot(recorder, i, generation);
    else
        recorder->rest_until_ns[i] = now + REST_NS;
}

static void scan_slot(struct muster_recorder *recorder, unsigned i, uint32_t word, uint64_t now)
{
    struct muster_segment *seg = recorder->seg;
    uint32_t generation = word >> 8;
    unsigned state = word & 0xff;
    if (state == MUSTER_SLOT_RESTING) {
        if (now >= recorder->rest_until_ns[i])
            release_slot(recorder, i, generation);
        return;
    }
    if (state != MUSTER_SLOT_CALLED && state != MUSTER_SLOT_LAUNCHED)
        return;
    struct muster_seg_slot *slot = &seg->slot[i];
    struct muster_comm *comm =
        atomic_load_explicit(&recorder->comm[slot->recorder_comm], memory_order_acquire);
    struct muster_launch_times launch = {.result = MUSTER_LAUNCH_LOST};
    enum verdict verdict = state == MUSTER_SLOT_CALLED
                               ? evaluate_call(recorder, comm, slot, now)
                               : evaluate_parts(recorder, comm, slot, now, &launch);
    if (verdict == KEEP)
        return;
    if (state == MUSTER_SLOT_CALLED && !muster_track_take_call(recorder, i, generation))
        return; /* its launch comes just now */
    retire(recorder, i, generation, verdict, &launch, now);
}

/* The communicator whose entry it was counts in memory of its own from now on. The caller holds the
 * lock. */
static void leave_entry(struct muster_recorder *recorder, const struct muster_seg_comm *entry)
{
    for (unsigned i = 0; i < MUSTER_COMMS; i++) {
        struct muster_comm *comm = atomic_load_explicit(&recorder->comm[i], memory_order_relaxed);
        if (!comm || comm->calls != entry)
            continue;
        /* Probes of it that are still in flight mean nothing any more. */
        uint32_t generation = atomic_load_explicit(&comm->generation, memory_order_relaxed);
        atomic_store_explicit(&comm->generation, (generation + 1) & MUSTER_GENERATION_MASK,
                              memory_order_relaxed);
        comm->calls = &comm->own;
    }
}

/* Keeps some communicator entries free: the finished ones with the fewest operations go to
 * `other`. */
static void make_room_for_comms(struct muster_recorder *recorder)
{
    struct muster_segment *seg = recorder->seg;
    unsigned spare = 0;
    struct muster_seg_comm *least = NULL;
    for (unsigned i = 0; i < MUSTER_SEG_COMMS; i++) {
        struct muster_seg_comm *entry = &seg->comm[i];
        if (__atomic_load_n(&entry->uid, __ATOMIC_ACQUIRE) == 0)
            spare++;
        else if (__atomic_load_n(&entry->end_ns, __ATOMIC_RELAXED) != 0 &&
                 (!least || entry->retired < least->retired))
            least = entry;
    }
    if (spare >= SPARE_ENTRIES || !least)
        return;
    /* Whoever makes a communicator holds it, and may be inside the driver: then next time. */
    if (pthread_mutex_trylock(&recorder->comm_lock) != 0)
        return;
    leave_entry(recorder, least);
    muster_rows_merge(seg, &recorder->rows, least->uid);
    struct muster_seg_comm *other = muster_seg_other(seg);
    other->folded++;
    other->retired += least->retired;
    muster_seg_write_begin(&least->seq);
    memset((char *)least + sizeof least->seq, 0, sizeof *least - sizeof least->seq);
    muster_seg_write_end(&least->seq);
    pthread_mutex_unlock(&recorder->comm_lock);
}

void muster_drain_pass(struct muster_recorder *recorder, uint64_t now)
{
    struct muster_segment *seg = recorder->seg;
    unsigned used = 0;
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        /* Acquire: pairs with the release that published the slot. */
        uint32_t word = atomic_load_explicit(&seg->slot_state[i], memory_order_acquire);
        if ((word & 0xff) == MUSTER_SLOT_FREE)
            continue;
        used++;
        scan_slot(recorder, i, word, now);
    }
    recorder->slots_used = used;
    muster_proxy_retire(recorder);
    if (age(now, recorder->heartbeat_ns) < HEARTBEAT_NS)
        return;
    recorder->heartbeat_ns = now;
    atomic_store_explicit(&seg->heartbeat_unix_ns, muster_unix_ns(), memory_order_relaxed);
    atomic_store_explicit(&seg->heartbeat_mono_ns, now, memory_order_release);
    make_room_for_comms(recorder);
}

static void *drain_main(void *arg)
{
    struct muster_recorder *recorder = arg;
    uint64_t pause = PAUSE_NS;
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = (long)pause}, NULL);
        pthread_mutex_lock(&recorder->drain_lock);
        bool closed = atomic_load_explicit(&recorder->closed, memory_order_relaxed);
        if (!closed) {
            muster_fast_clock_tie(&recorder->clock);
            muster_drain_pass(recorder, muster_now_ns());
        }
        pause = recorder->slots_used > BUSY ? BUSY_PAUSE_NS : PAUSE_NS;
        pthread_mutex_unlock(&recorder->drain_lock);
        if (closed)
            return NULL;
    }
}

int muster_drain_start(struct muster_recorder *recorder)
{
    return muster_thread_start("muster-drain", drain_main, recorder);
}
