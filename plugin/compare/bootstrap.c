#include "compare/bootstrap.h"

#include <math.h>

#include "base/sort.h"

enum { TAIL = MUSTER_DRAWS / 400 }; /* draws beyond each end of an interval */

void muster_blocks_add(struct muster_blocks *blocks, unsigned block, double value)
{
    blocks->sum[block % MUSTER_BLOCKS] += value;
    blocks->n[block % MUSTER_BLOCKS]++;
}

uint64_t muster_blocks_count(const struct muster_blocks *blocks)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < MUSTER_BLOCKS; i++)
        n += blocks->n[i];
    return n;
}

double muster_blocks_mean(const struct muster_blocks *blocks)
{
    double sum = 0;
    for (unsigned i = 0; i < MUSTER_BLOCKS; i++)
        sum += blocks->sum[i];
    uint64_t n = muster_blocks_count(blocks);
    return n ? sum / (double)n : NAN;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

bool muster_blocks_draw(const struct muster_blocks *blocks, uint64_t seed, double *mean)
{
    unsigned filled[MUSTER_BLOCKS], n = 0;
    uint64_t state = seed * 2 + 1;
    for (unsigned i = 0; i < MUSTER_BLOCKS; i++)
        if (blocks->n[i])
            filled[n++] = i;
    if (n < MUSTER_BLOCKS_LEAST)
        return false;
    /* A division takes longest of all here, and mostly all blocks hold something. */
    bool all = n == MUSTER_BLOCKS;
    for (unsigned d = 0; d < MUSTER_DRAWS; d++) {
        double sum = 0;
        uint64_t count = 0;
        for (unsigned i = 0; i < n; i++) {
            uint64_t random = next_random(&state);
            unsigned block = filled[all ? random % MUSTER_BLOCKS : random % n];
            sum += blocks->sum[block];
            count += blocks->n[block];
        }
        mean[d] = sum / (double)count;
    }
    return true;
}

void muster_change_of(double before, double after, const double *a, const double *b, bool relative,
                      struct muster_change *change)
{
    double drawn[MUSTER_DRAWS];
    for (unsigned d = 0; d < MUSTER_DRAWS; d++)
        drawn[d] = relative ? b[d] / a[d] - 1 : b[d] - a[d];
    muster_sort_double(drawn, MUSTER_DRAWS);
    change->value = relative ? after / before - 1 : after - before;
    change->low = drawn[TAIL];
    change->high = drawn[MUSTER_DRAWS - 1 - TAIL];
    change->known = isfinite(change->low) && isfinite(change->high) && isfinite(change->value);
}

bool muster_change_is(const struct muster_change *change, double least)
{
    return change->known && fabs(change->value) >= least && (change->low > 0 || change->high < 0);
}
