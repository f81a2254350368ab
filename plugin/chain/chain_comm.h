/*
 * Communicators with two contexts, muster's and the other profiler's, under one that NCCL holds:
 *
 *   63..44 nonce of the process | 43..40 14 | 39..16 life | 15..0 place
 *
 * Places are given in turn, so that what NCCL still sends for a finalized communicator finds
 * muster's context for a long time. Made and finalized under a lock, found without.
 */
#ifndef MUSTER_CHAIN_CHAIN_COMM_H
#define MUSTER_CHAIN_CHAIN_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nccl/descriptor_downgrade.h"

enum {
    MUSTER_CHAIN_COMMS = 1024,
    MUSTER_CHAIN_NAME = 128,
    MUSTER_CHAIN_COMM_KIND = 14,
    MUSTER_CHAIN_LIFE_MASK = 0xffffff,
};

struct muster_chain_comm {
    _Atomic uint32_t life; /* 0: never used */
    _Atomic bool alive;    /* the other got it, and not its end */
    void *own, *other;     /* written before life is */
    uint64_t context;      /* what NCCL has */
    unsigned api;          /* of the NCCL that made it */
    struct nccl_lower_who who;
    char name[MUSTER_CHAIN_NAME];
};

struct muster_chain_comms {
    uint32_t tag; /* a context's upper bits: nonce and kind */
    pthread_mutex_t lock;
    unsigned next;
    struct muster_chain_comm at[MUSTER_CHAIN_COMMS];
};

/* The context for NCCL; 0: as many as there is room for are alive. `name` may be NULL. */
uint64_t muster_chain_comm_add(struct muster_chain_comms *comms, unsigned api, void *own,
                               void *other, const char *name, uint64_t comm_hash);
/* NULL: not one of ours, or of a life that is over. */
static inline struct muster_chain_comm *muster_chain_comm_find(struct muster_chain_comms *comms,
                                                               const void *context)
{
    uint64_t bits = (uint64_t)(uintptr_t)context;
    if (bits >> 40 != comms->tag || (bits & 0xffff) >= MUSTER_CHAIN_COMMS)
        return NULL;
    struct muster_chain_comm *comm = &comms->at[bits & 0xffff];
    uint32_t life = atomic_load_explicit(&comm->life, memory_order_acquire);
    return life == (bits >> 16 & MUSTER_CHAIN_LIFE_MASK) ? comm : NULL;
}

/* One that is alive, of this interface; NULL: none. */
struct muster_chain_comm *muster_chain_comm_any(struct muster_chain_comms *comms, unsigned api);

#endif
