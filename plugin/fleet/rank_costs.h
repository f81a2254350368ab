/* What each process of a job lost, and made others lose, in the operations that are known of it
 * now. One thread. */
#ifndef MUSTER_FLEET_RANK_COSTS_H
#define MUSTER_FLEET_RANK_COSTS_H

#include "base/arena.h"
#include "fleet/join.h"
#include "view/joint_cost.h"

struct muster_rank_costs {
    struct muster_arena memory;
    struct muster_rank_cost *cost; /* one of each process of the join */
    size_t n;
};

/* Anew, from a view of `run`, which is the join's. False: no memory. */
bool muster_rank_costs_take(struct muster_rank_costs *costs, const struct muster_join *join,
                            const struct muster_run *run, const struct muster_view *view);
void muster_rank_costs_free(struct muster_rank_costs *costs);

#endif
