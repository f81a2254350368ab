/*
 * Memory that is freed all at once, for code that runs after the job or beside it; in the job only
 * where a communicator is made, never in an event's callback. Failure sticks: what makes something
 * of many parts does not ask after each, but checks once at its end (muster_arena_check) and before
 * that never loops over an array that it did not get. One thread at a time.
 */
#ifndef MUSTER_BASE_ARENA_H
#define MUSTER_BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { MUSTER_ARENA_ELEMENT = 1024 }; /* bytes of the largest element that can be added */

/* To begin with: {0}. */
struct muster_arena {
    struct muster_arena_block *block;
    bool failed; /* some request since the beginning */
    _Alignas(max_align_t) unsigned char spare[MUSTER_ARENA_ELEMENT];
};

/* `n` elements of `size` bytes, all zero, aligned for any type. NULL: no memory. */
void *muster_arena_array(struct muster_arena *arena, size_t n, size_t size);

/* Adds a zeroed element of `size` bytes at place *n of an array that only this function has made or
 * enlarged (NULL at first), and counts it. `array`: address of the pointer. Never NULL: without
 * memory a spare element that belongs to no array comes back, and *n stays. Elements may move when
 * one is added. */
void *muster_arena_add(struct muster_arena *arena, void *array, size_t *n, size_t size);

/* For muster_arena_grow. */
bool muster_arena_grow_double(struct muster_arena *arena, void *array, size_t n, size_t size);

/* Makes room for place n of such an array, for who writes all of the element himself, and counts
 * it. False: no memory; the array is as before. */
static inline bool muster_arena_grow(struct muster_arena *arena, void *array, size_t n, size_t size)
{
    return (n & (n - 1)) || muster_arena_grow_double(arena, array, n, size);
}

/* A copy of a text, or a formatted one. Never NULL: "" without memory. */
const char *muster_arena_text(struct muster_arena *arena, const char *text);
__attribute__((format(printf, 2, 3))) const char *muster_arena_format(struct muster_arena *arena,
                                                                      const char *format, ...);
__attribute__((format(printf, 2, 0))) const char *
muster_arena_vformat(struct muster_arena *arena, const char *format, va_list values);

/* 0, or -1 and an error of want of memory for `what` if any request failed. */
int muster_arena_check(const struct muster_arena *arena, struct muster_err *err, const char *what);
/* Frees all; the arena is as new. */
void muster_arena_free(struct muster_arena *arena);
/* The same of what was needed on the way to something of `owner`, which has failed if `scratch`
 * did. */
void muster_arena_end(struct muster_arena *scratch, struct muster_arena *owner);

#endif
