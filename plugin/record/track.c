#include "record/track.h"

#include "base/clock.h"
#include "record/handle.h"
#include "record/kernel_stamps.h"
#include "record/launch_timing.h"
#include "record/tags.h"

enum {
    STEPS = 4,   /* slots tried one by one */
    STRIDE = 67, /* then, doubled every other time, leaves a neighbour's run of slots behind */
    PROBES = 16, /* slots tried before an operation is dropped; twice around all of them */
};

/* A free slot, now FILLING, under a new generation; NULL when 16 in a row are taken. */
static struct muster_seg_slot *reserve(struct muster_recorder *recorder, struct muster_comm *comm,
                                       unsigned *index, uint32_t *generation)
{
    struct muster_segment *seg = recorder->seg;
    for (unsigned probe = 0; probe < PROBES; probe++) {
        /* Load and store: two threads that meet here are distinguished by the exchange below. */
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
    bool shown; /* with its launch, which was just now */
    bool p2p;
};

static uint16_t tag_flags(struct muster_recorder *recorder, const struct muster_comm *comm,
                          const struct muster_event_op *op)
{
    uint64_t bytes = muster_op_size_bytes(op->func, op->dtype, op->count, comm->nranks);
    return (uint16_t)(muster_tags_count(recorder->seg, op->user_tag, bytes) << MUSTER_OP_TAG_SHIFT);
}

static void *open_op(struct muster_recorder *recorder, struct muster_comm *comm,
                     const struct muster_event_op *op, struct opening how)
{
    unsigned index;
    uint32_t generation;
    struct muster_seg_slot *slot = reserve(recorder, comm, &index, &generation);
    if (!slot)
        return NULL;
    slot->number = how.number;
    slot->enqueue_ns = muster_fast_now_ns(&recorder->clock);
    atomic_store_explicit(&comm->calls->called_ns, slot->enqueue_ns, memory_order_relaxed);
    slot->launch = launch_of(comm);
    slot->count = op->count;
    slot->comm = comm->uid;
    slot->peer = op->root_or_peer;
    slot->nranks = comm->nranks;
    slot->flags = how.flags;
    if (op->user_tag)
        slot->flags |= tag_flags(recorder, comm, op);
    slot->comm_entry = (uint16_t)comm->entry;
    slot->func = op->func;
    slot->dtype = op->dtype;
    slot->algo = op->algo;
    slot->proto = op->proto;
    slot->channels = op->channels;
    slot->p2p = how.p2p;
    slot->expects_proxy = atomic_load_explicit(&comm->uses_proxy, memory_order_relaxed);
    slot->group = atomic_load_explicit(&comm->groups, memory_order_relaxed);
    slot->recorder_comm = comm->index;
    slot->ticket = 0;
    /* Of a call, whose launch may be shown behind later ones; a replay is not of the group. On the
     * slot's second cache line, which without stamps nobody writes here. */
    if (recorder->options.kernels)
        slot->works = how.flags & MUSTER_OP_GRAPH ? 0 : comm->group.works;
    if (how.shown && muster_timing_asks(recorder, comm))
        muster_timing_shown(recorder, comm, slot);
    publish(recorder, index, generation, how.state);
    return muster_handle_pack(recorder->nonce, how.kind, generation, index);
}

static uint16_t warm_up_flag(uint64_t number)
{
    return number < MUSTER_WARM_UP ? MUSTER_OP_UNSCORED : 0;
}

struct muster_seg_slot *muster_track_in_flight(struct muster_recorder *recorder,
                                               struct muster_handle h)
{
    if (h.index >= MUSTER_SEG_SLOTS || (h.kind != MUSTER_HANDLE_OP && h.kind != MUSTER_HANDLE_CE))
        return NULL;
    uint32_t word = atomic_load_explicit(&recorder->seg->slot_state[h.index], memory_order_acquire);
    return word == muster_slot_word(h.generation, MUSTER_SLOT_LAUNCHED)
               ? &recorder->seg->slot[h.index]
               : NULL;
}

struct muster_seg_slot *muster_track_slot(struct muster_recorder *recorder, const void *handle)
{
    struct muster_handle h = muster_handle_unpack(handle);
    if (h.nonce != recorder->nonce) {
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_FOREIGN);
        return NULL;
    }
    struct muster_seg_slot *slot = muster_track_in_flight(recorder, h);
    if (!slot)
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_STALE);
    return slot;
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
               ? muster_call_probes(h)
               : 0;
}

