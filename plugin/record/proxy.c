#include "record/proxy.h"

#include <string.h>

#include "base/clock.h"
#include "record/handle.h"
#include "record/recorder.h"
#include "record/track.h"
#include "segment/seqlock.h"

enum { PROBES = 16 };

static struct muster_proxy_slot *reserve(struct muster_proxy_pool *pool, unsigned *index,
                                         uint32_t *generation)
{
    for (unsigned probe = 0; probe < PROBES; probe++) {
        unsigned i =
            atomic_fetch_add_explicit(&pool->cursor, 1, memory_order_relaxed) % MUSTER_PROXY_SLOTS;
        uint32_t word = atomic_load_explicit(&pool->state[i], memory_order_relaxed);
        uint32_t next = (word >> 8) + 1;
        /* Acquire: pairs with the release in muster_proxy_retire that freed the slot. */
        if ((word & 0xff) == MUSTER_SLOT_FREE &&
            atomic_compare_exchange_strong_explicit(&pool->state[i], &word,
                                                    muster_slot_word(next, MUSTER_SLOT_FILLING),
                                                    memory_order_acquire, memory_order_relaxed)) {
            *index = i;
            *generation = next & MUSTER_GENERATION_MASK;
            return &pool->slot[i];
        }
    }
    return NULL;
}

/* The slot of a live handle of one of our proxy operations or of its steps. */
static struct muster_proxy_slot *slot_of(struct muster_recorder *recorder, const void *handle)
{
    struct muster_handle h = muster_handle_unpack(handle);
    struct muster_proxy_pool *pool = &recorder->proxies;
    if (h.nonce != recorder->nonce) {
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_FOREIGN);
        return NULL;
    }
    bool proxy = h.kind == MUSTER_HANDLE_PROXY_OP || h.kind == MUSTER_HANDLE_PROXY_STEP;
    unsigned index = h.index % MUSTER_PROXY_SLOTS; /* above it, of a step: which */
    if (proxy && atomic_load_explicit(&pool->state[index], memory_order_acquire) ==
                     muster_slot_word(h.generation, MUSTER_SLOT_LAUNCHED))
        return &pool->slot[index];
    muster_recorder_drop(recorder, NULL, MUSTER_DROP_STALE);
    return NULL;
}

static void attach_to_op(struct muster_recorder *recorder, struct muster_proxy_slot *slot,
                         void *parent)
{
    struct muster_handle h = muster_handle_unpack(parent);
    if (!parent || h.nonce != recorder->nonce || h.kind != MUSTER_HANDLE_OP)
        return;
    /* An operation that its events show ended does not wait for the proxy, which may be behind. */
    struct muster_seg_slot *op = muster_track_in_flight(recorder, h);
    if (!op)
        return;
    slot->has_op = true;
    slot->op_slot = h.index;
    slot->op_generation = h.generation;
    slot->comm = op->comm;
    slot->nranks = op->nranks;
    slot->op = (struct muster_op){.func = op->func,
                                  .dtype = op->dtype,
                                  .algo = op->algo,
                                  .channels = op->channels,
                                  .count = op->count};
    /* Not an atomic add: one proxy thread announces all parts of an operation. */
    uint32_t started = atomic_load_explicit(&op->proxy_started, memory_order_relaxed);
    atomic_store_explicit(&op->proxy_started, started + 1, memory_order_relaxed);
}

void *muster_proxy_op_start(struct muster_recorder *recorder, const void *context,
                            const struct muster_event *event)
{
    /* With PXN another local rank's proxy does the work, and context and parent are that process's:
     * only the pid shows that. */
    if (event->proxy_op.pid != recorder->pid) {
        muster_recorder_drop(recorder, NULL, MUSTER_DROP_FOREIGN);
        return NULL;
    }
    struct muster_comm *comm = muster_recorder_comm(recorder, context);
    unsigned index;
    uint32_t generation;
    struct muster_proxy_slot *slot = reserve(&recorder->proxies, &index, &generation);
    if (!slot) {
        muster_recorder_drop(recorder, comm, MUSTER_DROP_NO_PROXY_SLOT);
        return NULL;
    }
    memset(slot, 0, sizeof *slot);
    slot->peer = event->proxy_op.peer;
    slot->send = event->proxy_op.send != 0;
    if (comm) {
        slot->comm = comm->uid;
        atomic_store_explicit(&comm->uses_proxy, true, memory_order_relaxed);
    }
    attach_to_op(recorder, slot, event->parent);
    /* Release: pairs with the acquire in slot_of and muster_proxy_retire. */
    atomic_store_explicit(&recorder->proxies.state[index],
                          muster_slot_word(generation, MUSTER_SLOT_LAUNCHED), memory_order_release);
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_PROXY_OP, generation, index);
}

