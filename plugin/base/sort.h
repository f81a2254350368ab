/* Numbers in ascending order, in place. Pure; any thread. */
#ifndef MUSTER_BASE_SORT_H
#define MUSTER_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

void muster_sort_u64(uint64_t *value, size_t n);
void muster_sort_i64(int64_t *value, size_t n);
void muster_sort_double(double *value, size_t n);

/* Sorts, and gives the upper median; 0 of nothing. */
uint64_t muster_upper_median_u64(uint64_t *value, size_t n);

/* Something by a key. */
struct muster_keyed {
    uint64_t key;
    uint32_t value;
    uint8_t mark[4]; /* the caller's */
};

/* By key, those of one key in their order; linear where few ascending runs are mixed, as the
 * operations of a GPU's communicators are. `to` has room for n too; returns which of both holds
 * the result. */
struct muster_keyed *muster_sort_keyed(struct muster_keyed *from, struct muster_keyed *to,
                                       size_t n);

#endif
