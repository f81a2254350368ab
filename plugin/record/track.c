#include "record/track.h"

#include "base/clock.h"
#include "record/handle.h"
#include "record/kernel.h"

enum {
    STEPS = 4,   /* slots tried one by one */
    STRIDE = 67, /* then, doubled every other time, leaves a neighbour's run of slots behind */
    PROBES = 16, /* slots tried before an operation is dropped; twice around all of them */
};

#define SETTLE_NS MUSTER_NS_PER_S

/* A free slot, now FILLING, under a new generation; NULL when 16 in a row are taken. */
static struct muster_seg_slot *reserve(struct muster_recorder *recorder, struct muster_comm *comm,
                                       unsigned *index, uint32_t *generation)
{
    struct muster_segment *seg = recorder->seg;
    for (unsigned probe = 0; probe < PROBES; probe++) {
        /* Load and store: two threads that meet here are told apart by the exchange below. */
        unsigned stride = probe < STEPS ? 1 : (unsigned)STRIDE << (probe - STEPS) / 2;
        unsigned cursor = atomic_load_explicit(&comm->cursor, memory_order_relaxed);
        atomic_store_explicit(&comm->cursor, cursor + stride, memory_order_relaxed);
        unsigned i = cursor % MUSTER_SEG_SLOTS;
        uint32_t word = atomic_load_explicit(&seg->slot_state[i], memory_order_relaxed);
        if ((word & 0xff) != MUSTER_SLOT_FREE)
            continue;
        uint32_t next = (word >> 8) + 1;
        /* Acquire: pairs with the drain thread's release when it freed the slot. */
        if (atomic_compare_exchange_strong_explicit(&seg->slot_state[i], &word,
                                                    muster_slot_word(next, MUSTER_SLOT_FILLING),
                                                    memory_order_acquire, memory_order_relaxed)) {
            *index = i;
            *generation = next & MUSTER_GENERATION_MASK;
            return &seg->slot[i];
        }
    }
    muster_recorder_drop(recorder, comm, MUSTER_DROP_NO_SLOT);
    return NULL;
}

static void publish(struct muster_recorder *recorder, unsigned index, uint32_t generation,
                    enum muster_slot_state state)
{
    /* Release: pairs with the acquire of whoever reads the slot: drain thread, muster_track_slot.
     */
    atomic_store_explicit(&recorder->seg->slot_state[index], muster_slot_word(generation, state),
                          memory_order_release);
}

/* What a timed operation is, and whether this one may be judged: the first arming of a
 * communicator stalls the whole process for some 50 ms, until it is launched. */
static uint16_t timing_flags(struct muster_recorder *recorder, struct muster_comm *comm, bool timed,
                             uint64_t now)
{
    struct muster_arming *arming = &recorder->arming;
    uint16_t flags = 0;
    if (timed) {
        flags |= MUSTER_OP_IN_BLOCK;
        muster_arming_spend(arming);
        if (recorder->options.host_times &&
            !atomic_load_explicit(&comm->was_armed, memory_order_relaxed)) {
            atomic_store_explicit(&comm->was_armed, true, memory_order_relaxed);
            atomic_store_explicit(&arming->settle_ns, now + SETTLE_NS, memory_order_relaxed);
            flags |= MUSTER_OP_ARMING;
        }
    }
    if (now < atomic_load_explicit(&arming->settle_ns, memory_order_relaxed))
        flags |= MUSTER_OP_UNSCORED;
    return flags;
}

/* Which of the communicator's kernels runs what is launched now. */
static uint32_t launch_of(const struct muster_comm *comm)
{
    return (uint32_t)atomic_load_explicit(&comm->calls->launches, memory_order_relaxed);
}

struct opening {
    uint64_t number;
    uint16_t flags;
    enum muster_slot_state state;
    enum muster_handle_kind kind;
    bool timed; /* NCCL reports its kernels */
    bool p2p;
};

