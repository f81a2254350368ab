/*
 * Memory of the size of a segment, used again: a fresh megabyte is 256 page faults, which were most
 * of what an input cost. What is given back is poisoned until it is given out again, so that its
 * use is seen as ever; what is never given back is seen when all blocks are out. Pages of it do not
 * go back to the kernel either: whoever wants that is refused, and writes zeros.
 *
 * Linked with --wrap=aligned_alloc, --wrap=free and --wrap=madvise.
 */
#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stdlib.h>

#include "segment/layout.h"

enum { BLOCKS = 16 };

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *at);
void __wrap_free(void *at);
int __wrap_madvise(void *at, size_t bytes, int advice);

static void *block[BLOCKS];
static bool out[BLOCKS];

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    if (bytes != sizeof(struct muster_segment))
        return __real_aligned_alloc(alignment, bytes);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (out[i])
            continue;
        if (!block[i] && !(block[i] = __real_aligned_alloc(alignment, bytes)))
            return NULL;
        ASAN_UNPOISON_MEMORY_REGION(block[i], bytes);
        out[i] = true;
        return block[i];
    }
    abort();
}

void __wrap_free(void *at)
{
    for (unsigned i = 0; at && i < BLOCKS; i++) {
        if (at != block[i])
            continue;
        if (!out[i])
            abort(); /* freed twice */
        ASAN_POISON_MEMORY_REGION(at, sizeof(struct muster_segment));
        out[i] = false;
        return;
    }
    __real_free(at);
}

int __wrap_madvise(void *at, size_t bytes, int advice)
{
    (void)at;
    (void)bytes;
    (void)advice;
    return -1;
}
