#include "record/launch_timing.h"

#include "record/kernel_stamps.h"
#include "record/launch_price.h"

/* The windows of sends are drawn apart from those of collectives. */
#define SENDS 0x5e4d5e4d5e4d5e4dull

/* A replay's calls come at any speed; the stamps that were recorded have its time. */
static uint64_t now_ns(const struct muster_recorder *recorder)
{
    return recorder->options.played
               ? atomic_load_explicit(&recorder->stamp_ns, memory_order_relaxed)
               : muster_fast_now_ns(&recorder->clock);
}

static void join_group(struct muster_recorder *recorder, struct muster_comm *comm,
                       const struct muster_event_op *op)
{
    uint32_t works = muster_kernel_work(recorder, comm);
    if (atomic_load_explicit(&comm->launched, memory_order_relaxed)) {
        comm->group = (struct muster_group){.works = works};
        atomic_store_explicit(&comm->launched, false, memory_order_relaxed);
    }
    uint64_t bytes = op->count * muster_dtype_bytes(op->dtype);
    if (bytes > comm->group.bytes)
        comm->group.bytes = bytes;
}

/* shown: the operation that a report names where the level changes. */
static bool take_window(struct muster_recorder *recorder, struct muster_comm *comm, uint64_t id,
                        uint64_t number, uint64_t shown)
{
    unsigned before = comm->sampling.level;
    unsigned level = muster_sampling_next(&comm->sampling, &recorder->meter, now_ns(recorder));
    if (level != before) {
        uint32_t rate = atomic_load_explicit(&recorder->meter.rate, memory_order_relaxed);
        atomic_store_explicit(&comm->calls->timing, muster_seg_timing_pack(level, shown, rate),
                              memory_order_relaxed);
    }
    return muster_sampling_takes(id, number / MUSTER_SAMPLING_WINDOW, level);
}

static uint64_t id_of(const struct muster_comm *comm)
{
    return muster_sampling_id(comm->nranks);
}

void muster_timing_collective(struct muster_recorder *recorder, struct muster_comm *comm,
                              const struct muster_event_op *op, uint64_t number)
{
    join_group(recorder, comm, op);
    if (!comm->gpu || recorder->options.timing != MUSTER_TIMING_AUTO)
        return;
    if (number % MUSTER_SAMPLING_WINDOW == 0)
        comm->window_timed = take_window(recorder, comm, id_of(comm), number, number);
    comm->group.timed |= comm->window_timed;
}

void muster_timing_send(struct muster_recorder *recorder, struct muster_comm *comm,
                        const struct muster_event_op *op)
{
    join_group(recorder, comm, op);
    if (!comm->gpu || recorder->options.timing != MUSTER_TIMING_AUTO || comm->group.sends)
        return;
    comm->group.sends = true;
    uint64_t number = comm->send_groups++;
    if (number % MUSTER_SAMPLING_WINDOW == 0) {
        uint64_t calls = atomic_load_explicit(&comm->calls->calls, memory_order_relaxed);
        comm->send_window_timed =
            take_window(recorder, comm, id_of(comm) ^ SENDS, number, calls ? calls : number);
    }
    comm->group.timed |= comm->send_window_timed;
}

static bool is_timed(const struct muster_recorder *recorder, const struct muster_comm *comm)
{
    switch (recorder->options.timing) {
    case MUSTER_TIMING_AUTO:
        return comm->group.timed;
    case MUSTER_TIMING_FULL:
    case MUSTER_TIMING_CHANNELS:
        return true;
    case MUSTER_TIMING_LIGHT:
        return false;
    }
    return false;
}

void muster_timing_launch_begins(struct muster_recorder *recorder, struct muster_comm *comm,
                                 void *stream)
{
    bool full = false;
    comm->launch_price_ns = muster_price_ns(comm->group.bytes, recorder->options.cpus);
    comm->sampling.price_ns += comm->launch_price_ns;
    comm->launch_stream = stream;
    comm->launch = is_timed(recorder, comm)
                       ? muster_launch_begin(&recorder->launches, comm, stream, &full)
                       : NULL;
    if (full)
        muster_recorder_drop(recorder, comm, MUSTER_DROP_NO_EVENT);
}

/* A replay has no context and records no events. */
static void pay(struct muster_recorder *recorder, struct muster_comm *comm)
{
    atomic_fetch_add_explicit(&comm->calls->timing_cost_ns, comm->launch_price_ns,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&recorder->seg->timing_cost_ns, comm->launch_price_ns,
                              memory_order_relaxed);
}

void muster_timing_launch_ends(struct muster_recorder *recorder, struct muster_comm *comm)
{
    /* One thread launches for a communicator at a time. */
    uint64_t number = atomic_load_explicit(&comm->calls->launches, memory_order_relaxed) + 1;
    uint64_t called = atomic_load_explicit(&comm->calls->called_ns, memory_order_relaxed);
    atomic_store_explicit(&comm->calls->launches, number, memory_order_relaxed);
    comm->launch_timed = comm->launch != NULL;
    if (comm->launch)
        comm->launch_ticket =
            muster_launch_end(&recorder->launches, comm->launch, comm, comm->launch_stream, number,
                              muster_fast_now_ns(&recorder->clock));
    else if (recorder->options.probes)
        comm->launch_ticket =
            muster_launch_probe(&recorder->launches, comm, comm->launch_stream, number, called);
    else
        comm->launch_ticket = 0;
    comm->launch_timed = comm->launch_timed && comm->launch_ticket != 0;
    if (comm->launch_timed && comm->gpu->context)
        pay(recorder, comm);
    comm->launch = NULL;
}

/* Where a launch waits for CUDA's callback thread (a captured graph's host node is busy,
 * CUDA_LAUNCH_BLOCKING is set), its operations are shown there, perhaps after the next launch:
 * whose they are is not known. */
static bool is_newest_launch(const struct muster_comm *comm)
{
    return atomic_load_explicit(&comm->launch_thread, memory_order_relaxed) ==
           muster_capture_thread();
}

void muster_timing_shown(struct muster_recorder *recorder, struct muster_comm *comm,
                         struct muster_seg_slot *slot)
{
    bool replayed = slot->flags & MUSTER_OP_GRAPH;
    bool to_itself = slot->p2p && slot->peer == comm->rank;
    bool newest = !replayed && is_newest_launch(comm);
    muster_kernel_shown(recorder, comm, slot, newest);
    /* Without a GPU context there is no ticket. */
    if (to_itself || !newest || !comm->launch_ticket)
        return;
    slot->ticket = comm->launch_ticket;
    slot->gpu = (uint8_t)(comm->gpu - recorder->launches.gpu);
    if (comm->launch_timed)
        slot->flags |= MUSTER_OP_IN_WINDOW;
}

struct muster_gpu_context *muster_timing_context(struct muster_recorder *recorder,
                                                 const struct muster_seg_slot *slot)
{
    return slot->ticket ? &recorder->launches.gpu[slot->gpu % MUSTER_GPU_CONTEXTS] : NULL;
}
