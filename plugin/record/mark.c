#include "record/mark.h"

#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

enum { FREE, FILLING, RECORDED };
enum { EVENT_DISABLE_TIMING = 2, NOT_READY = 600, CAPTURE_MODE_RELAXED = 2, NOT_CAPTURING = 0 };
#define POLL_NS (10 * MUSTER_NS_PER_MS)

static bool make_events(const struct muster_marks *marks, struct muster_mark_context *entry)
{
    for (unsigned i = 0; i < MUSTER_MARKS; i++) {
        if (!entry->mark[i].event &&
            marks->cuda.event_create(&entry->mark[i].event, EVENT_DISABLE_TIMING) != 0)
            return false;
    }
    return true;
}

struct muster_mark_context *muster_marks_context(struct muster_marks *marks)
{
    void *context = NULL;
    if (!marks->possible || marks->cuda.ctx_get_current(&context) != 0 || !context)
        return NULL;
    for (unsigned i = 0; i < MUSTER_MARK_CONTEXTS; i++) {
        struct muster_mark_context *entry = &marks->context[i];
        void *its = atomic_load_explicit(&entry->context, memory_order_relaxed);
        if (its == context)
            return entry;
        if (its)
            continue;
        if (!make_events(marks, entry))
            return NULL;
        /* Release: pairs with the acquire in muster_marks_poll; the events are there before. */
        atomic_store_explicit(&entry->context, context, memory_order_release);
        return entry;
    }
    return NULL;
}

/* One thread of the process at a time, and not too often. */
static bool take_turn(struct muster_marks *marks, uint64_t now)
{
    uint64_t last = atomic_load_explicit(&marks->last_ns, memory_order_relaxed);
    return now >= last + MUSTER_MARK_INTERVAL_NS &&
           atomic_compare_exchange_strong_explicit(&marks->last_ns, &last, now,
                                                   memory_order_relaxed, memory_order_relaxed);
}

static struct muster_mark *take_free(struct muster_mark_context *context)
{
    for (unsigned i = 0; i < MUSTER_MARKS; i++) {
        uint32_t state = FREE;
        /* Acquire: pairs with the release in look that freed it. */
        if (atomic_compare_exchange_strong_explicit(&context->mark[i].state, &state, FILLING,
                                                    memory_order_acquire, memory_order_relaxed))
            return &context->mark[i];
    }
    return NULL;
}

void muster_mark_launch(struct muster_marks *marks, struct muster_comm *comm, void *stream,
                        uint64_t launch, uint64_t now_ns)
{
    int capture;
    if (!comm->marks || atomic_load_explicit(&marks->stopped, memory_order_relaxed) ||
        !take_turn(marks, now_ns))
        return;
    /* On a stream that is being captured an event would become part of the graph; asking about
     * the legacy stream during a capture is an error that changes nothing. */
    if (marks->cuda.stream_is_capturing(stream, &capture) != 0 || capture != NOT_CAPTURING)
        return;
    struct muster_mark *mark = take_free(comm->marks);
    if (!mark)
        return;
    mark->comm = comm;
    mark->generation = atomic_load_explicit(&comm->generation, memory_order_relaxed);
    mark->launch = launch;
    bool recorded = marks->cuda.event_record(mark->event, stream) == 0;
    if (recorded)
        atomic_store_explicit(&comm->calls->launches_marked, launch, memory_order_relaxed);
    /* Release: pairs with the acquire in look. */
    atomic_store_explicit(&mark->state, recorded ? RECORDED : FREE, memory_order_release);
}

static void advance(const struct muster_mark *mark)
{
    struct muster_comm *comm = mark->comm;
    if (atomic_load_explicit(&comm->generation, memory_order_relaxed) != mark->generation)
        return; /* another communicator took the place, or its entry in the segment */
    struct muster_seg_comm *entry = comm->calls;
    if (mark->launch > atomic_load_explicit(&entry->launches_ended, memory_order_relaxed)) {
        atomic_store_explicit(&entry->ended_ns, muster_now_ns(), memory_order_relaxed);
        atomic_store_explicit(&entry->launches_ended, mark->launch, memory_order_release);
    }
}

static void look(struct muster_marks *marks, struct muster_mark *mark)
{
    if (atomic_load_explicit(&mark->state, memory_order_acquire) != RECORDED)
        return;
    int result = marks->cuda.event_query(mark->event);
    if (result == NOT_READY)
        return;
    if (result == 0)
        advance(mark);
    else /* the context is gone, or broken for good */
        atomic_store_explicit(&marks->stopped, true, memory_order_relaxed);
    atomic_store_explicit(&mark->state, FREE, memory_order_release);
}

void muster_marks_poll(struct muster_marks *marks)
{
    for (unsigned c = 0; c < MUSTER_MARK_CONTEXTS; c++) {
        struct muster_mark_context *entry = &marks->context[c];
        void *context = atomic_load_explicit(&entry->context, memory_order_acquire);
        if (!context)
            return;
        if (marks->cuda.ctx_set_current(context) != 0)
            continue;
        for (unsigned i = 0; i < MUSTER_MARKS; i++) {
            if (atomic_load_explicit(&marks->stopped, memory_order_relaxed))
                return;
            look(marks, &entry->mark[i]);
        }
    }
}

static void *marks_main(void *arg)
{
    struct muster_marks *marks = arg;
    /* In the default mode a query from this thread would invalidate any other thread's capture. */
    int mode = CAPTURE_MODE_RELAXED;
    if (marks->cuda.exchange_capture_mode(&mode) != 0)
        atomic_store_explicit(&marks->stopped, true, memory_order_relaxed);
    while (!atomic_load_explicit(&marks->stopped, memory_order_relaxed)) {
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        muster_marks_poll(marks);
    }
    return NULL;
}

int muster_marks_start(struct muster_marks *marks)
{
    return muster_thread_start("muster-mark", marks_main, marks);
}
