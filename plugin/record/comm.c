#include "record/comm.h"

#include <stdlib.h>
#include <string.h>

static bool renew_peers(struct muster_comm *comm, uint32_t nranks)
{
    uint32_t peers = nranks == 0 ? 1024 : nranks < MUSTER_PEERS ? nranks : MUSTER_PEERS;
    if (peers > comm->peers) {
        _Atomic uint32_t *table = calloc(2 * (size_t)peers, sizeof *table);
        if (!table)
            return false;
        free((void *)(uintptr_t)comm->sends);
        comm->sends = table;
        comm->peers = peers;
    } else {
        memset((void *)(uintptr_t)comm->sends, 0, 2 * (size_t)comm->peers * sizeof *comm->sends);
    }
    comm->receives = comm->sends + comm->peers;
    return true;
}

bool muster_comm_renew(struct muster_comm *comm, const struct muster_event_init *init)
{
    comm->nranks = init->nranks > 0 ? (uint32_t)init->nranks : 0;
    if (!renew_peers(comm, comm->nranks))
        return false;
    comm->id = init->comm_hash;
    comm->rank = init->rank;
    comm->api = init->api;
    memset((void *)&comm->own, 0, sizeof comm->own);
    memset((void *)comm->channel, 0, sizeof comm->channel);
    atomic_store_explicit(&comm->groups, 0, memory_order_relaxed);
    atomic_store_explicit(&comm->graph_calls, 0, memory_order_relaxed);
    atomic_store_explicit(&comm->ended_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&comm->works, 0, memory_order_relaxed);
    atomic_store_explicit(&comm->drifts, false, memory_order_relaxed);
    atomic_store_explicit(&comm->tie.seconds, 0, memory_order_relaxed);
    comm->sampling = (struct muster_sampling){0};
    comm->group = (struct muster_group){0};
    atomic_store_explicit(&comm->launched, true, memory_order_relaxed);
    comm->send_groups = 0;
    comm->launch = NULL;
    comm->launch_ticket = 0;
    atomic_store_explicit(&comm->launch_thread, 0, memory_order_relaxed);
    comm->probed_ns = 0;
    comm->launches_seen = 0;
    atomic_store_explicit(&comm->finalized_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&comm->uses_proxy, init->nnodes > 1, memory_order_relaxed);
    return true;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

uint64_t muster_comm_called(struct muster_comm *comm, const struct muster_event_op *op)
{
    struct muster_seg_comm *entry = comm->calls;
    /* Load and store: NCCL forbids two threads in one communicator at once, and other processes
     * only look on. */
    uint64_t number = atomic_load_explicit(&entry->calls, memory_order_relaxed);
    atomic_store_explicit(&entry->calls, number + 1, memory_order_relaxed);
    uint64_t hash = atomic_load_explicit(&entry->call_hash, memory_order_relaxed);
    hash = mix(hash, op->count);
    hash = mix(hash,
               (uint64_t)op->func << 40 | (uint64_t)op->dtype << 32 | (uint32_t)op->root_or_peer);
    atomic_store_explicit(&entry->call_hash, hash, memory_order_relaxed);
    entry->call[number % MUSTER_SEG_CALLS] = (struct muster_seg_call){
        op->count, op->root_or_peer, op->func, op->dtype, (uint16_t)number};
    return number;
}

uint64_t muster_comm_p2p_number(struct muster_comm *comm, unsigned func, int32_t peer)
{
    if (peer < 0 || (uint32_t)peer >= comm->peers)
        return MUSTER_NO_NUMBER;
    _Atomic uint32_t *table = func == MUSTER_FUNC_SEND ? comm->sends : comm->receives;
    return atomic_fetch_add_explicit(&table[peer], 1, memory_order_relaxed);
}
