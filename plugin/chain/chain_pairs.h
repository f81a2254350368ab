/*
 * muster's and the other profiler's handle of one event, under a name that NCCL holds for both. A
 * name holds whose it is, which place it means and which life of that place, as muster's own
 * handles do (record/handle.h); the fourth of the kinds there that muster has no use for keeps them
 * apart:
 *
 *   63..44 nonce of the process | 43..40 15 | 39..16 lap | 15..0 place
 *
 * Places are given in turn, so that a pair stays readable for 65,536 events after it was made,
 * stopped or not: a kernel's or the network's events come after their operation's stop. One that
 * was not stopped stays for eight such laps; then its stop is taken for lost.
 *
 * Any thread calls anything, at any time. Nobody waits.
 */
#ifndef MUSTER_CHAIN_CHAIN_PAIRS_H
#define MUSTER_CHAIN_CHAIN_PAIRS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MUSTER_CHAIN_PAIRS = 65536, MUSTER_CHAIN_LOST_LAPS = 8, MUSTER_CHAIN_PAIR_KIND = 15 };

struct muster_chain_pair {
    _Atomic uint64_t life; /* lap, and in the lowest bit whether it is open */
    _Atomic(void *) own;
    _Atomic(void *) other;
    _Atomic uint64_t comm; /* whose: the context of a struct muster_chain_comm */
};

struct muster_chain_pairs {
    uint32_t tag; /* a name's upper bits: nonce and kind */
    _Atomic uint64_t next;
    struct muster_chain_pair *at; /* MUSTER_CHAIN_PAIRS of them */
};

/* What a name stands for. */
struct muster_chain_found {
    void *own, *other;
    uint64_t comm;
    bool open;
};

/* -1: out of memory. Never freed. */
int muster_chain_pairs_make(struct muster_chain_pairs *pairs, uint32_t nonce);

/* Makes a pair and gives its name. NULL: every place that was looked at is open. */
void *muster_chain_pairs_add(struct muster_chain_pairs *pairs, void *own, void *other,
                             uint64_t comm);

/* Whether it has the form of this process's names. */
static inline bool muster_chain_pairs_is_name(const struct muster_chain_pairs *pairs,
                                              const void *handle)
{
    return (uint64_t)(uintptr_t)handle >> 40 == pairs->tag;
}

/* False: not a name of ours, or of a life that is over. */
bool muster_chain_pairs_find(const struct muster_chain_pairs *pairs, const void *handle,
                             struct muster_chain_found *found);
/* The same, and from now on it is not open; of several calls one finds it open. */
bool muster_chain_pairs_stop(struct muster_chain_pairs *pairs, const void *handle,
                             struct muster_chain_found *found);
/* The other profiler's handles of that communicator are over: they stand for NULL from now on. */
void muster_chain_pairs_forget(struct muster_chain_pairs *pairs, uint64_t comm);

#endif
