#include "run/trim.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static char *page_at_or_after(char *at)
{
    return at + (page_bytes() - (uintptr_t)at % page_bytes()) % page_bytes();
}

/* What is given back reads as zeros again, so that nobody has to look into it. */
void muster_run_clear(void *from, size_t bytes)
{
    char *begin = from, *end = begin + bytes;
    char *first = page_at_or_after(begin), *last = end - (uintptr_t)end % page_bytes();
    if (first >= last || madvise(first, (size_t)(last - first), MADV_DONTNEED) != 0) {
        memset(begin, 0, bytes);
        return;
    }
    memset(begin, 0, (size_t)(first - begin));
    memset(last, 0, (size_t)(end - last));
}

static bool is_in_flight(const struct muster_segment *segment, unsigned slot)
{
    unsigned state = atomic_load_explicit(&segment->slot_state[slot], memory_order_relaxed) & 0xff;
    return state == MUSTER_SLOT_CALLED || state == MUSTER_SLOT_LAUNCHED;
}

static void clear_slots(struct muster_segment *segment)
{
    for (unsigned i = 0, end; i < MUSTER_SEG_SLOTS; i = end + 1) {
        for (end = i; end < MUSTER_SEG_SLOTS && !is_in_flight(segment, end); end++)
            atomic_store_explicit(&segment->slot_state[end], 0, memory_order_relaxed);
        muster_run_clear(&segment->slot[i], (end - i) * sizeof(segment->slot[i]));
    }
}

static bool is_zero(const char *page, size_t bytes)
{
    return page[0] == 0 && memcmp(page, page + 1, bytes - 1) == 0;
}

void muster_run_trim(struct muster_segment *segment)
{
    clear_slots(segment);
    muster_run_clear(segment->ring, sizeof(segment->ring));
    char *slots = (char *)segment->slot, *slots_end = slots + sizeof(segment->slot);
    char *end = (char *)(segment + 1), *page = page_at_or_after((char *)segment);
    for (size_t bytes = page_bytes(); page + bytes <= end; page += bytes) {
        bool looked_at = page >= slots && page + bytes <= slots_end;
        if (!looked_at && is_zero(page, bytes))
            muster_run_clear(page, bytes);
    }
}
