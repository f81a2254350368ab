/* Which receive a send is of. */
#include "diagnose/straggler/job_graph.h"
#include "view/aligned.h"

static const struct muster_view_member *by_rank(const struct muster_view *view,
                                                const struct muster_view_comm *comm, int32_t rank)
{
    uint32_t low = comm->first_member, high = low + comm->members;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (view->member[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < comm->first_member + comm->members && view->member[low].rank == rank;
    return found ? &view->member[low] : NULL;
}

struct pairs {
    const struct muster_graph *graph;
    muster_graph_pair *pair;
    void *arg;
};

/* Every send with the receive of the same ordinal. */
static void pair_streams(const struct pairs *pairs, struct muster_view_stream from,
                         struct muster_view_stream to)
{
    const struct muster_view_op *op = pairs->graph->view->op;
    while (from.at < from.end && to.at < to.end)
        if (op[from.at].number == op[to.at].number)
            pairs->pair(pairs->arg, pairs->graph, from.at++, to.at++);
        else if (op[from.at].number < op[to.at].number)
            from.at++;
        else
            to.at++;
}

static void pair_member(const struct pairs *pairs, const struct muster_view_comm *comm,
                        const struct muster_view_member *member)
{
    const struct muster_view *view = pairs->graph->view;
    for (uint32_t i = member->first_op; i < member->first_op + member->ops;) {
        const struct muster_view_op *op = &view->op[i];
        if (op->func != MUSTER_FUNC_SEND || (op->flags & MUSTER_OP_GRAPH)) {
            i++;
            continue;
        }
        struct muster_view_stream from =
            muster_view_stream(view, member, MUSTER_FUNC_SEND, (int32_t)op->peer);
        const struct muster_view_member *peer = by_rank(view, comm, (int32_t)op->peer);
        i = from.end;
        if (peer && peer != member)
            pair_streams(pairs, from,
                         muster_view_stream(view, peer, MUSTER_FUNC_RECV, member->rank));
    }
}

void muster_graph_each_pair(const struct muster_graph *graph, muster_graph_pair *pair, void *arg)
{
    const struct muster_view *view = graph->view;
    const struct pairs pairs = {graph, pair, arg};
    for (size_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        for (uint32_t m = 0; m < comm->members && muster_joint_possible(comm); m++)
            pair_member(&pairs, comm, &view->member[comm->first_member + m]);
    }
}
