#include "base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

enum {
    FIRST = 4 << 10,  /* bytes shared by what is small: of the first such block */
    BLOCK = 64 << 10, /* and at most */
    OWN = 16 << 10,   /* from here on a request has a block of its own, which can grow in place */
};

struct muster_arena_block {
    struct muster_arena_block *next, *previous;
    size_t used, size;
    max_align_t bytes[];
};

static void *failed(struct muster_arena *arena)
{
    arena->failed = true;
    return NULL;
}

/* Shared blocks stand first in the list, so that the next request finds the newest of them. */
static void link_block(struct muster_arena *arena, struct muster_arena_block *block, bool shared)
{
    struct muster_arena_block *before = shared ? NULL : arena->block;
    block->previous = before;
    block->next = before ? before->next : arena->block;
    if (block->next)
        block->next->previous = block;
    if (before)
        before->next = block;
    else
        arena->block = block;
}

static struct muster_arena_block *new_block(struct muster_arena *arena, size_t size, bool shared)
{
    struct muster_arena_block *block = NULL;
    if (size <= SIZE_MAX / 2)
        block = calloc(1, muster_pages_whole(sizeof(*block) + size));
    if (!block)
        return failed(arena);
    muster_pages_ask_big(block, sizeof(*block) + size);
    block->size = size;
    link_block(arena, block, shared);
    return block;
}

/* Of the next block that is shared, with room for a request: arenas of little are many. */
static size_t shared_bytes(const struct muster_arena *arena, size_t request)
{
    size_t size = arena->block ? 4 * arena->block->size : FIRST;
    while (size < request)
        size *= 4;
    return size < BLOCK ? size : BLOCK;
}

static void *get(struct muster_arena *arena, size_t bytes)
{
    if (bytes >= OWN) {
        struct muster_arena_block *own = new_block(arena, bytes, false);
        if (!own)
            return NULL;
        own->used = bytes;
        return own->bytes;
    }
    size_t rounded = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct muster_arena_block *block = arena->block;
    if (!block || block->size - block->used < rounded)
        block = new_block(arena, shared_bytes(arena, rounded), true);
    if (!block)
        return NULL;
    void *at = (unsigned char *)block->bytes + block->used;
    block->used += rounded;
    return at;
}

void *muster_arena_array(struct muster_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? failed(arena) : get(arena, bytes);
}

/* An array of `bytes` bytes at `old` with room for as much again, which may be anything. */
static void *enlarge(struct muster_arena *arena, void *old, size_t bytes)
{
    if (bytes < OWN) {
        void *bigger = muster_arena_array(arena, 2, bytes);
        return bigger ? memcpy(bigger, old, bytes) : NULL;
    }
    struct muster_arena_block *own =
        (void *)((unsigned char *)old - offsetof(struct muster_arena_block, bytes));
    struct muster_arena_block *bigger =
        bytes <= SIZE_MAX / 4 ? realloc(own, muster_pages_whole(sizeof(*own) + 2 * bytes)) : NULL;
    if (!bigger)
        return failed(arena);
    muster_pages_ask_big(bigger, sizeof(*bigger) + 2 * bytes);
    bigger->used = bigger->size = 2 * bytes;
    if (bigger->next)
        bigger->next->previous = bigger;
    if (bigger->previous)
        bigger->previous->next = bigger;
    else
        arena->block = bigger;
    return bigger->bytes;
}

bool muster_arena_grow_double(struct muster_arena *arena, void *array, size_t n, size_t size)
{
    void *at;
    memcpy(&at, array, sizeof(at));
    at = n ? enlarge(arena, at, n * size) : get(arena, size);
    if (at)
        memcpy(array, &at, sizeof(at));
    return at;
}

void *muster_arena_add(struct muster_arena *arena, void *array, size_t *n, size_t size)
{
    assert(size <= MUSTER_ARENA_ELEMENT);
    unsigned char *at;
    if (!muster_arena_grow(arena, array, *n, size))
        return memset(arena->spare, 0, size);
    memcpy(&at, array, sizeof(at));
    return memset(at + (*n)++ * size, 0, size);
}

const char *muster_arena_text(struct muster_arena *arena, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = get(arena, bytes);
    return copy ? memcpy(copy, text, bytes) : "";
}

const char *muster_arena_format(struct muster_arena *arena, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    const char *text = muster_arena_vformat(arena, format, values);
    va_end(values);
    return text;
}

const char *muster_arena_vformat(struct muster_arena *arena, const char *format, va_list values)
{
    va_list again;
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length < 0 ? failed(arena) : get(arena, (size_t)length + 1);
    if (!text)
        return "";
    vsnprintf(text, (size_t)length + 1, format, values);
    return text;
}

int muster_arena_check(const struct muster_arena *arena, struct muster_err *err, const char *what)
{
    return arena->failed ? muster_fail_memory(err, what) : 0;
}

void muster_arena_free(struct muster_arena *arena)
{
    for (struct muster_arena_block *block = arena->block, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    arena->block = NULL;
    arena->failed = false;
}

void muster_arena_end(struct muster_arena *scratch, struct muster_arena *owner)
{
    owner->failed |= scratch->failed;
    muster_arena_free(scratch);
}
