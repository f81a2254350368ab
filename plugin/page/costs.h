/*
 * What the ranks of a run cost each other, as the page shows it: of every operation that all ranks
 * of a communicator timed alike and leave together, what each spent beyond the shortest duration
 * was waiting, and is charged to the rank with the shortest: it came last. The sum of it all is the
 * sum of the report's waited_us. Whether a rank came last by its own fault is not known here: its
 * own time and the findings show it.
 *
 * Operations are laid on one axis (timeline/gpu_clocks.h) for the pictures only. A view of a run,
 * with what each GPU did in between. Index of a GPU: the view's, and the report's row of ranks.
 */
#ifndef MUSTER_PAGE_COSTS_H
#define MUSTER_PAGE_COSTS_H

#include "base/arena.h"
#include "base/err.h"
#include "timeline/gpu_clocks.h"
#include "view/view.h"

enum {
    MUSTER_COST_BINS_LEAST = 24,
    MUSTER_COST_BINS_MOST = 400,
    MUSTER_COST_CELLS = 150000, /* ranks times bins, unless that left too few bins */
    MUSTER_COST_ROWS = 64,      /* of those who waited: ranks, or hosts, or several hosts */
    MUSTER_COST_STRIPS = 20,    /* operations that were waited for most */
};

/* One rank in one bin of time: the operations to which it came last. */
struct muster_cost_cell {
    uint64_t cost_ns;  /* all others waited so long together */
    uint64_t worst_ns; /* of them, for one operation */
    uint32_t ops;
    uint32_t worst; /* index of the view's operation of the rank that came last */
};

struct muster_cost_gpu {
    uint64_t cost_ns; /* of all others, together */
    uint64_t wait_ns;
    uint64_t own_ns;   /* from its earlier operations to the start of those that were compared */
    uint64_t own_ops;  /* of which that is known */
    uint64_t last_ops; /* to which it came last */
    uint64_t ops;      /* compared */
    uint32_t row;      /* of those who waited */
};

struct muster_cost_strip {
    uint64_t wait_ns;
    uint32_t comm;
    uint32_t last; /* the view's operation */
    uint32_t *op;  /* the view's operations of its members; MUSTER_VIEW_NONE: it is not seen */
    uint64_t longest_ns;
};

struct muster_costs {
    const struct muster_view *view;
    struct muster_arena memory;
    const uint32_t *ended_before; /* of each operation, while they are read */
    struct muster_cost_gpu *gpu;
    uint32_t *worst_first;         /* indices of GPUs, by what they cost */
    struct muster_cost_cell *cell; /* GPU times bins */
    uint32_t bins;
    uint64_t begin_ns, end_ns; /* of the axis */
    uint32_t rows;
    uint64_t *waited; /* row times GPUs: ns that the row waited for the GPU */
    struct muster_cost_strip strip[MUSTER_COST_STRIPS]; /* the worst first */
    uint32_t strips;
    uint64_t joint; /* operations compared, each counted once */
    uint64_t wait_ns;
    struct muster_gpu_clocks clocks;
};

/* -1: no memory; *costs is empty then. The view has to outlive it. */
int muster_costs_find(const struct muster_view *view, struct muster_costs *costs,
                      struct muster_err *err);
void muster_costs_free(struct muster_costs *costs);

#endif
