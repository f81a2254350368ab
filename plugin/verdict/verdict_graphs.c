#include "verdict/verdict_graphs.h"

#include "run/run.h"

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