static void *open_op(struct muster_recorder *recorder, struct muster_comm *comm,
                     const struct muster_event_op *op, const struct opening *how)
{
    unsigned index;
    uint32_t generation;
    struct muster_seg_slot *slot = reserve(recorder, comm, &index, &generation);
    if (!slot)
        return NULL;
    slot->number = how->number;
    slot->enqueue_ns = muster_fast_now_ns(&recorder->clock);
    atomic_store_explicit(&comm->calls->called_ns, slot->enqueue_ns, memory_order_relaxed);
    slot->launch = launch_of(comm);
    slot->count = op->count;
    slot->comm = comm->uid;
    slot->peer = op->root_or_peer;
    slot->nranks = comm->nranks;
    slot->flags = how->flags | timing_flags(recorder, comm, how->timed, slot->enqueue_ns);
    slot->comm_entry = (uint16_t)comm->entry;
    slot->func = op->func;
    slot->dtype = op->dtype;
    slot->algo = op->algo;
    slot->proto = op->proto;
    slot->channels = op->channels;
    slot->p2p = how->p2p;
    slot->expects_proxy = atomic_load_explicit(&comm->uses_proxy, memory_order_relaxed);
    slot->group = atomic_load_explicit(&comm->groups, memory_order_relaxed);
    slot->recorder_comm = comm->index;
    publish(recorder, index, generation, how->state);
    return muster_handle_pack(recorder->nonce, how->kind, generation, index);
}

static uint16_t warm_up_flag(uint64_t number)
{
    return number < MUSTER_WARM_UP ? MUSTER_OP_UNSCORED : 0;
}

struct muster_seg_slot *muster_track_slot(struct muster_recorder *recorder, const void *handle)
{
    struct muster_handle h = muster_handle_unpack(handle);
    if (h.nonce != recorder->nonce) {
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_FOREIGN);
        return NULL;
    }
    if (h.index < MUSTER_SEG_SLOTS && (h.kind == MUSTER_HANDLE_OP || h.kind == MUSTER_HANDLE_CE)) {
        uint32_t word =
            atomic_load_explicit(&recorder->seg->slot_state[h.index], memory_order_acquire);
        if (word == muster_slot_word(h.generation, MUSTER_SLOT_LAUNCHED))
            return &recorder->seg->slot[h.index];
    }
    muster_recorder_drop(recorder, NULL, MUSTER_DROP_STALE);
    return NULL;
}

static void *captured(struct muster_recorder *recorder, struct muster_comm *comm, uint8_t dtype)
{
    atomic_fetch_add_explicit(&comm->calls->captured, 1, memory_order_relaxed);
    return muster_call_pack(recorder->nonce, dtype, MUSTER_CALL_CAPTURED, 0);
}

/* What a call without a slot left in its handle; 0 for any other parent. */
static unsigned call_marks(const struct muster_recorder *recorder, const void *parent)
{
    struct muster_handle h = muster_handle_unpack(parent);
    return parent && h.nonce == recorder->nonce && h.kind == MUSTER_HANDLE_CALL
               ? muster_call_marks(h)
               : 0;
}

/* NCCL reads the mask before an operation's first callback: what operation `next` needs is set in
 * the one before it. */
static void turn(struct muster_recorder *recorder, struct muster_comm *comm,
                 struct muster_block_state *state, uint64_t next)
{
    if (next % MUSTER_BLOCK == 0 && comm->may_arm)
        muster_arming_turn(&recorder->arming, state, comm->id, next,
                           atomic_load_explicit(&recorder->seg->comms_alive, memory_order_relaxed));
}

static void *coll_api_start(struct muster_recorder *recorder, struct muster_comm *comm,
                            const struct muster_event_op *op)
{
    if (op->graph)
        return captured(recorder, comm, op->dtype);
    uint64_t number = muster_comm_called(comm, op);
    void *handle = open_op(recorder, comm, op,
                           &(struct opening){.number = number,
                                             .flags = warm_up_flag(number),
                                             .state = MUSTER_SLOT_CALLED,
                                             .kind = MUSTER_HANDLE_OP,
                                             .timed = muster_arming_on(&recorder->arming)});
    turn(recorder, comm, &comm->block, number + 1);
    return handle;
}

