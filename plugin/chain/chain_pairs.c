#include "chain/chain_pairs.h"

#include <stddef.h>
#include <sys/mman.h>

enum {
    LAP_BITS = 24,
    TRIES = 16,
    AHEAD = 16, /* places fetched before their turn: they were used two megabytes ago */
};

#define LAP_MASK ((1u << LAP_BITS) - 1)

static uint64_t life_of(uint64_t lap, bool open)
{
    return (lap & LAP_MASK) << 1 | open;
}

int muster_chain_pairs_make(struct muster_chain_pairs *pairs, uint32_t nonce)
{
    void *at = mmap(NULL, sizeof(struct muster_chain_pair) * MUSTER_CHAIN_PAIRS,
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED)
        return -1;
    *pairs = (struct muster_chain_pairs){.tag = nonce << 4 | MUSTER_CHAIN_PAIR_KIND, .at = at};
    /* Laps count from 1, so that memory of zeros is no life of anything. */
    atomic_init(&pairs->next, MUSTER_CHAIN_PAIRS);
    return 0;
}

static struct muster_chain_pair *take_one(struct muster_chain_pairs *pairs, uint64_t *lap)
{
    uint64_t ticket = atomic_fetch_add_explicit(&pairs->next, 1, memory_order_relaxed);
    struct muster_chain_pair *pair = &pairs->at[ticket % MUSTER_CHAIN_PAIRS];
    __builtin_prefetch(&pairs->at[(ticket + AHEAD) % MUSTER_CHAIN_PAIRS], 1);
    *lap = ticket / MUSTER_CHAIN_PAIRS;
    uint64_t life = atomic_load_explicit(&pair->life, memory_order_relaxed);
    uint64_t laps_ago = (*lap - (life >> 1)) & LAP_MASK;
    if ((life & 1) && laps_ago < MUSTER_CHAIN_LOST_LAPS)
        return NULL;
    /* A thread that slept a whole lap meets another here. */
    return atomic_compare_exchange_strong_explicit(&pair->life, &life, life_of(*lap, true),
                                                   memory_order_relaxed, memory_order_relaxed)
               ? pair
               : NULL;
}

static void *name_of(const struct muster_chain_pairs *pairs, const struct muster_chain_pair *pair,
                     uint64_t lap)
{
    uint64_t bits =
        (uint64_t)pairs->tag << 40 | (lap & LAP_MASK) << 16 | (uint64_t)(pair - pairs->at);
    return (void *)(uintptr_t)bits;
}

void *muster_chain_pairs_add(struct muster_chain_pairs *pairs, void *own, void *other,
                             uint64_t comm)
{
    struct muster_chain_pair *pair = NULL;
    uint64_t lap = 0;
    for (int i = 0; i < TRIES && !pair; i++)
        pair = take_one(pairs, &lap);
    if (!pair)
        return NULL;
    /* Release: who sees one of these for an older name sees the new life, too. Pairs with the fence
     * in find. */
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&pair->own, own, memory_order_relaxed);
    atomic_store_explicit(&pair->other, other, memory_order_relaxed);
    atomic_store_explicit(&pair->comm, comm, memory_order_relaxed);
    /* NCCL hands the name from thread to thread, and with it what was stored. */
    return name_of(pairs, pair, lap);
}

bool muster_chain_pairs_find(const struct muster_chain_pairs *pairs, const void *handle,
                             struct muster_chain_found *found)
{
    uint64_t bits = (uint64_t)(uintptr_t)handle;
    if (!muster_chain_pairs_is_name(pairs, handle))
        return false;
    struct muster_chain_pair *pair = &pairs->at[bits & 0xffff];
    uint64_t lap = bits >> 16 & LAP_MASK;
    uint64_t life = atomic_load_explicit(&pair->life, memory_order_acquire);
    found->own = atomic_load_explicit(&pair->own, memory_order_relaxed);
    found->other = atomic_load_explicit(&pair->other, memory_order_relaxed);
    found->comm = atomic_load_explicit(&pair->comm, memory_order_relaxed);
    found->open = life & 1;
    /* Acquire: pairs with the fence in add. */
    atomic_thread_fence(memory_order_acquire);
    uint64_t after = atomic_load_explicit(&pair->life, memory_order_relaxed);
    return life >> 1 == lap && after >> 1 == lap;
}

bool muster_chain_pairs_stop(struct muster_chain_pairs *pairs, const void *handle,
                             struct muster_chain_found *found)
{
    if (!muster_chain_pairs_find(pairs, handle, found))
        return false;
    uint64_t bits = (uint64_t)(uintptr_t)handle;
    uint64_t open = life_of(bits >> 16, true);
    found->open = atomic_compare_exchange_strong_explicit(
        &pairs->at[bits & 0xffff].life, &open, life_of(bits >> 16, false), memory_order_relaxed,
        memory_order_relaxed);
    return true;
}

void muster_chain_pairs_forget(struct muster_chain_pairs *pairs, uint64_t comm)
{
    for (unsigned i = 0; i < MUSTER_CHAIN_PAIRS; i++) {
        struct muster_chain_pair *pair = &pairs->at[i];
        if (atomic_load_explicit(&pair->comm, memory_order_relaxed) == comm)
            atomic_store_explicit(&pair->other, NULL, memory_order_relaxed);
    }
}
