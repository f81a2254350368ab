#include "view/joint_cost.h"

static void add(const struct muster_joint_costs *to, const struct muster_joint *joint)
{
    struct muster_joint_span span = muster_joint_span(joint);
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_op *op = joint->op[i];
        uint32_t gpu = joint->view->member[joint->comm->first_member + i].gpu;
        struct muster_rank_cost *cost =
            op ? to->of(to->arg, joint->view, joint->view->gpu[gpu].process) : NULL;
        if (!cost)
            continue;
        uint64_t ns = op->end_ns - op->begin_ns;
        cost->operations++;
        cost->wait_ns += ns - span.shortest_ns;
        cost->late_ns += span.longest_ns - ns;
    }
}

void muster_joint_costs_add(const struct muster_joint_costs *to, const struct muster_view *view,
                            struct muster_arena *memory)
{
    for (uint32_t c = 0; c < view->comms; c++) {
        const struct muster_joint_rule rule = {.takes = muster_joint_takes_common_end,
                                               .least = view->comm[c].members};
        struct muster_joint joint;
        if (!muster_joint_possible(&view->comm[c]))
            continue;
        muster_joint_begin(&joint, view, c, &rule, memory);
        while (muster_joint_next(&joint))
            if (!to->counts || to->counts(to->arg, &joint))
                add(to, &joint);
    }
}