/* Each kind of event by itself: inlined, one's room on the stack would cost all of them. */
static __attribute__((noinline)) void *coll_api_start(struct muster_recorder *recorder,
                                                      struct muster_comm *comm,
                                                      const struct muster_event_op *op)
{
    if (op->graph)
        return captured(recorder, comm, op->dtype);
    uint64_t number = muster_comm_called(comm, op);
    if (muster_timing_asks(recorder, comm))
        muster_timing_collective(recorder, comm, op, number);
    void *handle = open_op(recorder, comm, op,
                           (struct opening){.number = number,
                                            .flags = warm_up_flag(number),
                                            .state = MUSTER_SLOT_CALLED,
                                            .kind = MUSTER_HANDLE_OP});
    if (recorder->options.kernels)
        muster_kernel_numbered(comm, op, false);
    return handle;
}

bool muster_track_take_call(struct muster_recorder *recorder, unsigned index, uint32_t generation)
{
    uint32_t word = muster_slot_word(generation, MUSTER_SLOT_CALLED);
    /* Acquire: read before the state, so that whoever takes this call in between makes the exchange
     * fail; pairs with the exchange, so that the state is no older than a later call's taking. */
    uint32_t taken = atomic_load_explicit(&recorder->call_taken[index], memory_order_acquire);
    /* Acquire: pairs with the release that published the call. */
    uint32_t now = atomic_load_explicit(&recorder->seg->slot_state[index], memory_order_acquire);
    if (taken == word || now != word)
        return false;
    return atomic_compare_exchange_strong_explicit(&recorder->call_taken[index], &taken, word,
                                                   memory_order_release, memory_order_relaxed);
}

/* The launch of a call that coll_api_start recorded: what was decided for it. The slot stays CALLED
 * until that is whole, since a call counts, also of a process that is killed in here. */
static void *launch_called(struct muster_recorder *recorder, void *parent,
                           const struct muster_event_op *op, enum muster_handle_kind kind)
{
    struct muster_handle h = muster_handle_unpack(parent);
    if (h.index >= MUSTER_SEG_SLOTS)
        return NULL;
    /* The drain thread may be giving the call up just now. */
    if (!muster_track_take_call(recorder, h.index, h.generation)) {
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_STALE);
        return NULL;
    }
    struct muster_seg_slot *slot = &recorder->seg->slot[h.index];
    slot->algo = op->algo;
    slot->proto = op->proto;
    slot->channels = op->channels;
    struct muster_comm *comm =
        atomic_load_explicit(&recorder->comm[slot->recorder_comm], memory_order_relaxed);
    slot->launch = launch_of(comm);
    if (kind != MUSTER_HANDLE_CE &&
        muster_timing_asks(recorder, comm)) /* copy engines: no kernel */
        muster_timing_shown(recorder, comm, slot);
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

static __attribute__((noinline)) void *replayed(struct muster_recorder *recorder,
                                                struct muster_comm *comm,
                                                const struct muster_event_op *op, uint32_t dtype,
                                                bool p2p)
{
    if (muster_capture_is_on(&recorder->capture))
        return NULL; /* shown once while it is captured: nothing runs yet */
    if (p2p)
        muster_kernel_numbered(comm, op, true);
    struct muster_event_op real = *op;
    restore_dtype(&real, (uint8_t)dtype);
    uint64_t number = atomic_fetch_add_explicit(&comm->graph_calls, 1, memory_order_relaxed);
    return open_op(recorder, comm, &real,
                   (struct opening){.number = number,
                                    .flags = MUSTER_OP_GRAPH,
                                    .state = MUSTER_SLOT_LAUNCHED,
                                    .kind = MUSTER_HANDLE_OP,
                                    .shown = true,
                                    .p2p = p2p});
}

/* v1 and v2 have no number of ranks, but the traffic of a collective that is as large as all ranks'
 * shares together. */
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

