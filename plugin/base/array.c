#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

bool muster_grow_double(void *array, size_t n, size_t size)
{
    void *old;
    memcpy(&old, array, sizeof(old));
    size_t bytes;
    if (__builtin_mul_overflow(n ? 2 * n : 1, size, &bytes))
        return false;
    void *bigger = realloc(old, muster_pages_whole(bytes));
    if (!bigger)
        return false;
    muster_pages_ask_big(bigger, bytes);
    memcpy(array, &bigger, sizeof(bigger));
    return true;
}

bool muster_reserve(void *array, size_t *room, size_t needed, size_t size)
{
    if (needed <= *room)
        return true;
    void *old;
    memcpy(&old, array, sizeof(old));
    size_t more = *room <= SIZE_MAX / 2 && 2 * *room > needed ? 2 * *room : needed;
    void *bigger = reallocarray(old, more, size);
    if (!bigger)
        return false;
    memcpy(array, &bigger, sizeof(bigger));
    *room = more;
    return true;
}
