/* The mean of times in logs, so that a pause counts for little. Zero to begin with. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_PACE_H
#define MUSTER_DIAGNOSE_STRAGGLER_PACE_H

#include <math.h>
#include <stdint.h>

struct muster_pace {
    double sum;
    uint32_t n;
};

/* Less than nothing counts as nothing. */
static inline void muster_pace_add(struct muster_pace *pace, int64_t ns)
{
    pace->sum += log1p(ns > 0 ? (double)ns : 0);
    pace->n++;
}

/* Of one time at least. */
static inline double muster_pace_ns(const struct muster_pace *pace)
{
    return expm1(pace->sum / pace->n);
}

#endif
