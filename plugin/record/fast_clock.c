#include "record/fast_clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum {
    TRIES = 4,
    CLOSE_TICKS = 1000, /* a pair further apart was interrupted, or the clock asks the kernel */
};
#define APART_NS    (4 * MUSTER_NS_PER_MS)  /* the least between two pairs that give a rate */
#define GOOD_FOR_NS (20 * MUSTER_NS_PER_MS) /* how long a rate is trusted */

void muster_fast_clock_init(struct muster_fast_clock *clock, muster_replay_clock *replay)
{
    clock->replay = replay;
#if defined(__x86_64__)
    char source[8] = "";
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, source, sizeof source - 1) : -1;
    if (fd >= 0)
        close(fd);
    clock->possible = !replay && n >= 3 && strncmp(source, "tsc\n", 4) == 0;
#else
    clock->possible = false;
#endif
}

/* Not inline: what calls it seldom would keep room on its stack always. */
uint64_t muster_exact_now_ns(const struct muster_fast_clock *clock)
{
    uint64_t replay = clock->replay ? clock->replay() : 0;
    return replay ? replay : muster_now_ns();
}

/* The closest of some pairs; their distance in ticks. */
static uint64_t read_pair(uint64_t *ticks, uint64_t *ns)
{
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = muster_fast_clock_ticks();
        uint64_t now = muster_now_ns();
        uint64_t apart = muster_fast_clock_ticks() - before;
        if (apart < closest) {
            closest = apart;
            *ticks = before + apart / 2;
            *ns = now;
        }
    }
    return closest;
}

static void write_tie(struct muster_fast_clock *clock, uint64_t ticks, uint64_t ns, uint64_t rate)
{
    uint32_t seq = atomic_load_explicit(&clock->seq, memory_order_relaxed);
    atomic_store_explicit(&clock->seq, seq + 1, memory_order_relaxed);
    /* Release: whoever sees one of these sees that seq is odd. */
    atomic_store_explicit(&clock->ticks, ticks, memory_order_release);
    atomic_store_explicit(&clock->ns, ns, memory_order_release);
    atomic_store_explicit(&clock->ns_per_tick, rate, memory_order_release);
    atomic_store_explicit(&clock->good_for, ((uint64_t)GOOD_FOR_NS << 32) / rate,
                          memory_order_release);
    atomic_store_explicit(&clock->seq, seq + 2, memory_order_release);
}

void muster_fast_clock_tie(struct muster_fast_clock *clock)
{
    uint64_t ticks, ns;
    if (!clock->possible)
        return;
    if (read_pair(&ticks, &ns) > CLOSE_TICKS)
        return;
    uint64_t ticks_passed = ticks - clock->last_ticks, ns_passed = ns - clock->last_ns;
    bool first = clock->last_ns == 0;
    if (!first && ns_passed < APART_NS)
        return;
    clock->last_ticks = ticks;
    clock->last_ns = ns;
    /* After a long sleep this pair is the first of the next rate. */
    if (first || ns_passed > MUSTER_NS_PER_S || ticks_passed == 0)
        return;
    uint64_t rate = (ns_passed << 32) / ticks_passed;
    /* Between 1 and 16 GHz, so that 20 ms times the rate fit; else the counter is not what it
     * seems. */
    if (rate >> 32 == 0 && rate >> 28 != 0)
        write_tie(clock, ticks, ns, rate);
}
