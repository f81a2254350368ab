/* The allocating functions of the C library, failing by plan. */
#include "shim.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void *malloc(size_t size);
EXPORT void *calloc(size_t n, size_t size);
EXPORT void *realloc(void *old, size_t size);
EXPORT void *aligned_alloc(size_t alignment, size_t size);

/* glibc's own, which need no lookup: a lookup allocates. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static bool refused(const char *call)
{
    int error;
    if (!fault_now(FAULT_MEMORY, call, &error))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return refused("malloc") ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return refused("calloc") ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return refused("realloc") ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return refused("aligned_alloc") ? NULL : __libc_memalign(alignment, size);
}
