/* What ranks lost, and made others lose, in the operations that all ranks seen of a communicator
 * timed and leave together. No verdict. */
#ifndef MUSTER_VIEW_JOINT_COST_H
#define MUSTER_VIEW_JOINT_COST_H

#include "view/aligned.h"

struct muster_rank_cost {
    uint64_t operations; /* compared */
    uint64_t wait_ns;    /* beyond the shortest */
    uint64_t late_ns;    /* short of the longest: what whoever waited longest waited for it */
};

struct muster_joint_costs {
    /* Where the costs of a process of the view stand; NULL: they are not asked for. */
    struct muster_rank_cost *(*of)(void *arg, const struct muster_view *view, uint32_t process);
    bool (*counts)(void *arg, const struct muster_joint *joint); /* NULL: all do */
    void *arg;
};

/* Adds those of all operations of the view. */
void muster_joint_costs_add(const struct muster_joint_costs *to, const struct muster_view *view,
                            struct muster_arena *memory);

#endif
