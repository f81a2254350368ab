/* Random numbers by place: a function of what they are for, not of what was drawn before, so that
 * the same job with and without a fault draws the same. */
#ifndef MUSTER_BENCH_VERDICTS_CHANCE_H
#define MUSTER_BENCH_VERDICTS_CHANCE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static inline uint64_t chance_mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
    return x ^ x >> 32;
}

static inline uint64_t chance_at(uint64_t seed, uint64_t what, uint64_t who, uint64_t when)
{
    return chance_mix(seed + what * 0x9e3779b97f4a7c15ull + who * 0xc2b2ae3d27d4eb4full +
                      when * 0x165667b19e3779f9ull);
}

/* 0 to below 1. */
static inline double chance_unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/* Mean 0, deviation 1, at most 3.46 away: the sum of four even ones. */
static inline double chance_bell(uint64_t bits)
{
    uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    return ((double)sum - 2.0 * 65535) * (1.7320508075688772 / 65536);
}

/* A sequence, for drawing what a job is. */
struct chance {
    uint64_t state;
};

static inline double chance_next(struct chance *chance)
{
    return chance_unit(chance_mix(chance->state += 0x9e3779b97f4a7c15ull));
}

static inline unsigned chance_below(struct chance *chance, unsigned n)
{
    return (unsigned)(chance_next(chance) * n);
}

static inline bool chance_is(struct chance *chance, double share)
{
    return chance_next(chance) < share;
}

static inline double chance_range(struct chance *chance, double from, double to)
{
    return from + (to - from) * chance_next(chance);
}

/* Even over the logarithm. */
static inline double chance_log(struct chance *chance, double from, double to)
{
    return from * pow(to / from, chance_next(chance));
}

#endif