/* The launch of a call that coll_api_start recorded: what was decided for it. */
static void *launch_called(struct muster_recorder *recorder, void *parent,
                           const struct muster_event_op *op, enum muster_handle_kind kind)
{
    struct muster_handle h = muster_handle_unpack(parent);
    if (h.index >= MUSTER_SEG_SLOTS)
        return NULL;
    uint32_t word = muster_slot_word(h.generation, MUSTER_SLOT_CALLED);
    /* Against the drain thread, which may be giving the call up just now. */
    if (!atomic_compare_exchange_strong_explicit(
            &recorder->seg->slot_state[h.index], &word,
            muster_slot_word(h.generation, MUSTER_SLOT_FILLING), memory_order_acquire,
            memory_order_relaxed)) {
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_STALE);
        return NULL;
    }
    struct muster_seg_slot *slot = &recorder->seg->slot[h.index];
    slot->algo = op->algo;
    slot->proto = op->proto;
    slot->channels = op->channels;
    if (kind == MUSTER_HANDLE_CE) /* no kernel will be reported */
        slot->flags &= (uint16_t)~MUSTER_OP_IN_BLOCK;
    if (slot->flags & MUSTER_OP_ARMING) /* NCCL has made its connections: the stall is over */
        atomic_store_explicit(&recorder->arming.settle_ns, muster_now_ns(), memory_order_relaxed);
    slot->launch =
        launch_of(atomic_load_explicit(&recorder->comm[slot->recorder_comm], memory_order_relaxed));
    publish(recorder, h.index, h.generation, MUSTER_SLOT_LAUNCHED);
    return muster_handle_pack(recorder->nonce, kind, h.generation, h.index);
}

/* NCCL passes AllGather and Broadcast in bytes; a captured call remembers the real type. */
static void restore_dtype(struct muster_event_op *op, uint8_t dtype)
{
    unsigned bytes = muster_dtype_bytes(dtype);
    bool in_bytes = op->func == MUSTER_FUNC_ALL_GATHER || op->func == MUSTER_FUNC_BROADCAST;
    if (in_bytes && bytes > 1 && op->count % bytes == 0) {
        op->count /= bytes;
        op->dtype = dtype;
    }
}

static void *replayed(struct muster_recorder *recorder, struct muster_comm *comm,
                      const struct muster_event_op *op, uint32_t dtype, bool p2p)
{
    if (muster_capture_is_on(&recorder->capture))
        return NULL; /* shown once while it is captured: nothing runs yet */
    struct muster_event_op real = *op;
    restore_dtype(&real, (uint8_t)dtype);
    uint64_t number = atomic_fetch_add_explicit(&comm->graph_calls, 1, memory_order_relaxed);
    return open_op(recorder, comm, &real,
                   &(struct opening){.number = number,
                                     .flags = MUSTER_OP_GRAPH,
                                     .state = MUSTER_SLOT_LAUNCHED,
                                     .kind = MUSTER_HANDLE_OP,
                                     .timed = recorder->arming.always, /* the mask was frozen */
                                     .p2p = p2p});
}

/* v1 and v2 tell no number of ranks, but the traffic of a collective that is as large as all
 * ranks' shares together. */
static void learn_nranks(struct muster_comm *comm, const struct muster_event_op *op)
{
    bool gathers = op->func == MUSTER_FUNC_ALL_GATHER || op->func == MUSTER_FUNC_REDUCE_SCATTER;
    uint64_t share = op->count * muster_dtype_bytes(op->dtype);
    if (comm->nranks || !gathers || share == 0 || op->traffic_bytes % share != 0)
        return;
    uint64_t nranks = op->traffic_bytes / share;
    if (nranks < 2 || nranks > UINT16_MAX)
        return;
    comm->nranks = (uint32_t)nranks;
    comm->calls->nranks = (uint32_t)nranks;
}

static void *coll_start(struct muster_recorder *recorder, struct muster_comm *comm,
                        const struct muster_event *event)
{
    const struct muster_event_op *op = &event->op;
    if (comm->api < 5) { /* no API events: this is the call */
        learn_nranks(comm, op);
        uint64_t number = muster_comm_called(comm, op);
        return open_op(recorder, comm, op,
                       &(struct opening){.number = number,
                                         .flags = warm_up_flag(number),
                                         .state = MUSTER_SLOT_LAUNCHED,
                                         .kind = MUSTER_HANDLE_OP});
    }
    struct muster_handle parent = muster_handle_unpack(event->parent);
    if (call_marks(recorder, event->parent) & MUSTER_CALL_CAPTURED)
        return replayed(recorder, comm, op, muster_call_dtype(parent), false);
    if (!event->parent || parent.nonce != recorder->nonce || parent.kind != MUSTER_HANDLE_OP)
        return NULL; /* its call was dropped, and counted there */
    return launch_called(recorder, event->parent, op, MUSTER_HANDLE_OP);
}

