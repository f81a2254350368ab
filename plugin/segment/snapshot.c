#include "segment/snapshot.h"

#include <stdatomic.h>

#include "segment/seqlock.h"

enum { TRIES = 100 };

/* The race is meant, and evaluated afterwards by seq or slot state: thread sanitizers cannot know.
 */
__attribute__((noinline, no_sanitize("thread"))) void muster_snapshot(void *to, const void *from,
                                                                      size_t bytes)
{
    const volatile uint64_t *in = from;
    uint64_t *out = to;
    for (size_t i = 0; i < bytes / sizeof(*in); i++)
        out[i] = in[i];
}

bool muster_snapshot_entry(void *to, const void *from, size_t bytes)
{
    const uint32_t *seq = from;
    for (int i = 0; i < TRIES; i++) {
        /* Acquire: with the release in muster_seg_write_end. */
        uint32_t before = __atomic_load_n(seq, __ATOMIC_ACQUIRE);
        muster_snapshot(to, from, bytes);
        /* With the release fence in muster_seg_write_begin. */
        atomic_thread_fence(memory_order_acquire);
        if (muster_seg_stable(before, __atomic_load_n(seq, __ATOMIC_RELAXED)))
            return true;
    }
    return false;
}
