#include <stdlib.h>
#include <string.h>

#include "segment/image.h"
#include "segment/retired.h"
#include "segment/rows.h"
#include "segment/run_process.h"

struct rebuild {
    const struct muster_log *log;
    struct muster_segment *segment;
    struct muster_row_index *rows;
    struct muster_retired retired;
    unsigned slots;
};

/* Entry of a communicator, in the log's order; the last one for those that found no place. */
static unsigned entry_of(const struct rebuild *rebuild, uint32_t uid)
{
    size_t at = muster_uid_find(&rebuild->log->comm_index, uid);
    return at < MUSTER_SEG_COMMS ? (unsigned)at : (unsigned)MUSTER_SEG_COMMS;
}

static void fill_comms(struct rebuild *rebuild)
{
    const struct muster_log *log = rebuild->log;
    for (size_t i = 0; i < log->comms && i < MUSTER_SEG_COMMS; i++) {
        struct muster_seg_comm *comm = &rebuild->segment->comm[i];
        comm->uid = log->comm[i].uid;
        comm->id = log->comm[i].id;
        comm->rank = log->comm[i].rank;
        comm->nranks = log->comm[i].nranks;
        comm->nnodes = log->comm[i].nnodes;
        comm->gpu_index = -1;
        memcpy(comm->name, log->comm[i].name, sizeof(comm->name));
    }
    if (log->comms > MUSTER_SEG_COMMS)
        rebuild->segment->comm[MUSTER_SEG_COMMS].folded = log->comms - MUSTER_SEG_COMMS;
}

static void add_op(struct rebuild *rebuild, const struct muster_op *logged)
{
    struct muster_op op = *logged;
    unsigned entry = entry_of(rebuild, op.comm);
    struct muster_seg_comm *comm = &rebuild->segment->comm[entry];
    op.comm = comm->uid;
    muster_rows_add(rebuild->segment, rebuild->rows, &op,
                    muster_op_size_bytes(op.func, op.dtype, op.count, comm->nranks));
    comm->retired++;
}

static void add_pending(struct rebuild *rebuild, const struct muster_log_pending *pending)
{
    if (rebuild->slots == MUSTER_SEG_SLOTS)
        return;
    unsigned i = rebuild->slots++, entry = entry_of(rebuild, pending->op.comm);
    struct muster_seg_slot *slot = &rebuild->segment->slot[i];
    slot->number = pending->op.number;
    slot->enqueue_ns = pending->op.enqueue_ns;
    slot->count = pending->op.count;
    slot->comm = rebuild->segment->comm[entry].uid;
    slot->comm_entry = (uint16_t)entry;
    slot->nranks = rebuild->segment->comm[entry].nranks;
    slot->peer = pending->op.peer;
    slot->flags = pending->op.flags;
    slot->func = pending->op.func;
    slot->dtype = pending->op.dtype;
    slot->algo = pending->op.algo;
    slot->proto = pending->op.proto;
    slot->channels = pending->op.channels;
    slot->p2p = muster_func_is_p2p(pending->op.func);
    /* Only what is unfinished: the log has no times of the rest, so none must be taken from here.
     */
    if (pending->started != pending->ended) {
        atomic_store_explicit(&slot->started, pending->started, memory_order_relaxed);
        atomic_store_explicit(&slot->ended, pending->ended, memory_order_relaxed);
    }
    if (pending->proxy_started != pending->proxy_ended) {
        atomic_store_explicit(&slot->proxy_started, pending->proxy_started, memory_order_relaxed);
        atomic_store_explicit(&slot->proxy_ended, pending->proxy_ended, memory_order_relaxed);
    }
    enum muster_slot_state state = pending->launched ? MUSTER_SLOT_LAUNCHED : MUSTER_SLOT_CALLED;
    atomic_store_explicit(&rebuild->segment->slot_state[i], muster_slot_word(1, state),
                          memory_order_relaxed);
}

static void fill_state(struct rebuild *rebuild, const struct muster_log_seen *seen)
{
    const struct muster_log_comm_state *state = &seen->state;
    for (uint32_t i = 0; i < state->listed; i++)
        if (!muster_retired_later(&rebuild->retired, seen, &state->pending[i].op))
            add_pending(rebuild, &state->pending[i]);
    unsigned entry = entry_of(rebuild, state->uid);
    if (entry == MUSTER_SEG_COMMS)
        return;
    struct muster_seg_comm *comm = &rebuild->segment->comm[entry];
    comm->begin_ns = state->begin_ns;
    comm->end_ns = state->end_ns;
    atomic_store_explicit(&comm->captured, state->captured, memory_order_relaxed);
    atomic_store_explicit(&comm->calls, state->calls, memory_order_relaxed);
    atomic_store_explicit(&comm->call_hash, state->call_hash, memory_order_relaxed);
    atomic_store_explicit(&comm->called_ns, state->called_ns, memory_order_relaxed);
    atomic_store_explicit(&comm->launches, state->launches, memory_order_relaxed);
    atomic_store_explicit(&comm->launches_marked, state->launches_marked, memory_order_relaxed);
    atomic_store_explicit(&comm->launches_ended, state->launches_ended, memory_order_relaxed);
    for (uint32_t i = 0; i < state->calls_listed; i++)
        comm->call[state->call[i].number % MUSTER_SEG_CALLS] = state->call[i];
}

static void fill_process(struct rebuild *rebuild)
{
    struct muster_segment *segment = rebuild->segment;
    const struct muster_log_process_state *state = &rebuild->log->process;
    atomic_store_explicit(&segment->heartbeat_mono_ns, state->heartbeat_mono_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&segment->heartbeat_unix_ns, state->heartbeat_unix_ns,
                          memory_order_relaxed);
    atomic_store_explicit(&segment->exit_state, state->exit_state, memory_order_relaxed);
    atomic_store_explicit(&segment->comms_alive, state->comms_alive, memory_order_relaxed);
    atomic_store_explicit(&segment->lost_log, state->lost_log, memory_order_relaxed);
    atomic_store_explicit(&segment->log_overwritten, state->overwritten, memory_order_relaxed);
}

static void fill_policy(struct rebuild *rebuild)
{
    struct muster_seg_policy *to = &rebuild->segment->policy, *from = rebuild->log->policy;
    if (from)
        memcpy(to, from, sizeof(*to));
}

struct muster_segment *muster_run_rebuild(const struct muster_log *log)
{
    struct rebuild rebuild = {.log = log, .rows = calloc(1, sizeof(*rebuild.rows))};
    rebuild.segment = aligned_alloc(64, sizeof(*rebuild.segment));
    if (!rebuild.rows || !rebuild.segment || !muster_retired_find(&rebuild.retired, log)) {
        free(rebuild.rows);
        free(rebuild.segment);
        return NULL;
    }
    memset(rebuild.segment, 0, sizeof(*rebuild.segment));
    muster_segment_init(rebuild.segment, &log->identity);
    fill_comms(&rebuild);
    for (size_t i = 0; i < log->ops; i++)
        add_op(&rebuild, &log->op[i]);
    for (size_t i = 0; i < log->seens; i++)
        fill_state(&rebuild, &log->seen[i]);
    fill_process(&rebuild);
    fill_policy(&rebuild);
    if (log->facts)
        rebuild.segment->facts = *log->facts;
    muster_retired_free(&rebuild.retired);
    free(rebuild.rows);
    return rebuild.segment;
}
