/* What is looked up in a finished view by the order of its operations. */
#include "diagnose/view.h"

/* Whether an operation stands before those of this function and peer, as views sort them. */
static bool stands_before(const struct muster_view_op *op, unsigned func, int32_t peer)
{
    if (op->flags & MUSTER_OP_GRAPH)
        return false;
    if (!muster_func_is_p2p(op->func) || op->func != func)
        return !muster_func_is_p2p(op->func) || op->func < func;
    return op->peer < peer;
}

struct muster_view_stream muster_view_stream(const struct muster_view *view,
                                             const struct muster_view_member *member, unsigned func,
                                             int32_t peer)
{
    uint32_t low = member->first_op, end = member->first_op + member->ops, high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (stands_before(&view->op[middle], func, peer))
            low = middle + 1;
        else
            high = middle;
    }
    struct muster_view_stream found = {low, low};
    for (; found.end < end; found.end++) {
        const struct muster_view_op *op = &view->op[found.end];
        if (op->func != func || op->peer != peer || (op->flags & MUSTER_OP_GRAPH))
            break;
    }
    return found;
}

uint64_t muster_view_first_call_unix_ns(const struct muster_view *view,
                                        const struct muster_view_comm *comm)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++) {
        const struct muster_view_member *member = &view->member[m];
        const struct muster_view_gpu *gpu = &view->gpu[member->gpu];
        for (uint32_t i = 0; i < member->ops && gpu->host_times; i++) {
            uint64_t at = view->op[member->first_op + i].enqueue_ns + (uint64_t)gpu->unix_ns;
            first = at < first ? at : first;
        }
    }
    return first == UINT64_MAX ? 0 : first;
}
