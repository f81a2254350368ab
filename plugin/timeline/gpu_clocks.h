/*
 * All GPUs on one axis, for pictures only: nothing is ever decided by it. The clocks of GPUs stand
 * 0.1 to 1 ms apart and drift, so each is laid beside another by what both saw.
 *
 * The GPU with the most timed operations leads. A call comes before its begin: the leader's clock
 * is laid so that no operation begins before its call, by the tightest of them. Ranks leave a
 * synchronising collective together (docs/diagnosis.md), so a GPU that shared one with a GPU whose
 * clock is known is laid by the ends: the median of the difference over windows of
 * MUSTER_CLOCK_WINDOW operations. A GPU that shared none with anybody is laid by its own calls.
 *
 * Unit: ns. The axis is CLOCK_MONOTONIC of the leader's host.
 */
#ifndef MUSTER_TIMELINE_GPU_CLOCKS_H
#define MUSTER_TIMELINE_GPU_CLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "view/view.h"

/* Operations a window: drift within the time of 64 is far below a microsecond, and a median of 64
 * moves little with one odd end. Half or double moves no slice of the recordings by 2 us. */
enum { MUSTER_CLOCK_WINDOW = 64 };

enum muster_clock_method { MUSTER_CLOCK_UNKNOWN, MUSTER_CLOCK_CALLS, MUSTER_CLOCK_ENDS };

struct muster_clock_point {
    uint64_t gpu_ns;
    int64_t offset_ns; /* to be added to the GPU's clock, from here on */
};

struct muster_gpu_clock {
    enum muster_clock_method method;
    struct muster_clock_point *point; /* by gpu_ns */
    size_t points;
    uint64_t residual_ns; /* median of what the windows' samples stray from their offset */
};

struct muster_gpu_clocks {
    struct muster_arena memory;   /* of all that follows */
    struct muster_gpu_clock *gpu; /* one each of the view's */
    size_t gpus;
    uint32_t leader; /* MUSTER_VIEW_NONE: no operation has GPU times */
};

/* Of a finished view. -1: no memory; *clocks is empty then. */
int muster_gpu_clocks_align(const struct muster_view *view, struct muster_gpu_clocks *clocks,
                            struct muster_err *err);
void muster_gpu_clocks_free(struct muster_gpu_clocks *clocks);

/* What to add at this reading of the GPU's clock; its method is not UNKNOWN. */
int64_t muster_gpu_clock_offset(const struct muster_gpu_clock *clock, uint64_t gpu_ns);

#endif
