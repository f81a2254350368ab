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

#endif
