#include "ticks.h"

#include <stdlib.h>

enum { CALIBRATE_MS = 50, READINGS = 5000, KEPT = 4900 };

double bench_tick_ns(void)
{
    uint64_t begin_ns = muster_now_ns(), begin = bench_ticks(), end_ns;
    do {
        end_ns = muster_now_ns();
    } while (end_ns - begin_ns < CALIBRATE_MS * MUSTER_NS_PER_MS);
    return (double)(end_ns - begin_ns) / (double)(bench_ticks() - begin);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void bench_tick_cost(struct bench_tick_cost *cost)
{
    static uint64_t reading[READINGS];
    uint32_t random = 1;
    cost->step = 0;
    for (unsigned i = 0; i < READINGS; i++) {
        bench_dither(&random);
        uint64_t begin = bench_ticks();
        reading[i] = bench_ticks() - begin;
        cost->step = common_divisor(reading[i], cost->step);
    }
    qsort(reading, READINGS, sizeof *reading, compare);
    double sum = 0;
    for (unsigned i = 0; i < KEPT; i++)
        sum += (double)reading[i];
    cost->ticks = sum / KEPT;
}
