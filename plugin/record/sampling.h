/*
 * Which operations `auto` times: by price, not by share. A communicator's operations come in
 * windows of 64. At a window's end the communicator takes the densest level that keeps what the
 * whole process pays for timing under 0.5 % of its time; level k times one window in 2^k.
 *
 * Levels nest: which windows a level times is a pure function of how many ranks the communicator
 * has and of the window's number, and each level's windows are among those of the level above it.
 * So ranks that chose different levels share the sparser one's windows; nothing is agreed and no
 * clock compared. Groups that do the same beside each other, one a host or one a stage, time the
 * same of their windows, so that ranks of different groups can be compared in the same step.
 */
#ifndef MUSTER_RECORD_SAMPLING_H
#define MUSTER_RECORD_SAMPLING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MUSTER_SAMPLING_WINDOW = 64,  /* operations; a power of two */
    MUSTER_SAMPLING_SPARSEST = 8, /* the last level: one window in 256 */
    MUSTER_TIMING_PPM = 5000,     /* what timing may cost, of the process's time */
};

static inline uint64_t muster_sampling_id(uint32_t nranks)
{
    return nranks;
}

/* Whether a level times a window: exactly one in each aligned run of 2^level windows. */
bool muster_sampling_takes(uint64_t id, uint64_t window, unsigned level);
/* Where a window stands among all: a level of `k` takes those below UINT32_MAX >> k, and any other
 * bound a share of them as even. To `bits` bits, at most 32. */
uint32_t muster_sampling_place(uint64_t id, uint64_t window, unsigned bits);

/* The process's: what timing everything would cost, over periods of a second at most. */
struct muster_meter {
    _Atomic uint64_t price_ns; /* of all windows that ended */
    _Atomic uint64_t windows;
    _Atomic uint64_t since_ns, since_price_ns, since_windows; /* when the period began */
    _Atomic uint32_t load_ppm; /* in the last whole period, as the next */
    _Atomic uint32_t rate;     /* operations a second */
};

/* A communicator's, and its calling thread's. */
struct muster_sampling {
    unsigned level;
    uint64_t price_ns; /* of its launches so far */
    uint64_t calm_ns;  /* a denser level would have done since then; 0: it would not */
};

/* Before the first operation of a window. now_ns: of one clock for the whole process that may stand
 * still (a replay's). Returns the level from here on: a sparser one at once, the next denser one if
 * it would have done for ten seconds. */
unsigned muster_sampling_next(struct muster_sampling *level, struct muster_meter *meter,
                              uint64_t now_ns);

#endif
