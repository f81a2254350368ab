#include "verdict/verdict_waits.h"

#include <stdlib.h>

#include "view/aligned.h"
#include "view/coverage.h"

static double waited_in(const struct muster_view *view, uint32_t comm)
{
    const struct muster_joint_rule rule = {.takes = muster_joint_takes_common_end,
                                           .least = view->comm[comm].members};
    struct muster_joint joint;
    double waited_ns = 0;
    if (muster_joint_begin_by(&joint, view, comm, &rule))
        return 0;
    while (muster_joint_next(&joint)) {
        uint64_t shortest = muster_joint_span(&joint).shortest_ns;
        for (uint32_t i = 0; i < joint.comm->members; i++)
            waited_ns += (double)(joint.op[i]->end_ns - joint.op[i]->begin_ns - shortest);
    }
    muster_joint_end(&joint);
    return waited_ns;
}

double muster_verdict_waited(const struct muster_view *view)
{
    struct muster_view_span *span = muster_view_spans(view);
    double waited_ns = 0, covered_ns = 0;
    for (size_t g = 0; span && g < view->gpus; g++)
        covered_ns += (double)span[g].covered_ns;
    for (uint32_t c = 0; covered_ns > 0 && c < view->comms; c++)
        if (muster_joint_possible(&view->comm[c]) && view->comm[c].members == view->comm[c].nranks)
            waited_ns += waited_in(view, c);
    free(span);
    return covered_ns > 0 ? waited_ns / covered_ns : 0;
}
