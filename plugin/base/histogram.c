#include "base/histogram.h"

enum { SUB_SHIFT = 3 };
_Static_assert(1 << SUB_SHIFT == MUSTER_HIST_SUB, "buckets of an octave are a power of two");

unsigned muster_hist_bucket(uint64_t ns)
{
    if (ns >> MUSTER_HIST_MIN_SHIFT == 0)
        return 0;
    unsigned log2 = 63u - (unsigned)__builtin_clzll(ns);
    unsigned octave = log2 - MUSTER_HIST_MIN_SHIFT;
    if (octave >= MUSTER_HIST_OCTAVES)
        return MUSTER_HIST_BUCKETS - 1;
    unsigned sub = (unsigned)(ns >> (log2 - SUB_SHIFT)) & (MUSTER_HIST_SUB - 1);
    return octave * MUSTER_HIST_SUB + sub;
}

uint64_t muster_hist_lower(unsigned bucket)
{
    if (bucket > MUSTER_HIST_BUCKETS)
        bucket = MUSTER_HIST_BUCKETS;
    unsigned octave = bucket / MUSTER_HIST_SUB;
    uint64_t eighths = MUSTER_HIST_SUB + bucket % MUSTER_HIST_SUB;
    return eighths << (octave + MUSTER_HIST_MIN_SHIFT - SUB_SHIFT);
}

void muster_hist_merge(struct muster_hist *into, const struct muster_hist *from)
{
    for (unsigned i = 0; i < MUSTER_HIST_BUCKETS; i++) {
        uint32_t room = UINT32_MAX - into->n[i];
        into->n[i] += from->n[i] < room ? from->n[i] : room;
    }
}

uint64_t muster_hist_total(const struct muster_hist *hist)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < MUSTER_HIST_BUCKETS; i++)
        total += hist->n[i];
    return total;
}

double muster_hist_quantile_ns(const struct muster_hist *hist, double q)
{
    uint64_t total = muster_hist_total(hist);
    if (total == 0)
        return 0;
    if (!(q > 0))
        q = 0;
    if (q > 1)
        q = 1;
    double rank = q * (double)(total - 1);
    uint64_t before = 0;
    for (unsigned i = 0; i < MUSTER_HIST_BUCKETS; i++) {
        if (rank < (double)(before + hist->n[i])) {
            double lower = (double)muster_hist_lower(i);
            double width = (double)muster_hist_lower(i + 1) - lower;
            double at = (rank - (double)before + 0.5) / hist->n[i];
            return lower + width * (at < 1 ? at : 1);
        }
        before += hist->n[i];
    }
    return (double)muster_hist_lower(MUSTER_HIST_BUCKETS);
}