static void *p2p_start(struct muster_recorder *recorder, struct muster_comm *comm,
                       const struct muster_event *event)
{
    unsigned marks = call_marks(recorder, event->parent);
    if (marks & MUSTER_CALL_CAPTURED)
        return replayed(recorder, comm, &event->op, MUSTER_DTYPE_UNKNOWN, true);
    uint64_t number = muster_comm_p2p_number(comm, event->op.func, event->op.root_or_peer);
    void *handle =
        open_op(recorder, comm, &event->op,
                &(struct opening){.number = number,
                                  .state = MUSTER_SLOT_LAUNCHED,
                                  .kind = MUSTER_HANDLE_OP,
                                  .timed = recorder->arming.always || (marks & MUSTER_CALL_TIMED),
                                  .p2p = true});
    /* The first block begins with the first pair that is used: a communicator without sends must
     * not keep the mask up for them. */
    turn(recorder, comm, &comm->p2p_block, number == 0 ? 0 : number + 1);
    return handle;
}

/* All calls of a group read the mask before its first launch is shown: the call tells whether it
 * was up. */
static void *p2p_api_start(struct muster_recorder *recorder, const void *context,
                           const struct muster_event_op *op)
{
    if (op->graph) {
        struct muster_comm *comm = muster_recorder_comm(recorder, context);
        return comm ? captured(recorder, comm, op->dtype) : NULL;
    }
    return muster_arming_on(&recorder->arming)
               ? muster_call_pack(recorder->nonce, op->dtype, MUSTER_CALL_TIMED, 0)
               : NULL;
}

/* Copy engines: NCCL shows the enqueue only, on the host's clock. It stands in the slot's proxy
 * times. */
static void *ce_start(struct muster_recorder *recorder, const struct muster_event *event)
{
    struct muster_handle parent = muster_handle_unpack(event->parent);
    if (!event->parent || parent.nonce != recorder->nonce || parent.kind != MUSTER_HANDLE_OP)
        return NULL;
    struct muster_event_op op = event->op;
    op.algo = MUSTER_ALGO_CE;
    op.channels = 0;
    void *handle = launch_called(recorder, event->parent, &op, MUSTER_HANDLE_CE);
    struct muster_seg_slot *slot = handle ? muster_track_slot(recorder, handle) : NULL;
    if (slot) {
        atomic_store_explicit(&slot->proxy_begin_ns, muster_now_ns(), memory_order_relaxed);
        atomic_store_explicit(&slot->proxy_started, 1, memory_order_relaxed);
    }
    return handle;
}

static void ce_stop(struct muster_recorder *recorder, const void *handle)
{
    struct muster_seg_slot *slot = muster_track_slot(recorder, handle);
    if (!slot)
        return;
    atomic_store_explicit(&slot->proxy_end_ns, muster_now_ns(), memory_order_relaxed);
    /* Release: pairs with the acquire in muster_slot_op. */
    atomic_store_explicit(&slot->proxy_ended, 1, memory_order_release);
}

static void *group_api_start(struct muster_recorder *recorder, struct muster_comm *comm,
                             const struct muster_event *event)
{
    if (comm) {
        uint32_t groups = atomic_load_explicit(&comm->groups, memory_order_relaxed);
        atomic_store_explicit(&comm->groups, groups + 1, memory_order_relaxed);
    }
    if (!event->group_api.graph) {
        muster_capture_ends(&recorder->capture); /* should its stop have been lost */
        return NULL;
    }
    muster_capture_begins(&recorder->capture);
    muster_arming_stop(&recorder->arming);
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_CAPTURE_GROUP, 0, 0);
}

static void *launch_start(const struct muster_recorder *recorder, struct muster_comm *comm,
                          const struct muster_event *event)
{
    if (!comm || !comm->marks)
        return NULL;
    comm->launch_stream = event->kernel_launch.stream;
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_LAUNCH,
                              atomic_load_explicit(&comm->generation, memory_order_relaxed),
                              comm->index);
}

