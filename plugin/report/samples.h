/* Durations by owner, for exact quantiles of each owner's. */
#ifndef MUSTER_REPORT_SAMPLES_H
#define MUSTER_REPORT_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

struct muster_sample {
    uint32_t owner;
    uint64_t ns;
};

struct muster_samples {
    struct muster_sample *at;
    size_t n;
};

/* `memory` is always the same for the same samples, as they move when they grow. */
void muster_samples_add(struct muster_samples *samples, uint32_t owner, uint64_t ns,
                        struct muster_arena *memory);

/* The samples of owner o, unordered, are value[first[o]] to value[first[o + 1] - 1]. */
struct muster_sample_groups {
    uint64_t *value;
    size_t *first; /* owners + 1 entries */
};

/* What belongs to owners below `owners`. Both are NULL without memory. */
struct muster_sample_groups muster_samples_group(const struct muster_samples *samples,
                                                 size_t owners, struct muster_arena *memory);

/* Quantile q in (0, 1] by nearest rank: the ceil(q * n)-th smallest of n >= 1 values. Linear in
 * n, whatever their order. */
uint64_t muster_quantile_exact(const uint64_t *value, size_t n, double q);

#endif
