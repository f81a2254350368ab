/* Time in nanoseconds. Both are vDSO calls, safe on NCCL's threads. */
#ifndef MUSTER_BASE_CLOCK_H
#define MUSTER_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define MUSTER_NS_PER_S  1000000000ull
#define MUSTER_NS_PER_MS 1000000ull
#define MUSTER_NS_PER_US 1000ull

static inline uint64_t muster_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * MUSTER_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* CLOCK_MONOTONIC: comparable between the processes of one boot, never across hosts. */
static inline uint64_t muster_now_ns(void)
{
    return muster_clock_ns(CLOCK_MONOTONIC);
}

/* CLOCK_REALTIME, since 1970. For people and for files of several hosts; it may step. */
static inline uint64_t muster_unix_ns(void)
{
    return muster_clock_ns(CLOCK_REALTIME);
}

/* The point of CLOCK_REALTIME `ns` from now, for the timed waits of pthreads. */
static inline struct timespec muster_realtime_in(uint64_t ns)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    ns += (uint64_t)at.tv_nsec;
    at.tv_sec += (time_t)(ns / MUSTER_NS_PER_S);
    at.tv_nsec = (long)(ns % MUSTER_NS_PER_S);
    return at;
}

#endif
