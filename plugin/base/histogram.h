/*
 * A fixed histogram of durations without pointers, so that it can live in a shared segment.
 * Eight buckets an octave from 64 ns to 64 ns << 28 (17 s): a quantile is off by at most 1/8 of
 * its value, where values are spread over their bucket by much less. Values below and above count
 * in the first and last bucket. One writer; no locking.
 */
#ifndef MUSTER_BASE_HISTOGRAM_H
#define MUSTER_BASE_HISTOGRAM_H

#include <stdint.h>

enum {
    MUSTER_HIST_MIN_SHIFT = 6,
    MUSTER_HIST_SUB = 8,
    MUSTER_HIST_OCTAVES = 28,
    MUSTER_HIST_BUCKETS = MUSTER_HIST_SUB * MUSTER_HIST_OCTAVES,
};

struct muster_hist {
    uint32_t n[MUSTER_HIST_BUCKETS];
};

unsigned muster_hist_bucket(uint64_t ns);
/* Lower bound of a bucket in ns; MUSTER_HIST_BUCKETS gives the end of the range. */
uint64_t muster_hist_lower(unsigned bucket);
/* Counts stay at UINT32_MAX rather than wrap. */
void muster_hist_merge(struct muster_hist *into, const struct muster_hist *from);
uint64_t muster_hist_total(const struct muster_hist *hist);
/* Quantile q in [0, 1], interpolated inside its bucket; 0 where the histogram is empty. */
double muster_hist_quantile_ns(const struct muster_hist *hist, double q);

#endif
