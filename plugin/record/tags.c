#include "record/tags.h"

/* Places that are looked at for a tag: who gives each call a tag of its own pays for so many. */
enum { LOOKS = 8, NAMED = MUSTER_SEG_TAGS - 1 };

/* Its entry, which is its own for good once it has it; NAMED: there is no room. */
static unsigned entry_of(struct muster_segment *segment, uint64_t tag)
{
    unsigned first = (unsigned)(tag * 0x9e3779b97f4a7c15ull >> 32) % NAMED;
    for (unsigned look = 0; look < LOOKS; look++) {
        unsigned i = (first + look) % NAMED;
        uint64_t there = atomic_load_explicit(&segment->tag[i].tag, memory_order_relaxed);
        /* Relaxed: the word alone is what readers and other threads go by. */
        if (there == 0 &&
            atomic_compare_exchange_strong_explicit(&segment->tag[i].tag, &there, tag,
                                                    memory_order_relaxed, memory_order_relaxed))
            return i;
        if (there == tag)
            return i;
    }
    return NAMED;
}

unsigned muster_tags_count(struct muster_segment *segment, uint64_t tag, uint64_t bytes)
{
    if (tag == 0)
        return 0;
    unsigned i = entry_of(segment, tag);
    atomic_fetch_add_explicit(&segment->tag[i].count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&segment->tag[i].bytes, bytes, memory_order_relaxed);
    return i + 1;
}
