#include "chain/chain_comm.h"

#include <stdio.h>

static struct muster_chain_comm *free_place(struct muster_chain_comms *comms)
{
    for (unsigned i = 0; i < MUSTER_CHAIN_COMMS; i++) {
        struct muster_chain_comm *comm = &comms->at[comms->next++ % MUSTER_CHAIN_COMMS];
        if (!atomic_load_explicit(&comm->alive, memory_order_acquire))
            return comm;
    }
    return NULL;
}

uint64_t muster_chain_comm_add(struct muster_chain_comms *comms, unsigned api, void *own,
                               void *other, const char *name, uint64_t comm_hash)
{
    uint64_t context = 0;
    pthread_mutex_lock(&comms->lock);
    struct muster_chain_comm *comm = free_place(comms);
    if (comm) {
        uint32_t life =
            (atomic_load_explicit(&comm->life, memory_order_relaxed) + 1) & MUSTER_CHAIN_LIFE_MASK;
        life += life == 0;
        context = (uint64_t)comms->tag << 40 | (uint64_t)life << 16 | (uint64_t)(comm - comms->at);
        comm->context = context;
        comm->own = own;
        comm->other = other;
        comm->api = api;
        snprintf(comm->name, sizeof comm->name, "%s", name ? name : "");
        comm->who = (struct nccl_lower_who){name ? comm->name : NULL, comm_hash};
        /* Release: both pair with the acquires in find and any. */
        atomic_store_explicit(&comm->life, life, memory_order_release);
        atomic_store_explicit(&comm->alive, true, memory_order_release);
    }
    pthread_mutex_unlock(&comms->lock);
    return context;
}

struct muster_chain_comm *muster_chain_comm_any(struct muster_chain_comms *comms, unsigned api)
{
    for (unsigned i = 0; i < MUSTER_CHAIN_COMMS; i++) {
        struct muster_chain_comm *comm = &comms->at[i];
        if (atomic_load_explicit(&comm->alive, memory_order_acquire) && comm->api == api)
            return comm;
    }
    return NULL;
}
