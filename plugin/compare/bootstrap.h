/*
 * Means with their uncertainty, from a run cut into blocks: what follows each other is alike, so
 * blocks are drawn, not single values. The draws are the same each time. Pure.
 */
#ifndef MUSTER_COMPARE_BOOTSTRAP_H
#define MUSTER_COMPARE_BOOTSTRAP_H

#include <stdbool.h>
#include <stdint.h>

enum {
    MUSTER_BLOCKS = 32,      /* of a run, in the order of time */
    MUSTER_BLOCKS_LEAST = 8, /* that must hold something for an interval */
    MUSTER_DRAWS = 2000,
};

struct muster_blocks {
    double sum[MUSTER_BLOCKS];
    uint64_t n[MUSTER_BLOCKS];
};

void muster_blocks_add(struct muster_blocks *blocks, unsigned block, double value);
/* NAN of nothing. */
double muster_blocks_mean(const struct muster_blocks *blocks);
uint64_t muster_blocks_count(const struct muster_blocks *blocks);
/* The mean of MUSTER_DRAWS draws of as many blocks as hold something; false: too few do. */
bool muster_blocks_draw(const struct muster_blocks *blocks, uint64_t seed, double *mean);

/* What changed: where the true value lies in 199 of 200 cases, as far as the runs' own ups and
 * downs show. */
struct muster_change {
    bool known;
    double value, low, high;
};

/* b / a - 1, or b - a, of draws. Sorts neither. */
void muster_change_of(double before, double after, const double *a, const double *b, bool relative,
                      struct muster_change *change);
/* Whether it is certainly not nothing and at least so much. */
bool muster_change_is(const struct muster_change *change, double least);

#endif
