#include "segment/log_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "segment/snapshot.h"

void muster_log_states_free(struct muster_log_states *states)
{
    free(states->comm);
    muster_uid_free(&states->index);
}

static struct muster_log_comm *met(struct muster_log_states *states,
                                   const struct muster_seg_comm *comm)
{
    size_t at = muster_uid_find(&states->index, comm->uid);
    if (at == SIZE_MAX) {
        if (!muster_grow(&states->comm, states->comms, sizeof(*states->comm)) ||
            !muster_uid_add(&states->index, comm->uid, states->comms))
            return NULL;
        at = states->comms++;
    }
    struct muster_log_comm *known = &states->comm[at];
    memset(known, 0, sizeof(*known));
    known->uid = comm->uid;
    known->id = comm->id;
    known->rank = comm->rank;
    known->nranks = comm->nranks;
    known->nnodes = comm->nnodes;
    memcpy(known->name, comm->name, sizeof(known->name) - 1);
    return known;
}

const struct muster_log_comm *muster_log_states_comm(struct muster_log_states *states, uint32_t uid)
{
    size_t at = muster_uid_find(&states->index, uid);
    if (at != SIZE_MAX)
        return &states->comm[at];
    for (unsigned i = 0; i < MUSTER_SEG_COMMS && uid != MUSTER_SEG_OTHER_UID; i++) {
        struct muster_seg_comm comm;
        if (muster_snapshot_entry(&comm, &states->segment->comm[i], sizeof(comm)) &&
            comm.uid == uid)
            return met(states, &comm);
    }
    return NULL;
}

void muster_log_states_process(const struct muster_log_states *states,
                               struct muster_log_process_state *state)
{
    struct muster_segment *segment = states->segment;
    state->heartbeat_mono_ns =
        atomic_load_explicit(&segment->heartbeat_mono_ns, memory_order_relaxed);
    state->heartbeat_unix_ns =
        atomic_load_explicit(&segment->heartbeat_unix_ns, memory_order_relaxed);
    state->exit_state = atomic_load_explicit(&segment->exit_state, memory_order_relaxed);
    state->comms_alive = atomic_load_explicit(&segment->comms_alive, memory_order_relaxed);
    state->lost_log = atomic_load_explicit(&segment->lost_log, memory_order_relaxed);
    state->overwritten = atomic_load_explicit(&segment->log_overwritten, memory_order_relaxed);
}

/* The slot if it stood still in the state of `word`. Its times are not looked at. */
static bool copy_slot(struct muster_segment *segment, unsigned i, uint32_t word,
                      struct muster_seg_slot *slot)
{
    muster_snapshot(slot, &segment->slot[i], sizeof(*slot));
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&segment->slot_state[i], memory_order_relaxed) == word;
}

void muster_log_states_scan(struct muster_log_states *states)
{
    struct muster_segment *segment = states->segment;
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        /* Acquire: with the release that published the slot. */
        uint32_t word = atomic_load_explicit(&segment->slot_state[i], memory_order_acquire);
        unsigned state = word & 0xff;
        struct muster_seg_slot slot;
        bool busy = (state == MUSTER_SLOT_CALLED || state == MUSTER_SLOT_LAUNCHED) &&
                    copy_slot(segment, i, word, &slot);
        states->busy[i].uid = busy ? slot.comm : 0;
        states->busy[i].word = word;
    }
}

static void fill_pending(struct muster_log_pending *pending, struct muster_seg_slot *slot,
                         uint32_t word)
{
    memset(pending, 0, sizeof(*pending));
    pending->op.number = slot->number;
    pending->op.enqueue_ns = slot->enqueue_ns;
    pending->op.count = slot->count;
    pending->op.comm = slot->comm;
    pending->op.peer = slot->peer;
    pending->op.func = slot->func;
    pending->op.dtype = slot->dtype;
    pending->op.algo = slot->algo;
    pending->op.proto = slot->proto;
    pending->op.channels = slot->channels;
    pending->op.flags = slot->flags;
    pending->launched = (word & 0xff) == MUSTER_SLOT_LAUNCHED;
    pending->started = atomic_load_explicit(&slot->started, memory_order_relaxed);
    pending->ended = atomic_load_explicit(&slot->ended, memory_order_relaxed);
    pending->proxy_started = atomic_load_explicit(&slot->proxy_started, memory_order_relaxed);
    pending->proxy_ended = atomic_load_explicit(&slot->proxy_ended, memory_order_relaxed);
}

