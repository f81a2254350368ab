#include "record/gpu_clock_tie.h"

#include "base/clock.h"

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

uint64_t muster_tie_host_ns(struct muster_tie *tie, uint64_t stamp_ns, uint64_t now_ns)
{
    uint64_t behind = now_ns - stamp_ns; /* the GPU's clock starts anywhere: wraps */
    uint32_t seconds = atomic_load_explicit(&tie->seconds, memory_order_relaxed);
    if (seconds == 0 || now_ns >= load(&tie->since_ns) + MUSTER_NS_PER_S) {
        store(&tie->since_ns, now_ns);
        store(&tie->behind[1], seconds ? load(&tie->behind[0]) : behind);
        store(&tie->behind[0], behind);
        atomic_store_explicit(&tie->seconds, seconds + 1, memory_order_relaxed);
    }
    uint64_t least = load(&tie->behind[0]), before = load(&tie->behind[1]);
    if ((int64_t)(behind - least) < 0) {
        store(&tie->behind[0], behind);
        least = behind;
    }
    return stamp_ns + ((int64_t)(before - least) < 0 ? before : least);
}
