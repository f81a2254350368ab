/* The finest clock of the machine, read so that no work moves across the reading. */
#ifndef MUSTER_BENCH_TICKS_H
#define MUSTER_BENCH_TICKS_H

#include <stdint.h>

#include "base/clock.h"

static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
    return ticks;
#else
    return muster_now_ns();
#endif
}

/* Nanoseconds a tick takes, measured against CLOCK_MONOTONIC over 50 ms. */
double bench_tick_ns(void);

struct bench_tick_cost {
    double ticks; /* between two readings with nothing in between: mean, the slowest 2 % left out */
    uint64_t step; /* the clock's: every difference is a multiple of it */
};
void bench_tick_cost(struct bench_tick_cost *cost);

/* Wastes 0 to 63 cycles, another number each time, so that a coarse clock is met at every phase
 * and means over many readings are finer than its step. */
static inline void bench_dither(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    for (uint32_t i = *random >> 26; i; i--)
        __asm__ volatile("");
}

#endif
