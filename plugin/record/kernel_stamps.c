#include "record/kernel_stamps.h"

#include "base/clock.h"
#include "record/handle.h"
#include "record/launch_timing.h"
#include "record/track.h"

enum {
    GENERATION_BITS = 18, /* of the slot's, in a kernel handle's; above them the channel */
    GENERATION_MASK = (1 << GENERATION_BITS) - 1,
    RING = 64, /* stamps that NCCL keeps of a channel: the next one takes the oldest one's place */
    API_OF_BROADCASTS = 6, /* NCCL 2.29: broadcasts are works that the host does not number */
    API_OF_THREAD = 7,     /* NCCL 2.31: sends of a group are numbered once */
};

/* What is left of the distance of two clocks that drift by some 10 us a second, tied once a second,
 * and that a busy host's thread reads late: tens of microseconds. A true stamp is never refused by
 * it, as the tie errs towards later only; with 1 ms the stamp of an operation that was called a few
 * small ones before passes for true. */
#define STALE_NS (200 * MUSTER_NS_PER_US)

/* Counters of one operation's parts are loaded and stored, not added atomically: all its kernel
 * events come from one thread, the communicator's proxy. */
static uint32_t count_part(_Atomic uint32_t *counter, memory_order order)
{
    uint32_t n = atomic_load_explicit(counter, memory_order_relaxed) + 1;
    atomic_store_explicit(counter, n, order);
    return n;
}

/* In a replay NCCL's stamps are there for all operations; those of launches that are not timed only
 * show how far the job is. */
static bool is_unwanted(const struct muster_recorder *recorder, const void *parent)
{
    struct muster_handle h = muster_handle_unpack(parent);
    if (muster_recorder_kernels(recorder))
        return false;
    if (!recorder->options.played || !parent)
        return true;
    if (h.nonce != recorder->nonce || h.kind != MUSTER_HANDLE_OP || h.index >= MUSTER_SEG_SLOTS)
        return true;
    uint32_t word = atomic_load_explicit(&recorder->seg->slot_state[h.index], memory_order_acquire);
    return word != muster_slot_word(h.generation, MUSTER_SLOT_LAUNCHED) ||
           !(recorder->seg->slot[h.index].flags & MUSTER_OP_IN_WINDOW);
}

static void learn_time(struct muster_recorder *recorder, uint64_t stamp)
{
    if (stamp > atomic_load_explicit(&recorder->stamp_ns, memory_order_relaxed))
        atomic_store_explicit(&recorder->stamp_ns, stamp, memory_order_relaxed);
}

static void *open_kernel(struct muster_recorder *recorder, const struct muster_event *event,
                         struct muster_seg_slot *slot)
{
    struct muster_handle parent = muster_handle_unpack(event->parent);
    unsigned ch = event->kernel_ch.channel;
    uint64_t start = event->kernel_ch.ptimer;
    uint64_t begin = atomic_load_explicit(&slot->begin_ns, memory_order_relaxed);
    if (begin == 0 || start < begin)
        atomic_store_explicit(&slot->begin_ns, start, memory_order_relaxed);
    count_part(&slot->started, memory_order_relaxed);
    atomic_fetch_or_explicit(&recorder->open_kernels[parent.index], 1ull << ch,
                             memory_order_relaxed);
    struct muster_gpu_context *gpu = muster_timing_context(recorder, slot);
    if (gpu && recorder->options.played)
        muster_launch_part(gpu, slot->ticket, start, 0);
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_KERNEL_CH,
                              ch << GENERATION_BITS | (parent.generation & GENERATION_MASK),
                              parent.index);
}

void *muster_kernel_start(struct muster_recorder *recorder, const struct muster_event *event)
{
    if (recorder->options.played)
        learn_time(recorder, event->kernel_ch.ptimer);
    if (is_unwanted(recorder, event->parent))
        return NULL;
    struct muster_seg_slot *slot = muster_track_slot(recorder, event->parent);
    if (!slot)
        return NULL;
    if (event->kernel_ch.channel >= MUSTER_CHANNELS) {
        struct muster_comm *comm =
            atomic_load_explicit(&recorder->comm[slot->recorder_comm], memory_order_acquire);
        muster_recorder_drop(recorder, comm, MUSTER_DROP_CHANNEL);
        return NULL;
    }
    return open_kernel(recorder, event, slot);
}

