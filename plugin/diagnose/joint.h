/*
 * The same operation on several ranks of a communicator, one after another: what clock-free
 * comparison works on. Only collectives; sends and receives have no common operation.
 */
#ifndef MUSTER_DIAGNOSE_JOINT_H
#define MUSTER_DIAGNOSE_JOINT_H

#include "diagnose/view.h"

struct muster_joint {
    const struct muster_view *view;
    const struct muster_view_comm *comm;
    uint32_t *cursor; /* of each member: how many of its operations were passed */
    /* The current operation: one entry a member, NULL where it has none that may be compared. */
    const struct muster_view_op **op;
    const struct muster_view_op *any; /* one of them */
    uint32_t present;
};

/* Whether the ranks of a communicator can be compared at all: an id, at least two seen, none
 * twice. */
bool muster_joint_possible(const struct muster_view_comm *comm);

/* -1: no memory. */
int muster_joint_begin(struct muster_joint *joint, const struct muster_view *view, uint32_t comm);

/* The next operation that at least three quarters of the ranks seen (never fewer than two) timed,
 * called alike. Those of the warm-up, incomplete ones and ones without GPU times do not count. */
bool muster_joint_next(struct muster_joint *joint);

void muster_joint_end(struct muster_joint *joint);

#endif