static struct muster_seg_slot *op_of(struct muster_recorder *recorder,
                                     const struct muster_proxy_slot *slot)
{
    if (!slot->has_op)
        return NULL;
    return muster_track_in_flight(recorder,
                                  (struct muster_handle){.kind = MUSTER_HANDLE_OP,
                                                         .generation = slot->op_generation,
                                                         .index = slot->op_slot});
}

/* NCCL announces proxy operations when they are queued; they begin when it takes them up. */
void muster_proxy_op_progress(struct muster_recorder *recorder, const void *handle)
{
    struct muster_proxy_slot *slot = slot_of(recorder, handle);
    struct muster_seg_slot *op = slot ? op_of(recorder, slot) : NULL;
    if (op && atomic_load_explicit(&op->proxy_begin_ns, memory_order_relaxed) == 0)
        atomic_store_explicit(&op->proxy_begin_ns, muster_exact_now_ns(&recorder->clock),
                              memory_order_relaxed);
}

void muster_proxy_op_stop(struct muster_recorder *recorder, const void *handle)
{
    struct muster_proxy_slot *slot = slot_of(recorder, handle);
    if (!slot)
        return;
    struct muster_seg_slot *op = op_of(recorder, slot);
    if (op) {
        atomic_store_explicit(&op->proxy_end_ns, muster_exact_now_ns(&recorder->clock),
                              memory_order_relaxed);
        atomic_store_explicit(&op->touched_ns, muster_now_ns(), memory_order_relaxed);
        uint32_t ended = atomic_load_explicit(&op->proxy_ended, memory_order_relaxed);
        /* Release: pairs with the acquire in muster_slot_op. */
        atomic_store_explicit(&op->proxy_ended, ended + 1, memory_order_release);
    }
    struct muster_handle h = muster_handle_unpack(handle);
    /* Release: pairs with the acquire in muster_proxy_retire. */
    atomic_store_explicit(&recorder->proxies.state[h.index % MUSTER_PROXY_SLOTS],
                          muster_slot_word(h.generation, MUSTER_SLOT_DONE), memory_order_release);
}

void *muster_proxy_step_start(struct muster_recorder *recorder, const struct muster_event *event)
{
    struct muster_handle parent = muster_handle_unpack(event->parent);
    /* NCCL starts steps of operations that we refused, too. */
    if (!event->parent || parent.kind != MUSTER_HANDLE_PROXY_OP)
        return NULL;
    struct muster_proxy_slot *slot = slot_of(recorder, event->parent);
    if (!slot)
        return NULL;
    unsigned at = (unsigned)event->proxy_step.step % MUSTER_PROXY_STEPS;
    slot->step[at] = (struct muster_proxy_step){.open = true};
    return muster_handle_pack(recorder->nonce, MUSTER_HANDLE_PROXY_STEP, parent.generation,
                              at * MUSTER_PROXY_SLOTS + parent.index % MUSTER_PROXY_SLOTS);
}

static uint32_t wait_of_state(unsigned state)
{
    switch (state) {
    case MUSTER_STATE_SEND_GPU_WAIT:
    case MUSTER_STATE_RECV_GPU_WAIT:
        return MUSTER_WAIT_GPU;
    case MUSTER_STATE_SEND_PEER_WAIT:
        return MUSTER_WAIT_CREDIT;
    case MUSTER_STATE_SEND_WAIT:
    case MUSTER_STATE_RECV_WAIT:
        return MUSTER_WAIT_NET;
    case MUSTER_STATE_RECV_FLUSH_WAIT:
        return MUSTER_WAIT_FLUSH;
    default:
        return MUSTER_WAIT_NONE;
    }
}

static void step_turns(const struct muster_fast_clock *clock, struct muster_proxy_slot *slot,
                       struct muster_proxy_step *step, uint32_t wait)
{
    uint64_t now = muster_exact_now_ns(clock);
    /* Recordings of several threads go back by some microseconds. */
    if (step->wait != MUSTER_WAIT_NONE && now > step->since_ns)
        slot->wait_ns[step->wait] += now - step->since_ns;
    step->wait = wait;
    step->since_ns = now;
}

