/*
 * CLOCK_MONOTONIC for NCCL's threads from the processor's counter: a third of what the vDSO costs.
 * The drain thread ties the counter to the clock in every pass, so that both agree within some 100
 * ns and follow the clock where it is slewed. Whoever meets a tie that is too old, half written or
 * missing (no such counter, a kernel that does not trust it) gets the clock itself.
 *
 * Two readings less than 1 us apart may come in the wrong order.
 *
 * In a replay calls come when the player gets to them, which a busy machine delays; there the
 * player gives when the recorded call came, and that is the time.
 */
#ifndef MUSTER_RECORD_FAST_CLOCK_H
#define MUSTER_RECORD_FAST_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/* When the call that is played now came, on CLOCK_MONOTONIC; 0: it comes now. On the calling
 * thread.
 */
typedef uint64_t muster_replay_clock(void);

struct muster_fast_clock {
    _Atomic uint32_t seq;         /* odd while the drain thread writes what follows */
    _Atomic uint64_t ticks, ns;   /* the same instant */
    _Atomic uint64_t ns_per_tick; /* with 32 binary places */
    _Atomic uint64_t good_for;    /* ticks; 0: no tie yet */
    muster_replay_clock *replay;  /* a replay's; NULL: none */
    bool possible;                /* what follows is the drain thread's */
    uint64_t last_ticks, last_ns; /* the newest pair; 0: none */
};

static inline uint64_t muster_fast_clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* CLOCK_MONOTONIC itself, or what the player gives. */
uint64_t muster_exact_now_ns(const struct muster_fast_clock *clock);

static inline uint64_t muster_fast_now_ns(const struct muster_fast_clock *clock)
{
#if defined(__x86_64__)
    /* Acquire, here and below: seq, what it guards and seq again are read in this order; they pair
     * with the releases in write_tie. */
    uint32_t seq = atomic_load_explicit(&clock->seq, memory_order_acquire);
    uint64_t from = atomic_load_explicit(&clock->ticks, memory_order_acquire);
    uint64_t ns = atomic_load_explicit(&clock->ns, memory_order_acquire);
    uint64_t rate = atomic_load_explicit(&clock->ns_per_tick, memory_order_acquire);
    uint64_t good_for = atomic_load_explicit(&clock->good_for, memory_order_acquire);
    uint64_t passed = muster_fast_clock_ticks() - from;
    if (passed < good_for && (seq & 1) == 0 &&
        atomic_load_explicit(&clock->seq, memory_order_relaxed) == seq)
        return ns + (passed * rate >> 32);
#endif
    return muster_exact_now_ns(clock);
}

/* For whoever waits until nothing more comes: a replay's calls, too, come now. */
static inline uint64_t muster_arrival_ns(const struct muster_fast_clock *clock)
{
    return clock->replay ? muster_now_ns() : muster_fast_now_ns(clock);
}

/* Asks whether the kernel itself takes the time from the counter. `replay`: NULL but in a replay.
 */
void muster_fast_clock_init(struct muster_fast_clock *clock, muster_replay_clock *replay);
/* Ties the counter to the clock anew. One thread, every few milliseconds. */
void muster_fast_clock_tie(struct muster_fast_clock *clock);

#endif
