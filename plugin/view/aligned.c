#include "diagnose/joint.h"

#include <stdlib.h>
#include <string.h>

bool muster_joint_possible(const struct muster_view_comm *comm)
{
    return comm->id && comm->members >= 2 && !comm->twice;
}

int muster_joint_begin(struct muster_joint *joint, const struct muster_view *view, uint32_t comm)
{
    memset(joint, 0, sizeof *joint);
    joint->view = view;
    joint->comm = &view->comm[comm];
    joint->cursor = calloc(joint->comm->members + 1, sizeof *joint->cursor);
    joint->op = calloc(joint->comm->members + 1, sizeof *joint->op);
    if (!joint->cursor || !joint->op) {
        muster_joint_end(joint);
        return -1;
    }
    return 0;
}

void muster_joint_end(struct muster_joint *joint)
{
    free(joint->cursor);
    free(joint->op);
    memset(joint, 0, sizeof *joint);
}

/* Eager before replayed, then by number. */
static bool before(const struct muster_view_op *a, const struct muster_view_op *b)
{
    unsigned graph_a = a->flags & MUSTER_OP_GRAPH;
    unsigned graph_b = b->flags & MUSTER_OP_GRAPH;
    return graph_a != graph_b ? graph_b != 0 : a->number < b->number;
}

/* The member's next collective that may be compared; NULL at its end. */
static const struct muster_view_op *look(struct muster_joint *joint, uint32_t i)
{
    const struct muster_view *view = joint->view;
    const struct muster_view_member *member = &view->member[joint->comm->first_member + i];
    while (joint->cursor[i] < member->ops) {
        const struct muster_view_op *op = &view->op[member->first_op + joint->cursor[i]];
        if (muster_view_scored(op) && !muster_func_is_p2p(op->func)) {
            return op;
        }
        joint->cursor[i]++;
    }
    return NULL;
}

/* Sets op[] to the lowest operation that any member has next. */
static bool line_up(struct muster_joint *joint)
{
    uint32_t n = joint->comm->members;
    const struct muster_view_op *lowest = NULL;
    for (uint32_t i = 0; i < n; i++) {
        joint->op[i] = look(joint, i);
        if (joint->op[i] && (!lowest || before(joint->op[i], lowest))) {
            lowest = joint->op[i];
        }
    }
    joint->any = lowest;
    joint->present = 0;
    for (uint32_t i = 0; i < n && lowest; i++) {
        if (joint->op[i] && before(lowest, joint->op[i])) {
            joint->op[i] = NULL;
        }
        joint->cursor[i] += joint->op[i] != NULL;
        joint->present += joint->op[i] != NULL;
    }
    return lowest;
}

static bool alike(const struct muster_joint *joint)
{
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_op *op = joint->op[i];
        if (op && (op->func != joint->any->func || op->count != joint->any->count)) {
            return false;
        }
    }
    return true;
}

bool muster_joint_next(struct muster_joint *joint)
{
    uint32_t enough = (3 * joint->comm->members + 3) / 4;
    enough = enough < 2 ? 2 : enough;
    while (line_up(joint)) {
        if (joint->present >= enough && alike(joint)) {
            return true;
        }
    }
    return false;
}
