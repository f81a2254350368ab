/*
 * Entries of a segment that the drain thread writes in one piece (communicator, row, net) carry a
 * `seq`: odd while the entry is being written, even when it stands.
 *
 * Readers cannot load seq, data, seq in that order, because pread gives no order inside one call.
 * They read the whole file three times, A, B, C, and take an entry from B if its seq is even and
 * the same in A and in C: then no write began after A's read of seq and ended before C's, and
 * none was under way. A seq that went around 2^31 writes between A and C is not a case.
 */
#ifndef MUSTER_SEGMENT_SEQLOCK_H
#define MUSTER_SEGMENT_SEQLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Before the first store to the entry. One writer. */
static inline void muster_seg_write_begin(uint32_t *seq)
{
    uint32_t now = __atomic_load_n(seq, __ATOMIC_RELAXED);
    __atomic_store_n(seq, now | 1u, __ATOMIC_RELAXED);
    /* The odd seq becomes visible before any store to the entry. Pairs with the acquire fence
     * between the reader's copies B and C. */
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* After the last store to the entry. */
static inline void muster_seg_write_end(uint32_t *seq)
{
    uint32_t now = __atomic_load_n(seq, __ATOMIC_RELAXED);
    /* Release: every store to the entry is visible before the even seq. Pairs with the acquire
     * fence between the reader's copies A and B. */
    __atomic_store_n(seq, (now | 1u) + 1u, __ATOMIC_RELEASE);
}

/* `a` and `c`: the entry's seq in the first and the third copy. */
static inline bool muster_seg_stable(uint32_t a, uint32_t c)
{
    return a == c && (a & 1u) == 0;
}

#endif
