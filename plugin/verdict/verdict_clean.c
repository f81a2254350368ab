#include "verdict/verdict_clean.h"

#include "run/run.h"
#include "view/aligned.h"
#include "view/coverage.h"

static bool captures(const struct muster_run *run)
{
    for (size_t p = 0; run && p < run->processes; p++) {
        const struct muster_segment *segment = run->process[p].segment;
        for (size_t c = 0; segment && c <= MUSTER_SEG_COMMS; c++)
            if (segment->comm[c].uid && segment->comm[c].captured)
                return true;
    }
    return false;
}

bool muster_verdict_graphs_untimed(const struct muster_view *view)
{
    bool replays = captures(view->run);
    for (size_t o = 0; o < view->ops; o++) {
        const struct muster_view_op *op = &view->op[o];
        if (op->flags & MUSTER_OP_GRAPH && muster_view_scored(op))
            return false;
        replays |= (op->flags & MUSTER_OP_GRAPH) != 0;
    }
    return replays;
}

static double waited_in(const struct muster_view *view, uint32_t comm, struct muster_arena *memory)
{
    const struct muster_joint_rule rule = {.takes = muster_joint_takes_common_end,
                                           .least = view->comm[comm].members};
    struct muster_joint joint;
    double waited_ns = 0;
    muster_joint_begin(&joint, view, comm, &rule, memory);
    while (muster_joint_next(&joint)) {
        uint64_t shortest = muster_joint_span(&joint).shortest_ns;
        for (uint32_t i = 0; i < joint.comm->members; i++)
            waited_ns += (double)(joint.op[i]->end_ns - joint.op[i]->begin_ns - shortest);
    }
    return waited_ns;
}

double muster_verdict_waited(const struct muster_view *view, struct muster_arena *memory)
{
    const struct muster_view_span *span = muster_view_spans(view, memory);
    double waited_ns = 0, covered_ns = 0;
    for (size_t g = 0; span && g < view->gpus; g++)
        covered_ns += (double)span[g].covered_ns;
    for (uint32_t c = 0; covered_ns > 0 && c < view->comms; c++)
        if (muster_joint_possible(&view->comm[c]) && view->comm[c].members == view->comm[c].nranks)
            waited_ns += waited_in(view, c, memory);
    return covered_ns > 0 ? waited_ns / covered_ns : 0;
}