static uint64_t fill_outstanding(struct muster_log_states *states,
                                 struct muster_log_comm_state *state, uint64_t hash)
{
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        uint32_t word = states->busy[i].word;
        struct muster_seg_slot slot;
        if (states->busy[i].uid != state->uid || !copy_slot(states->segment, i, word, &slot))
            continue;
        state->outstanding++;
        hash = muster_hash(hash, &word, sizeof(word));
        if (state->listed < MUSTER_LOG_OUTSTANDING)
            fill_pending(&states->pending[state->listed++], &slot, word);
    }
    state->pending = states->pending;
    return hash;
}

/* The calling thread may be at it: of the ring only entries that its counter, before and after,
 * and their own number vouch for. */
static void fill_calls(struct muster_log_comm_state *state, const struct muster_seg_comm *comm,
                       uint64_t calls_after)
{
    uint64_t calls = atomic_load_explicit(&comm->calls, memory_order_relaxed);
    uint64_t from = calls_after < MUSTER_SEG_CALLS ? 0 : calls_after - MUSTER_SEG_CALLS;
    if (calls_after != calls)
        from += 1;
    for (uint64_t n = from; n < calls; n++) {
        const struct muster_seg_call *call = &comm->call[n % MUSTER_SEG_CALLS];
        if (call->number == (uint16_t)n)
            state->call[state->calls_listed++] = *call;
    }
}

static uint64_t fill_state(struct muster_log_states *states, unsigned entry,
                           struct muster_log_comm_state *state, struct muster_seg_comm *comm)
{
    memset(state, 0, sizeof(*state));
    state->uid = comm->uid;
    state->begin_ns = comm->begin_ns;
    state->end_ns = comm->end_ns;
    state->retired = comm->retired;
    state->captured = atomic_load_explicit(&comm->captured, memory_order_relaxed);
    state->calls = atomic_load_explicit(&comm->calls, memory_order_relaxed);
    state->call_hash = atomic_load_explicit(&comm->call_hash, memory_order_relaxed);
    state->called_ns = atomic_load_explicit(&comm->called_ns, memory_order_relaxed);
    state->launches = atomic_load_explicit(&comm->launches, memory_order_relaxed);
    state->launches_marked = atomic_load_explicit(&comm->launches_marked, memory_order_relaxed);
    state->launches_ended = atomic_load_explicit(&comm->launches_ended, memory_order_relaxed);
    fill_calls(state, comm,
               atomic_load_explicit(&states->segment->comm[entry].calls, memory_order_acquire));
    uint64_t facts[] = {state->uid,       state->end_ns,          state->retired,
                        state->captured,  state->calls,           state->call_hash,
                        state->called_ns, state->launches_marked, state->launches_ended};
    uint64_t hash = muster_hash(MUSTER_HASH_SEED, facts, sizeof(facts));
    hash = fill_outstanding(states, state, hash);
    return hash ? hash : 1;
}

bool muster_log_states_next(struct muster_log_states *states, unsigned *entry,
                            struct muster_log_comm_state *state, uint64_t *hash)
{
    for (unsigned i = *entry; i < MUSTER_SEG_COMMS; i++) {
        struct muster_seg_comm comm;
        if (!muster_snapshot_entry(&comm, &states->segment->comm[i], sizeof(comm)) || comm.uid == 0)
            continue;
        *hash = fill_state(states, i, state, &comm);
        if (*hash == states->told[i])
            continue;
        met(states, &comm);
        *entry = i;
        return true;
    }
    return false;
}

void muster_log_states_told(struct muster_log_states *states, unsigned entry, uint64_t hash)
{
    states->told[entry] = hash;
}

void muster_log_states_forget(struct muster_log_states *states)
{
    memset(states->told, 0, sizeof(states->told));
}
