#include "run/trim.h"

#include <stdbool.h>

#include "base/pages.h"

static bool is_in_flight(const struct muster_segment *segment, unsigned slot)
{
    unsigned state = atomic_load_explicit(&segment->slot_state[slot], memory_order_relaxed) & 0xff;
    return state == MUSTER_SLOT_CALLED || state == MUSTER_SLOT_LAUNCHED;
}

/* Written only where there is something: what was never written stays a hole. */
static void forget(_Atomic uint32_t *state)
{
    if (atomic_load_explicit(state, memory_order_relaxed) != 0)
        atomic_store_explicit(state, 0, memory_order_relaxed);
}

static void clear_slots(struct muster_segment *segment)
{
    for (unsigned i = 0, end; i < MUSTER_SEG_SLOTS; i = end + 1) {
        for (end = i; end < MUSTER_SEG_SLOTS && !is_in_flight(segment, end); end++)
            forget(&segment->slot_state[end]);
        muster_pages_clear(&segment->slot[i], (end - i) * sizeof(segment->slot[i]));
    }
}

void muster_run_trim(struct muster_segment *segment)
{
    clear_slots(segment);
    muster_pages_clear(segment->ring, sizeof(segment->ring));
    muster_pages_trim(segment, sizeof(*segment));
}
