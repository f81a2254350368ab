#include "base/sort.h"

#include <stdbool.h>
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

/* Merges neighbours of ascending runs until one is left. */
struct muster_keyed *muster_sort_keyed(struct muster_keyed *from, struct muster_keyed *to,
                                       size_t n)
{
    for (;;) {
        size_t runs = 0;
        for (size_t a = 0, b, end; a < n; a = end) {
            for (b = a + 1; b < n && from[b].key >= from[b - 1].key; b++) {
            }
            for (end = b < n ? b + 1 : n; end < n && from[end].key >= from[end - 1].key; end++) {
            }
            if (b == n && a == 0) {
                return from;
            }
            size_t i = a, j = b;
            for (size_t k = a; k < end; k++) {
                bool left = i < b && (j == end || from[i].key <= from[j].key);
                to[k] = from[left ? i++ : j++];
            }
            runs++;
        }
        struct muster_keyed *swap = from;
        from = to;
        to = swap;
        if (runs <= 1) {
            return from;
        }
    }
}
