/* Comparing the ranks of a communicator, operation by operation, without comparing clocks. */
#include <math.h>

#include "base/clock.h"
#include "report/report_internal.h"
#include "view/aligned.h"

static void add(double *sum, uint64_t ns)
{
    double us = (double)ns / (double)MUSTER_NS_PER_US;
    *sum = isnan(*sum) ? us : *sum + us;
}

/* The report's class of an operation that all ranks have. */
static uint32_t class_of(struct muster_build *build, const struct muster_joint *joint)
{
    const struct muster_view_class *of = &joint->view->class[joint->any->class];
    const struct muster_class_key own = {.func = of->func,
                                         .algo = of->algo,
                                         .proto = of->proto,
                                         .size_log2 = of->size_log2,
                                         .peer = (int32_t)joint->any->peer};
    uint32_t comm = joint->view->member[joint->comm->first_member].comm + 1;
    struct muster_class_key key = muster_build_key(build, comm, -1, MUSTER_NO_ENTRY, &own);
    return muster_build_class(build, &key, false);
}

/* The same operation on all ranks that are seen. */
static void compare(struct muster_build *build, const struct muster_joint *joint, bool full)
{
    struct muster_report *report = build->report;
    struct muster_joint_span span = muster_joint_span(joint);
    report->joint++;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        const struct muster_view_op *op = joint->op[i];
        struct muster_report_rank *rank =
            &report->rank[joint->view->member[joint->comm->first_member + i].gpu];
        uint64_t ns = op->end_ns - op->begin_ns;
        rank->joint_ops++;
        add(&rank->late_us, span.longest_ns - ns);
        if (full)
            add(&rank->wait_us, ns - span.shortest_ns);
    }
    if (full) {
        muster_samples_add(&build->transfer, class_of(build, joint), span.shortest_ns,
                           &build->memory);
    }
}

static void read_comm(struct muster_build *build, uint32_t comm, bool full)
{
    const struct muster_joint_rule rule = {.takes = muster_joint_takes_common_end,
                                           .least = build->view->comm[comm].members,
                                           .unlike = true};
    struct muster_joint joint;
    muster_joint_begin(&joint, build->view, comm, &rule, &build->memory);
    while (muster_joint_next(&joint))
        if (joint.alike)
            compare(build, &joint, full);
        else
            build->report->mismatched++;
}

void muster_build_waits(struct muster_build *build)
{
    for (uint32_t c = 0; c < build->view->comms; c++) {
        const struct muster_report_comm *comm = &build->report->comm[c + 1];
        /* A rank that is alone in its communicator waits for nobody, and all of it is seen. */
        if (comm->id && !comm->duplicate_rank && (comm->seen >= 2 || comm->full))
            read_comm(build, c, comm->full);
    }
}
