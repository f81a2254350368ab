#include "record/sampling.h"

#include "base/clock.h"

#define PERIOD_NS MUSTER_NS_PER_S
/* A period that is paid for four times over ends at once: some 2,000 operations of a loop of
 * nothing else. Less, and the burst at the end of a training step looked like such a loop. */
#define BURST_NS (20 * MUSTER_NS_PER_MS)
#define CALM_NS  (10 * MUSTER_NS_PER_S)

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* A level halves the one above it: of each two windows that are left, one at random. So no period
 * of a training step meets the timed windows always or never. */
static bool is_left(uint64_t id, uint64_t window, unsigned k)
{
    uint64_t pair = window >> (k + 1);
    uint64_t draw = mix(id + pair * 0x9e3779b97f4a7c15ull + ((uint64_t)k << 56));
    return (window >> k & 1) == (draw >> 32 & 1);
}

bool muster_sampling_takes(uint64_t id, uint64_t window, unsigned level)
{
    for (unsigned k = 0; k < level; k++)
        if (!is_left(id, window, k))
            return false;
    return true;
}

uint32_t muster_sampling_place(uint64_t id, uint64_t window, unsigned bits)
{
    uint32_t place = 0;
    for (unsigned k = 0; k < bits; k++)
        place |= (uint32_t)!is_left(id, window, k) << (31 - k);
    return place;
}

static uint32_t share_ppm(uint64_t price_ns, uint64_t time_ns)
{
    uint64_t ppm = time_ns ? price_ns * 1000000 / time_ns : 0;
    return ppm < UINT32_MAX ? (uint32_t)ppm : UINT32_MAX;
}

/* Relaxed throughout: threads that meet here may count a period twice or a window late, which moves
 * an estimate. */
static uint32_t measure(struct muster_meter *meter, uint64_t price_ns, uint64_t now_ns)
{
    uint64_t total =
        atomic_fetch_add_explicit(&meter->price_ns, price_ns, memory_order_relaxed) + price_ns;
    uint64_t windows = atomic_fetch_add_explicit(&meter->windows, 1, memory_order_relaxed) + 1;
    uint64_t begin = atomic_load_explicit(&meter->since_ns, memory_order_relaxed);
    uint64_t paid = total - atomic_load_explicit(&meter->since_price_ns, memory_order_relaxed);
    uint64_t took = now_ns > begin ? now_ns - begin : 0;
    bool over = took >= PERIOD_NS || (paid >= BURST_NS && took > 0);
    if (over && atomic_compare_exchange_strong_explicit(
                    &meter->since_ns, &begin, now_ns, memory_order_relaxed, memory_order_relaxed)) {
        uint64_t n = windows -
                     atomic_exchange_explicit(&meter->since_windows, windows, memory_order_relaxed);
        atomic_store_explicit(&meter->since_price_ns, total, memory_order_relaxed);
        if (begin) {
            atomic_store_explicit(&meter->load_ppm, share_ppm(paid, took), memory_order_relaxed);
            atomic_store_explicit(&meter->rate,
                                  (uint32_t)(n * MUSTER_SAMPLING_WINDOW * MUSTER_NS_PER_S / took),
                                  memory_order_relaxed);
        }
    }
    return atomic_load_explicit(&meter->load_ppm, memory_order_relaxed);
}

unsigned muster_sampling_next(struct muster_sampling *level, struct muster_meter *meter,
                              uint64_t now_ns)
{
    uint32_t load = measure(meter, level->price_ns, now_ns);
    level->price_ns = 0;
    unsigned wanted = 0;
    while (wanted < MUSTER_SAMPLING_SPARSEST && load >> wanted > MUSTER_TIMING_PPM)
        wanted++;
    if (wanted >= level->level) {
        level->level = wanted;
        level->calm_ns = 0;
    } else if (level->calm_ns == 0) {
        level->calm_ns = now_ns;
    } else if (now_ns >= level->calm_ns + CALM_NS) {
        level->level--;
        level->calm_ns = now_ns;
    }
    return level->level;
}