static __attribute__((noinline)) void *coll_start(struct muster_recorder *recorder,
                                                  struct muster_comm *comm,
                                                  const struct muster_event *event)
{
    const struct muster_event_op *op = &event->op;
    if (comm->api < 5) { /* no API events: this is the call */
        learn_nranks(comm, op);
        uint64_t number = muster_comm_called(comm, op);
        return open_op(recorder, comm, op,
                       (struct opening){.number = number,
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

static __attribute__((noinline)) void *p2p_start(struct muster_recorder *recorder,
                                                 struct muster_comm *comm,
                                                 const struct muster_event *event)
{
    unsigned marks = call_marks(recorder, event->parent);
    if (marks & MUSTER_CALL_CAPTURED)
        return replayed(recorder, comm, &event->op, MUSTER_DTYPE_UNKNOWN, true);
    uint64_t number = muster_comm_p2p_number(comm, event->op.func, event->op.root_or_peer);
    muster_kernel_numbered(comm, &event->op, true);
    return open_op(recorder, comm, &event->op,
                   (struct opening){.number = number,
                                    .state = MUSTER_SLOT_LAUNCHED,
                                    .kind = MUSTER_HANDLE_OP,
                                    .shown = true,
                                    .p2p = true});
}

static void *p2p_api_start(struct muster_recorder *recorder, const void *context,
                           const struct muster_event_op *op)
{
    struct muster_comm *comm = muster_recorder_comm(recorder, context);
    if (comm && op->graph)
        return captured(recorder, comm, op->dtype);
    if (comm && muster_timing_asks(recorder, comm))
        muster_timing_send(recorder, comm, op);
    return NULL;
}

/* Copy engines: NCCL shows the enqueue only, on the host's clock. It stands in the slot's proxy
 * times. */
static __attribute__((noinline)) void *ce_start(struct muster_recorder *recorder,
                                                const struct muster_event *event)
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
        atomic_store_explicit(&slot->proxy_begin_ns, muster_exact_now_ns(&recorder->clock),
                              memory_order_relaxed);
        atomic_store_explicit(&slot->proxy_started, 1, memory_order_relaxed);
    }
    return handle;
}

static void ce_stop(struct muster_recorder *recorder, const void *handle)
{
    struct muster_seg_slot *slot = muster_track_slot(recorder, handle);
    if (!slot)
        return;
    atomic_store_explicit(&slot->proxy_end_ns, muster_exact_now_ns(&recorder->clock),
                          memory_order_relaxed);
    /* Release: pairs with the acquire in muster_slot_op. */
    atomic_store_explicit(&slot->proxy_ended, 1, memory_order_release);
}

static void *group_api_start(struct muster_recorder *recorder, struct muster_comm *comm,
                             const struct muster_event *event)
{
    if (comm) {
        uint32_t groups = atomic_load_explicit(&comm->groups, memory_order_relaxed);
        atomic_store_explicit(&comm->groups, groups + 1, memory_order_relaxed);
        /* The last one's launch may never have been shown. */
        atomic_store_explicit(&comm->launched, true, memory_order_relaxed);
    }
    if (!event->group_api.graph) {
        muster_capture_ends(&recorder->capture); /* should its stop have been lost */
        return NULL;
    }
    muster_capture_begins(&recorder->capture);
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_CAPTURE_GROUP, 0, 0);
}

static __attribute__((noinline)) void *launch_start(struct muster_recorder *recorder,
                                                    struct muster_comm *comm,
                                                    const struct muster_event *event)
{
    if (!comm || muster_capture_is_on(&recorder->capture))
        return NULL;
    atomic_store_explicit(&comm->launched, true, memory_order_relaxed);
    atomic_store_explicit(&comm->launch_thread, muster_capture_thread(), memory_order_relaxed);
    if (!comm->gpu)
        return NULL;
    muster_timing_launch_begins(recorder, comm, event->kernel_launch.stream);
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_LAUNCH,
                              atomic_load_explicit(&comm->generation, memory_order_relaxed),
                              comm->index);
}

static void launch_stop(struct muster_recorder *recorder, struct muster_handle h)
{
    struct muster_comm *comm = muster_recorder_comm(
        recorder, muster_handle_pack(h.nonce, MUSTER_HANDLE_CONTEXT, h.generation, h.index));
    if (comm)
        muster_timing_launch_ends(recorder, comm);
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
