/* Growing arrays. For readers. */
#ifndef MUSTER_BASE_ARRAY_H
#define MUSTER_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* For muster_grow. */
bool muster_grow_double(void *array, size_t n, size_t size);

/* Makes room for element n of an array of elements of `size` bytes: doubles it at every power of
 * two, so an array may only grow by one element at a time. `array`: address of the pointer. False:
 * no memory; the array is as before. */
static inline bool muster_grow(void *array, size_t n, size_t size)
{
    return (n & (n - 1)) || muster_grow_double(array, n, size);
}

/* Makes room for `needed` elements in an array that has room for *room: at least twice as many as
 * before. False: no memory; the array is as before. */
bool muster_reserve(void *array, size_t *room, size_t needed, size_t size);

#endif