static struct muster_proxy_step *step_of(struct muster_proxy_slot *slot, const void *handle)
{
    unsigned at = muster_handle_unpack(handle).index / MUSTER_PROXY_SLOTS % MUSTER_PROXY_STEPS;
    return slot->step[at].open ? &slot->step[at] : NULL;
}

void muster_proxy_step_state(struct muster_recorder *recorder, const void *handle, unsigned state,
                             const struct muster_event_args *args)
{
    struct muster_proxy_slot *slot = slot_of(recorder, handle);
    struct muster_proxy_step *step = slot ? step_of(slot, handle) : NULL;
    if (!step)
        return;
    uint32_t wait = wait_of_state(state);
    if (args->given && args->trans_bytes > step->bytes)
        step->bytes = args->trans_bytes;
    if (wait != step->wait)
        step_turns(&recorder->clock, slot, step, wait);
}

void muster_proxy_step_stop(struct muster_recorder *recorder, const void *handle)
{
    struct muster_proxy_slot *slot = slot_of(recorder, handle);
    struct muster_proxy_step *step = slot ? step_of(slot, handle) : NULL;
    if (!step)
        return;
    step_turns(&recorder->clock, slot, step, MUSTER_WAIT_NONE);
    step->open = false;
    slot->bytes += step->bytes;
    slot->steps++;
}

/* What one channel of a ring, or of a send or receive, moves to a neighbour (the bus bandwidth
 * factors of nccl-tests are just that share). False where the algorithm does not give it. */
static bool even_share(const struct muster_proxy_slot *slot, uint64_t *bytes)
{
    const struct muster_op *op = &slot->op;
    bool known = op->algo == MUSTER_ALGO_RING || muster_func_is_p2p(op->func);
    if (!known || op->channels == 0)
        return false;
    uint64_t size = muster_op_size_bytes(op->func, op->dtype, op->count, slot->nranks);
    double share = (double)size * muster_busbw_factor(op->func, slot->nranks) / op->channels;
    *bytes = (uint64_t)share;
    return true;
}

/* Entries 0 and 1 take what finds no room: receives and sends of `other`. */
static struct muster_seg_net *net_entry(struct muster_segment *seg, uint32_t comm, int32_t peer,
                                        bool send)
{
    for (unsigned i = 2; i < MUSTER_SEG_NETS; i++) {
        struct muster_seg_net *net = &seg->net[i];
        if (net->comm == comm && net->peer == peer && net->send == send)
            return net;
        if (net->comm == 0) {
            net->comm = comm;
            net->peer = peer;
            net->send = send;
            return net;
        }
    }
    struct muster_seg_net *net = &seg->net[send];
    net->comm = MUSTER_SEG_OTHER_UID;
    net->peer = -1;
    net->send = send;
    return net;
}

static void add_to_segment(struct muster_segment *seg, const struct muster_proxy_slot *slot)
{
    uint64_t bytes = slot->bytes;
    bool sized = slot->steps > 0 || even_share(slot, &bytes);
    struct muster_seg_net *net =
        net_entry(seg, slot->comm ? slot->comm : MUSTER_SEG_OTHER_UID, slot->peer, slot->send);
    muster_seg_write_begin(&net->seq);
    net->count++;
    net->bytes += bytes;
    net->unsized += !sized;
    net->steps += slot->steps;
    net->gpu_wait_ns += slot->wait_ns[MUSTER_WAIT_GPU];
    net->credit_wait_ns += slot->wait_ns[MUSTER_WAIT_CREDIT];
    net->net_wait_ns += slot->wait_ns[MUSTER_WAIT_NET];
    net->flush_ns += slot->wait_ns[MUSTER_WAIT_FLUSH];
    muster_seg_write_end(&net->seq);
}

void muster_proxy_retire(struct muster_recorder *recorder)
{
    struct muster_proxy_pool *pool = &recorder->proxies;
    for (unsigned i = 0; i < MUSTER_PROXY_SLOTS; i++) {
        uint32_t word = atomic_load_explicit(&pool->state[i], memory_order_acquire);
        if ((word & 0xff) != MUSTER_SLOT_DONE)
            continue;
        add_to_segment(recorder->seg, &pool->slot[i]);
        atomic_store_explicit(&pool->state[i], muster_slot_word(word >> 8, MUSTER_SLOT_FREE),
                              memory_order_release);
    }
}
