#include "record/graph_capture.h"

#include <pthread.h>

uintptr_t muster_capture_thread(void)
{
    return (uintptr_t)pthread_self();
}

static void replace(struct muster_capture *capture, uintptr_t from, uintptr_t to)
{
    for (unsigned i = 0; i < MUSTER_CAPTURING; i++) {
        uintptr_t expected = from;
        if (atomic_compare_exchange_strong_explicit(&capture->thread[i], &expected, to,
                                                    memory_order_relaxed, memory_order_relaxed))
            return;
    }
}

void muster_capture_begins(struct muster_capture *capture)
{
    atomic_store_explicit(&capture->ever, true, memory_order_relaxed);
    if (!muster_capture_is_on(capture))
        replace(capture, 0, muster_capture_thread());
}

void muster_capture_ends(struct muster_capture *capture)
{
    if (atomic_load_explicit(&capture->ever, memory_order_relaxed))
        replace(capture, muster_capture_thread(), 0);
}

bool muster_capture_is_on(const struct muster_capture *capture)
{
    uintptr_t self = muster_capture_thread();
    for (unsigned i = 0; i < MUSTER_CAPTURING; i++)
        if (atomic_load_explicit(&capture->thread[i], memory_order_relaxed) == self)
            return true;
    return false;
}
