/* Random numbers that are a function of a seed (splitmix64). */
#ifndef MUSTER_BENCH_ACCURACY_DRAW_H
#define MUSTER_BENCH_ACCURACY_DRAW_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

struct draw {
    uint64_t state;
};

static inline uint64_t draw_u64(struct draw *draw)
{
    uint64_t x = draw->state += 0x9e3779b97f4a7c15ull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static inline double draw_unit(struct draw *draw)
{
    return (double)(draw_u64(draw) >> 11) * 0x1p-53;
}

static inline unsigned draw_below(struct draw *draw, unsigned n)
{
    return (unsigned)(draw_unit(draw) * n);
}

static inline bool draw_chance(struct draw *draw, double chance)
{
    return draw_unit(draw) < chance;
}

/* Spread evenly over the logarithm. */
static inline double draw_log(struct draw *draw, double from, double to)
{
    return from * pow(to / from, draw_unit(draw));
}

#endif
