#include "report/samples.h"

#include <math.h>

void muster_samples_add(struct muster_samples *samples, uint32_t owner, uint64_t ns,
                        struct muster_arena *memory)
{
    struct muster_sample *sample =
        muster_arena_add(memory, &samples->at, &samples->n, sizeof *sample);
    *sample = (struct muster_sample){.owner = owner, .ns = ns};
}

struct muster_sample_groups muster_samples_group(const struct muster_samples *samples,
                                                 size_t owners, struct muster_arena *memory)
{
    size_t *first = muster_arena_array(memory, owners + 2, sizeof *first);
    uint64_t *value = muster_arena_array(memory, samples->n + 1, sizeof *value);
    if (!first || !value)
        return (struct muster_sample_groups){0};
    /* counted one place further on, so that filling leaves first[o] where owner o begins */
    for (size_t i = 0; i < samples->n; i++)
        if (samples->at[i].owner < owners)
            first[samples->at[i].owner + 2]++;
    for (size_t o = 2; o < owners + 2; o++)
        first[o] += first[o - 1];
    for (size_t i = 0; i < samples->n; i++)
        if (samples->at[i].owner < owners)
            value[first[samples->at[i].owner + 1]++] = samples->at[i].ns;
    return (struct muster_sample_groups){.value = value, .first = first};
}

uint64_t muster_quantile_exact(const uint64_t *value, size_t n, double q)
{
    size_t rank = (size_t)ceil(q * (double)n);
    size_t left = rank ? rank - 1 : 0; /* values below the one sought, among those considered */
    uint64_t found = 0;
    uint64_t known = 0; /* mask of the bytes found so far, from the highest that any value has */
    uint64_t any = 0;
    left = left < n ? left : n - 1;
    for (size_t i = 0; i < n; i++)
        any |= value[i];
    for (int shift = (63 - __builtin_clzll(any | 1)) / 8 * 8; shift >= 0; shift -= 8) {
        size_t with[256] = {0};
        unsigned byte = 0;
        for (size_t i = 0; i < n; i++)
            if ((value[i] & known) == found)
                with[value[i] >> shift & 0xff]++;
        for (; left >= with[byte]; byte++)
            left -= with[byte];
        found |= (uint64_t)byte << shift;
        known |= (uint64_t)0xff << shift;
    }
    return found;
}
