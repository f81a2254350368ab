#include "base/sort.h"

#include <stdbool.h>
#include <string.h>

/* Also where a double lies. */
typedef uint64_t __attribute__((may_alias)) word;

enum { FEW = 24 }; /* by insertion: any from 8 to 64 takes about as long */

static void swap(word *a, word *b)
{
    word was = *a;
    *a = *b;
    *b = was;
}

static void sort_few(word *value, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        word own = value[i];
        size_t at = i;
        for (; at > 0 && value[at - 1] > own; at--)
            value[at] = value[at - 1];
        value[at] = own;
    }
}

static void sort_few_signed(int64_t *value, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        int64_t own = value[i];
        size_t at = i;
        for (; at > 0 && value[at - 1] > own; at--)
            value[at] = value[at - 1];
        value[at] = own;
    }
}

static void sink(word *value, size_t at, size_t n)
{
    for (size_t below; (below = 2 * at + 1) < n; at = below) {
        if (below + 1 < n && value[below + 1] > value[below])
            below++;
        if (value[at] >= value[below])
            return;
        swap(&value[at], &value[below]);
    }
}

static void sort_heap(word *value, size_t n)
{
    for (size_t at = n / 2; at-- > 0;)
        sink(value, at, n);
    for (size_t end = n; end-- > 1;) {
        swap(&value[0], &value[end]);
        sink(value, 0, end);
    }
}

/* The median of first, middle and last goes to the middle; the first is then not more, the last not
 * less. */
static word choose_pivot(word *value, size_t n)
{
    word *middle = &value[n / 2], *last = &value[n - 1];
    if (*middle < value[0])
        swap(middle, &value[0]);
    if (*last < *middle)
        swap(last, middle);
    if (*middle < value[0])
        swap(middle, &value[0]);
    return *middle;
}

/* By halves; what is not done `levels` deep goes by a heap, which no order of values makes slow. */
static void sort_words(word *value, size_t n, unsigned levels)
{
    while (n > FEW) {
        if (levels-- == 0) {
            sort_heap(value, n);
            return;
        }
        word pivot = choose_pivot(value, n);
        size_t low = 0, high = n - 1;
        for (;;) {
            while (value[low] < pivot)
                low++;
            while (value[high] > pivot)
                high--;
            if (low >= high)
                break;
            swap(&value[low++], &value[high--]);
        }
        /* The smaller part now, the larger one in the next round. */
        size_t left = high + 1;
        if (left < n - left) {
            sort_words(value, left, levels);
            value += left;
            n -= left;
        } else {
            sort_words(value + left, n - left, levels);
            n = left;
        }
    }
    sort_few(value, n);
}

static unsigned levels_most(size_t n)
{
    return 2 * (unsigned)(64 - __builtin_clzll(n | 1));
}

void muster_sort_u64(uint64_t *value, size_t n)
{
    sort_words(value, n, levels_most(n));
}

#define SIGN (1ull << 63)

/* Numbers whose order is that of the values. */
static uint64_t word_of_i64(uint64_t bits)
{
    return bits ^ SIGN;
}

static uint64_t word_of_double(uint64_t bits)
{
    return bits & SIGN ? ~bits : bits | SIGN;
}

static uint64_t double_of_word(uint64_t own)
{
    return own & SIGN ? own & ~SIGN : ~own;
}

/* `value`: n numbers of 8 bytes. */
static void sort_as(void *value, size_t n, uint64_t (*to)(uint64_t), uint64_t (*from)(uint64_t))
{
    word *bits = value;
    for (size_t i = 0; i < n; i++)
        bits[i] = to(bits[i]);
    sort_words(bits, n, levels_most(n));
    for (size_t i = 0; i < n; i++)
        bits[i] = from(bits[i]);
}

void muster_sort_i64(int64_t *value, size_t n)
{
    if (n <= FEW) {
        sort_few_signed(value, n);
        return;
    }
    sort_as(value, n, word_of_i64, word_of_i64);
}

void muster_sort_double(double *value, size_t n)
{
    sort_as(value, n, word_of_double, double_of_word);
}

uint64_t muster_upper_median_u64(uint64_t *value, size_t n)
{
    muster_sort_u64(value, n);
    return n ? value[n / 2] : 0;
}

static void sort_few_keyed(struct muster_keyed *item, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct muster_keyed own = item[i];
        size_t at = i;
        for (; at > 0 && item[at - 1].key > own.key; at--)
            item[at] = item[at - 1];
        item[at] = own;
    }
}

/* [from, middle) and [middle, end), those of the first before their equals. */
static void merge(const struct muster_keyed *item, size_t from, size_t middle, size_t end,
                  struct muster_keyed *to)
{
    size_t i = from, j = middle;
    while (i < middle && j < end)
        if (item[i].key <= item[j].key)
            *to++ = item[i++];
        else
            *to++ = item[j++];
    memcpy(to, item + i, (middle - i) * sizeof *to);
    memcpy(to + (middle - i), item + j, (end - j) * sizeof *to);
}

/* Merges neighbours of ascending runs until one is left. */
struct muster_keyed *muster_sort_keyed(struct muster_keyed *from, struct muster_keyed *to, size_t n)
{
    if (n <= FEW) {
        sort_few_keyed(from, n);
        return from;
    }
    for (;;) {
        size_t runs = 0;
        for (size_t a = 0, b, end; a < n; a = end) {
            for (b = a + 1; b < n && from[b].key >= from[b - 1].key; b++) {
            }
            for (end = b < n ? b + 1 : n; end < n && from[end].key >= from[end - 1].key; end++) {
            }
            if (b == n && a == 0)
                return from;
            merge(from, a, b, end, to + a);
            runs++;
        }
        struct muster_keyed *swap = from;
        from = to;
        to = swap;
        if (runs <= 1)
            return from;
    }
}
