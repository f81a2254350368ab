#include "base/sort.h"

#include <stdlib.h>

static int by_u64(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

void muster_sort_u64(uint64_t *value, size_t n)
{
    if (n > 1)
        qsort(value, n, sizeof(*value), by_u64);
}

static int by_i64(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

void muster_sort_i64(int64_t *value, size_t n)
{
    if (n > 1)
        qsort(value, n, sizeof(*value), by_i64);
}

static int by_double(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

void muster_sort_double(double *value, size_t n)
{
    if (n > 1)
        qsort(value, n, sizeof(*value), by_double);
}

uint64_t muster_upper_median_u64(uint64_t *value, size_t n)
{
    muster_sort_u64(value, n);
    return n ? value[n / 2] : 0;
}