static void launch_stop(struct muster_recorder *recorder, struct muster_handle h)
{
    struct muster_comm *comm = muster_recorder_comm(
        recorder, muster_handle_pack(h.nonce, MUSTER_HANDLE_CONTEXT, h.generation, h.index));
    if (!comm)
        return;
    /* One thread launches for a communicator at a time. */
    uint64_t launch = atomic_load_explicit(&comm->calls->launches, memory_order_relaxed) + 1;
    atomic_store_explicit(&comm->calls->launches, launch, memory_order_relaxed);
    if (!muster_arming_on(&recorder->arming)) /* in a block the kernels' own stamps tell */
        muster_mark_launch(&recorder->marks, comm, comm->launch_stream, launch,
                           atomic_load_explicit(&comm->calls->called_ns, memory_order_relaxed));
}

static struct muster_comm *comm_of(struct muster_recorder *recorder, const void *context,
                                   const struct muster_event *event)
{
    if (recorder->options.named_by_event)
        return muster_recorder_comm_named(recorder, event->op.comm_hash, event->rank,
                                          event->op.comm_name);
    return muster_recorder_comm(recorder, context);
}

void *muster_track_start(struct muster_recorder *recorder, const void *context,
                         const struct muster_event *event)
{
    struct muster_comm *comm;
    switch (event->kind) {
    case MUSTER_EVENT_KERNEL_CH:
        return muster_kernel_start(recorder, event);
    case MUSTER_EVENT_PROXY_STEP:
        return muster_proxy_step_start(recorder, event);
    case MUSTER_EVENT_PROXY_OP:
        return muster_proxy_op_start(recorder, context, event);
    case MUSTER_EVENT_GROUP: /* before 2.28 NCCL shows no operations in a group without a handle */
        return recorder->options.group_handles
                   ? muster_handle_pack(recorder->nonce, MUSTER_HANDLE_GROUP, 0, 0)
                   : NULL;
    case MUSTER_EVENT_GROUP_API:
        return group_api_start(recorder, muster_recorder_comm(recorder, context), event);
    case MUSTER_EVENT_COLL_API:
        comm = muster_recorder_comm(recorder, context);
        return comm ? coll_api_start(recorder, comm, &event->op) : NULL;
    case MUSTER_EVENT_P2P_API:
        return p2p_api_start(recorder, context, &event->op);
    case MUSTER_EVENT_COLL:
        comm = comm_of(recorder, context, event);
        return comm ? coll_start(recorder, comm, event) : NULL;
    case MUSTER_EVENT_P2P:
        comm = comm_of(recorder, context, event);
        return comm ? p2p_start(recorder, comm, event) : NULL;
    case MUSTER_EVENT_KERNEL_LAUNCH:
        return launch_start(recorder, muster_recorder_comm(recorder, context), event);
    case MUSTER_EVENT_CE_COLL:
        return ce_start(recorder, event);
    default:
        return NULL;
    }
}

void muster_track_state(struct muster_recorder *recorder, const void *handle, unsigned state,
                        const struct muster_event_args *args)
{
    struct muster_handle h = muster_handle_unpack(handle);
    if (h.nonce != recorder->nonce)
        return;
    if (h.kind == MUSTER_HANDLE_PROXY_STEP)
        muster_proxy_step_state(recorder, handle, state, args);
    else if (h.kind == MUSTER_HANDLE_KERNEL_CH && state == MUSTER_STATE_KERNEL_CH_STOP &&
             args->given)
        muster_kernel_stop(recorder, handle, args->ptimer);
    else if (h.kind == MUSTER_HANDLE_PROXY_OP && state == MUSTER_STATE_PROXY_OP_IN_PROGRESS)
        muster_proxy_op_progress(recorder, handle);
}

void muster_track_stop(struct muster_recorder *recorder, const void *handle)
{
    struct muster_handle h = muster_handle_unpack(handle);
    if (h.nonce != recorder->nonce)
        return;
    if (h.kind == MUSTER_HANDLE_PROXY_STEP)
        muster_proxy_step_stop(recorder, handle);
    else if (h.kind == MUSTER_HANDLE_PROXY_OP)
        muster_proxy_op_stop(recorder, handle);
    else if (h.kind == MUSTER_HANDLE_CE)
        ce_stop(recorder, handle);
    else if (h.kind == MUSTER_HANDLE_LAUNCH)
        launch_stop(recorder, h);
    else if (h.kind == MUSTER_HANDLE_CAPTURE_GROUP)
        muster_capture_ends(&recorder->capture);
}
