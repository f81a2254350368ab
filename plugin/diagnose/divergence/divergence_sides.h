/*
 * Which ranks of a communicator are alike, and like whom most are. Of policies the ranks of the
 * whole job count, of which a communicator may hold few; of operations those that did it. A job:
 * all ranks that communicators join. Between divergence*.c only.
 */
#ifndef MUSTER_DIAGNOSE_DIVERGENCE_DIVERGENCE_SIDES_H
#define MUSTER_DIAGNOSE_DIVERGENCE_DIVERGENCE_SIDES_H

#include "base/arena.h"
#include "view/view.h"

struct muster_partition {
    uint32_t *side;  /* of each member of the communicator: its side's first member;
                        MUSTER_VIEW_NONE: not compared */
    uint32_t *count; /* scratch, one a member */
    unsigned n;
    uint32_t most; /* the side of most; the number of members: none of the communicator's;
                      MUSTER_VIEW_NONE: several are as large */
    bool open;     /* ranks that are not seen could make it another */
};

struct muster_policy_sides {
    const struct muster_view *view;
    uint32_t *like; /* of each GPU: the first one with its policy; MUSTER_VIEW_NONE: not settled */
    uint32_t *job;  /* likewise: one of those that communicators join it to, the same for all */
    uint32_t
        *unseen; /* of each of these: ranks that its communicators lack, or that are not settled */
    uint32_t *count; /* scratch */
};

/* NCCL loads a tuner some time after the profiler: a process without one that has called nothing
 * yet is settled only if `waited`. In the arena; where that failed nothing of it can be used. */
void muster_policy_sides_begin(struct muster_policy_sides *policies, const struct muster_view *view,
                               bool waited, struct muster_arena *arena);

/* Fills the rest of *sides, whose arrays are the caller's. */
void muster_policy_sides(const struct muster_policy_sides *policies,
                         const struct muster_view_comm *comm, struct muster_partition *sides);

/* Whether two operations ran alike. */
bool muster_same_choice(const struct muster_view *view, const struct muster_view_op *a,
                        const struct muster_view_op *b);
/* Likewise of one operation; op[i]: the member's, NULL where it has none. Ranks of the job that did
 * not take part count as not seen. */
void muster_choice_sides(const struct muster_policy_sides *policies,
                         const struct muster_view_comm *comm,
                         const struct muster_view_op *const *op, struct muster_partition *sides);

#endif
