/*
 * The iterator over aligned operations: the same collective on several ranks of a communicator, one
 * after another, in the order of their numbers, eager before replayed. Everything that compares
 * ranks without comparing clocks reads the view through it, all ranks of a communicator or two of
 * them. Sends and receives have no common operation: a send and its receive are given by
 * muster_sends_next.
 *
 * An operation costs as many steps as the communicator has ranks seen; the iterator holds 24
 * bytes a rank, of an arena: once that has failed it gives no operation. Operations belong to the
 * view and stay until that is freed.
 */
#ifndef MUSTER_VIEW_ALIGNED_H
#define MUSTER_VIEW_ALIGNED_H

#include "base/arena.h"
#include "view/view.h"

/* Which operations are aligned, and which of these are given. */
struct muster_joint_rule {
    /* Whether an operation of one rank takes part; the others are passed over. NULL: those whose
     * times may be compared (muster_view_scored). */
    bool (*takes)(const struct muster_view *view, const struct muster_view_op *op);
    uint32_t least; /* ranks that must have it; 0: three quarters of those seen, but at least two */
    bool unlike;    /* also where ranks called different things under one number: see `alike` */
};

struct muster_joint_row {
    const struct muster_view_op *at, *end;
};

struct muster_joint {
    const struct muster_view *view;
    const struct muster_view_comm *comm;
    uint32_t members; /* that are compared */
    struct muster_joint_rule rule;
    const struct muster_arena *memory;
    struct muster_joint_row *row; /* of each member: its operations that were not passed */
    /* The current operation: one entry a member, NULL where it has none that may be compared. */
    const struct muster_view_op **op;
    const struct muster_view_op *any; /* one of them: of the member that comes first */
    uint32_t present;                 /* members that have it */
    bool alike;                       /* they called the same function with the same count */
};

/* Whether the ranks of a communicator can be compared at all: an id, at least two seen, none
 * twice. */
bool muster_joint_possible(const struct muster_view_comm *comm);

/* Whether all ranks leave such an operation together: then the shortest is the transfer, and what
 * others spent beyond it is waiting. Rooted operations have no common end. */
static inline bool muster_joint_ends_together(unsigned func)
{
    return func == MUSTER_FUNC_ALL_REDUCE || func == MUSTER_FUNC_ALL_GATHER ||
           func == MUSTER_FUNC_REDUCE_SCATTER || func == MUSTER_FUNC_ALL_TO_ALL;
}

/* A rule's `takes`: those whose times may be compared and that all ranks leave together. */
bool muster_joint_takes_common_end(const struct muster_view *view, const struct muster_view_op *op);

/* Before the first operation. `rule` NULL: all defaults, which is what times are compared by. */
void muster_joint_begin(struct muster_joint *joint, const struct muster_view *view, uint32_t comm,
                        const struct muster_joint_rule *rule, struct muster_arena *memory);

/* The same of two members of one communicator, which alone are read: op[0] is of the one that
 * stands first in the view. */
void muster_joint_begin_two(struct muster_joint *joint, const struct muster_view *view, uint32_t a,
                            uint32_t b, const struct muster_joint_rule *rule,
                            struct muster_arena *memory);

/* The next operation; false: there is none. */
bool muster_joint_next(struct muster_joint *joint);

/* What the current operation took on the rank that waited least, and most: ns on their own clocks.
 */
struct muster_joint_span {
    uint64_t shortest_ns, longest_ns;
};
struct muster_joint_span muster_joint_span(const struct muster_joint *joint);

/* The sends of a member to another with their receives, one after another. */
struct muster_sends {
    const struct muster_view *view;
    struct muster_view_stream out, in;
    const struct muster_view_op *send, *receive; /* those at hand */
};

/* `from`, `to`: members of one communicator. */
struct muster_sends muster_sends_of(const struct muster_view *view, uint32_t from, uint32_t to);

/* False: there are no more. */
static inline bool muster_sends_next(struct muster_sends *sends)
{
    const struct muster_view_op *op = sends->view->op;
    while (sends->out.at < sends->out.end && sends->in.at < sends->in.end) {
        sends->send = &op[sends->out.at];
        sends->receive = &op[sends->in.at];
        bool sooner = sends->send->number < sends->receive->number;
        bool pair = sends->send->number == sends->receive->number;
        sends->out.at += sooner || pair;
        sends->in.at += !sooner;
        if (pair)
            return true;
    }
    return false;
}

#endif