/* The GPU and host clocks run at nearly one rate; a thousandth and a microsecond allow for what
 * they differ. */
static bool is_longer_than(uint64_t length, uint64_t now, uint64_t called)
{
    uint64_t host = now > called ? now - called : 0;
    return length > host + host / 1000 + MUSTER_NS_PER_US;
}

static bool longer_than_host(const struct muster_seg_slot *slot, uint64_t now)
{
    uint64_t begin = atomic_load_explicit(&slot->begin_ns, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&slot->end_ns, memory_order_relaxed);
    return end > begin && is_longer_than(end - begin, now, slot->enqueue_ns);
}

static void refuse_times(struct muster_recorder *recorder, struct muster_comm *comm,
                         struct muster_seg_slot *slot, enum muster_drop reason)
{
    atomic_store_explicit(&slot->bad, (uint32_t)reason + 1, memory_order_relaxed);
    muster_recorder_drop(recorder, comm, reason);
}

/* Stamps that lie in the future would make every later stop of their channels look like a step
 * back. */
static void forget_last_stops(struct muster_comm *comm)
{
    for (unsigned c = 0; c < MUSTER_CHANNELS; c++)
        atomic_store_explicit(&comm->channel[c].last_stop, 0, memory_order_relaxed);
}

/* A stamp that the GPU wrote before the operation was called is another operation's. One that lies
 * in the future shows nothing about the clocks; channel_ended refuses it. */
static bool is_older_than_call(struct muster_comm *comm, const struct muster_seg_slot *slot,
                               uint64_t stop, uint64_t now)
{
    uint64_t begin = atomic_load_explicit(&slot->begin_ns, memory_order_relaxed);
    /* NCCL shows sends behind their launch, and replays; when those were called is not known. */
    return !slot->p2p && !(slot->flags & MUSTER_OP_GRAPH) &&
           !is_longer_than(stop - begin, now, slot->enqueue_ns) &&
           muster_tie_host_ns(&comm->tie, stop, now) + STALE_NS < slot->enqueue_ns;
}

void muster_kernel_numbered(struct muster_comm *comm, const struct muster_event_op *op, bool p2p)
{
    bool parts = p2p ? comm->api >= API_OF_THREAD || op->root_or_peer == comm->rank
                     : comm->api >= API_OF_BROADCASTS && op->func == MUSTER_FUNC_BROADCAST;
    if (parts)
        atomic_store_explicit(&comm->drifts, true, memory_order_relaxed);
}

uint32_t muster_kernel_work(struct muster_recorder *recorder, struct muster_comm *comm)
{
    if (!muster_recorder_kernels(recorder))
        return 0;
    /* Relaxed, as `drifts`: a stop comes after the launch, which comes after the call. */
    return atomic_fetch_add_explicit(&comm->works, 1, memory_order_relaxed);
}

void muster_kernel_shown(struct muster_recorder *recorder, struct muster_comm *comm,
                         struct muster_seg_slot *slot, bool newest)
{
    if (!muster_recorder_kernels(recorder))
        return;
    slot->flags |= MUSTER_OP_IN_WINDOW;
    bool replayed = slot->flags & MUSTER_OP_GRAPH;
    bool lost = slot->p2p && !replayed && !newest;
    if (replayed)
        slot->works = muster_kernel_work(recorder, comm);
    else if (slot->p2p)
        slot->works = comm->group.works;
    if (lost || atomic_load_explicit(&comm->drifts, memory_order_relaxed))
        slot->works = atomic_load_explicit(&comm->works, memory_order_relaxed) - RING - 1;
}

/* The stamp that NCCL read may be another operation's. */
static bool is_overrun(struct muster_comm *comm, const struct muster_seg_slot *slot)
{
    return atomic_load_explicit(&comm->works, memory_order_relaxed) - slot->works > RING;
}

