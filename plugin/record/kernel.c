#include "record/kernel.h"

#include "base/clock.h"
#include "record/handle.h"
#include "record/track.h"

enum {
    STAMP_BITS = 18, /* of a kernel handle's generation; above them the channel */
    STAMP_MASK = (1 << STAMP_BITS) - 1,
};

/* Counters of one operation's parts are loaded and stored, not added atomically: all its kernel
 * events come from one thread, the communicator's proxy. */
static uint32_t count_part(_Atomic uint32_t *counter, memory_order order)
{
    uint32_t n = atomic_load_explicit(counter, memory_order_relaxed) + 1;
    atomic_store_explicit(counter, n, order);
    return n;
}

void *muster_kernel_start(struct muster_recorder *recorder, const struct muster_event *event)
{
    struct muster_seg_slot *slot = muster_track_slot(recorder, event->parent);
    if (!slot)
        return NULL;
    struct muster_comm *comm =
        atomic_load_explicit(&recorder->comm[slot->recorder_comm], memory_order_acquire);
    unsigned ch = event->kernel_ch.channel;
    if (ch >= MUSTER_CHANNELS) {
        muster_recorder_drop(recorder, comm, MUSTER_DROP_CHANNEL);
        return NULL;
    }
    struct muster_handle parent = muster_handle_unpack(event->parent);
    struct muster_channel *channel = &comm->channel[ch];
    uint32_t number = count_part(&channel->stamps, memory_order_relaxed) & STAMP_MASK;
    struct muster_open_stamp *open = &channel->open[number % MUSTER_OPEN_STAMPS];
    uint64_t start = event->kernel_ch.ptimer;
    atomic_store_explicit(&open->number, number, memory_order_relaxed);
    atomic_store_explicit(&open->slot, parent.index, memory_order_relaxed);
    atomic_store_explicit(&open->generation, parent.generation, memory_order_relaxed);
    atomic_store_explicit(&open->start, start, memory_order_relaxed);

    uint64_t begin = atomic_load_explicit(&slot->begin_ns, memory_order_relaxed);
    if (begin == 0 || start < begin)
        atomic_store_explicit(&slot->begin_ns, start, memory_order_relaxed);
    count_part(&slot->started, memory_order_relaxed);
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_KERNEL_CH, ch << STAMP_BITS | number,
                              comm->index);
}

/* The GPU and host clocks run at nearly one rate; a thousandth and a microsecond allow for what
 * they differ. */
static bool longer_than_host(const struct muster_seg_slot *slot, uint64_t now)
{
    uint64_t begin = atomic_load_explicit(&slot->begin_ns, memory_order_relaxed);
    uint64_t end = atomic_load_explicit(&slot->end_ns, memory_order_relaxed);
    uint64_t host = now > slot->enqueue_ns ? now - slot->enqueue_ns : 0;
    return end > begin && end - begin > host + host / 1000 + MUSTER_NS_PER_US;
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

static void channel_ended(struct muster_recorder *recorder, struct muster_comm *comm,
                          struct muster_seg_slot *slot)
{
    uint32_t ended = atomic_load_explicit(&slot->ended, memory_order_relaxed) + 1;
    if (slot->p2p || ended >= slot->channels) {
        uint64_t now = muster_fast_now_ns(&recorder->clock);
        atomic_store_explicit(&slot->touched_ns, now, memory_order_relaxed);
        if (recorder->options.host_times && longer_than_host(slot, now)) {
            refuse_times(recorder, comm, slot, MUSTER_DROP_TIME_LONG);
            forget_last_stops(comm);
        }
    }
    /* Release: pairs with the acquire in muster_slot_op; the times above are visible with it. */
    atomic_store_explicit(&slot->ended, ended, memory_order_release);
}

void muster_kernel_stop(struct muster_recorder *recorder, const void *handle, uint64_t stop)
{
    struct muster_handle h = muster_handle_unpack(handle);
    struct muster_comm *comm =
        h.index < MUSTER_COMMS
            ? atomic_load_explicit(&recorder->comm[h.index], memory_order_acquire)
            : NULL;
    if (!comm) {
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_STALE);
        return;
    }
    struct muster_channel *channel = &comm->channel[h.generation >> STAMP_BITS];
    uint32_t number = h.generation & STAMP_MASK;
    struct muster_open_stamp *open = &channel->open[number % MUSTER_OPEN_STAMPS];
    if (atomic_load_explicit(&open->number, memory_order_relaxed) != number) {
        muster_recorder_drop(recorder, comm, MUSTER_DROP_STALE);
        return;
    }
    atomic_store_explicit(&open->number, UINT32_MAX, memory_order_relaxed); /* one stop a start */
    struct muster_seg_slot *slot = muster_track_slot(
        recorder, muster_handle_pack(recorder->nonce, MUSTER_HANDLE_OP,
                                     atomic_load_explicit(&open->generation, memory_order_relaxed),
                                     atomic_load_explicit(&open->slot, memory_order_relaxed)));
    if (!slot)
        return;
    uint64_t last = atomic_load_explicit(&channel->last_stop, memory_order_relaxed);
    if (stop <= atomic_load_explicit(&open->start, memory_order_relaxed)) {
        refuse_times(recorder, comm, slot, MUSTER_DROP_TIME_ORDER);
    } else if (stop < last) {
        refuse_times(recorder, comm, slot, MUSTER_DROP_TIME_BACK);
    } else {
        atomic_store_explicit(&channel->last_stop, stop, memory_order_relaxed);
        if (stop > atomic_load_explicit(&slot->end_ns, memory_order_relaxed))
            atomic_store_explicit(&slot->end_ns, stop, memory_order_relaxed);
    }
    channel_ended(recorder, comm, slot);
}