static bool is_trusted(struct muster_recorder *recorder, struct muster_comm *comm,
                       const struct muster_seg_slot *slot, struct muster_channel *channel,
                       uint64_t stop)
{
    if (!recorder->options.host_times)
        return true; /* a replay's calls do not come at the pace of its stamps */
    if (is_overrun(comm, slot) ||
        is_older_than_call(comm, slot, stop, muster_fast_now_ns(&recorder->clock)))
        atomic_store_explicit(&channel->distrusted, true, memory_order_relaxed);
    return !atomic_load_explicit(&channel->distrusted, memory_order_relaxed);
}

static void channel_ended(struct muster_recorder *recorder, struct muster_comm *comm,
                          struct muster_seg_slot *slot)
{
    uint32_t ended = atomic_load_explicit(&slot->ended, memory_order_relaxed) + 1;
    if (slot->p2p || ended >= slot->channels || recorder->options.played) {
        uint64_t now = muster_arrival_ns(&recorder->clock);
        atomic_store_explicit(&slot->touched_ns, now, memory_order_relaxed);
        if (recorder->options.host_times && longer_than_host(slot, now)) {
            refuse_times(recorder, comm, slot, MUSTER_DROP_TIME_LONG);
            forget_last_stops(comm);
        }
    }
    /* Release: pairs with the acquire in muster_slot_op; the times above are visible with it. */
    atomic_store_explicit(&slot->ended, ended, memory_order_release);
}

static void take_stop(struct muster_recorder *recorder, struct muster_comm *comm,
                      struct muster_seg_slot *slot, unsigned ch, uint64_t stop)
{
    struct muster_channel *channel = &comm->channel[ch];
    uint64_t last = atomic_load_explicit(&channel->last_stop, memory_order_relaxed);
    uint64_t begin = atomic_load_explicit(&slot->begin_ns, memory_order_relaxed);
    if (stop <= begin) {
        refuse_times(recorder, comm, slot, MUSTER_DROP_TIME_ORDER);
    } else if (stop < last) {
        refuse_times(recorder, comm, slot, MUSTER_DROP_TIME_BACK);
    } else if (!is_trusted(recorder, comm, slot, channel, stop)) {
        refuse_times(recorder, comm, slot, MUSTER_DROP_TIME_RING);
    } else {
        atomic_store_explicit(&channel->last_stop, stop, memory_order_relaxed);
        if (stop > atomic_load_explicit(&slot->end_ns, memory_order_relaxed))
            atomic_store_explicit(&slot->end_ns, stop, memory_order_relaxed);
        struct muster_gpu_context *gpu = muster_timing_context(recorder, slot);
        if (gpu && recorder->options.played)
            muster_launch_part(gpu, slot->ticket, 0, stop);
    }
}

void muster_kernel_stop(struct muster_recorder *recorder, const void *handle, uint64_t stop)
{
    struct muster_handle h = muster_handle_unpack(handle);
    unsigned ch = h.generation >> GENERATION_BITS;
    uint32_t word =
        h.index < MUSTER_SEG_SLOTS
            ? atomic_load_explicit(&recorder->seg->slot_state[h.index], memory_order_acquire)
            : 0;
    bool ours = (word & 0xff) == MUSTER_SLOT_LAUNCHED &&
                (word >> 8 & GENERATION_MASK) == (h.generation & GENERATION_MASK);
    /* One stop a start. */
    if (!ours || !(atomic_fetch_and_explicit(&recorder->open_kernels[h.index], ~(1ull << ch),
                                             memory_order_relaxed) &
                   1ull << ch)) {
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_STALE);
        return;
    }
    struct muster_seg_slot *slot = &recorder->seg->slot[h.index];
    struct muster_comm *comm =
        atomic_load_explicit(&recorder->comm[slot->recorder_comm], memory_order_acquire);
    take_stop(recorder, comm, slot, ch, stop);
    channel_ended(recorder, comm, slot);
}
