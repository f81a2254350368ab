/* Which receive a send is of, and what a GPU ran untimed while others timed it. */
#include <string.h>

#include "diagnose/straggler/job_graph.h"
#include "view/aligned.h"

/* ---- sends and their receives ---- */

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

static void pair_streams(const struct pairs *pairs, struct muster_view_stream from,
                         struct muster_view_stream to)
{
    const struct muster_view *view = pairs->graph->view;
    struct muster_sends sends = {.view = view, .out = from, .in = to};
    while (muster_sends_next(&sends))
        pairs->pair(pairs->arg, pairs->graph, (uint32_t)(sends.send - view->op),
                    (uint32_t)(sends.receive - view->op));
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

/* ---- untimed: all were over together, so that whatever follows is as much sooner as they are ----
 */

/* An untimed send whose receive is a unit that nobody else is seen to wait with. */
struct sent {
    uint32_t send, unit;
    size_t stream;
};

/* What one rank receives from another. */
struct stream {
    uint32_t member;
    int64_t peer;
    int64_t least_ns; /* its shortest unit: what a transfer takes */
};

struct met {
    struct muster_graph *graph;
    uint32_t *by; /* of each operation: its unit, or one of another rank that was over with it */
    struct sent *sent;
    struct stream *stream;
    size_t sents, streams;
};

static bool ends_together(const struct muster_view *view, const struct muster_view_op *op)
{
    (void)view;
    return muster_joint_ends_together(op->func);
}

static uint32_t timed_by(const struct muster_graph *graph, const struct muster_joint *joint)
{
    uint32_t u = MUSTER_NO_UNIT;
    for (uint32_t i = 0; i < joint->comm->members && u == MUSTER_NO_UNIT; i++)
        u = joint->op[i] ? graph->of_op[joint->op[i] - graph->view->op] : MUSTER_NO_UNIT;
    return u;
}

static void meet_together(struct met *met, uint32_t comm)
{
    const struct muster_graph *graph = met->graph;
    const struct muster_joint_rule rule = {.takes = ends_together, .least = 2};
    struct muster_joint joint;
    muster_joint_begin(&joint, graph->view, comm, &rule, graph->making);
    while (muster_joint_next(&joint)) {
        uint32_t u = timed_by(graph, &joint);
        for (uint32_t i = 0; i < joint.comm->members; i++) {
            uint32_t *by = joint.op[i] ? &met->by[joint.op[i] - graph->view->op] : NULL;
            if (by && *by == MUSTER_NO_UNIT)
                *by = u;
        }
    }
}

static bool is_lonely(const struct muster_graph *graph, uint32_t u)
{
    return graph->turn[graph->unit[u].turn].kind == MUSTER_TURN_APART;
}

/* Pairs come stream by stream. NULL: no memory. */
static struct stream *stream_of(struct met *met, const struct muster_view_op *recv)
{
    struct stream *last = met->streams ? &met->stream[met->streams - 1] : NULL;
    if (last && last->member == recv->member && last->peer == recv->peer)
        return last;
    struct stream *stream =
        muster_arena_add(met->graph->making, &met->stream, &met->streams, sizeof *stream);
    *stream = (struct stream){recv->member, recv->peer, INT64_MAX};
    return met->graph->making->failed ? NULL : stream;
}

static void meet_pair(void *arg, const struct muster_graph *graph, uint32_t send, uint32_t recv)
{
    struct met *met = arg;
    uint32_t sender = graph->of_op[send], receiver = graph->of_op[recv];
    if (receiver == MUSTER_NO_UNIT) {
        met->by[recv] = sender;
        return;
    }
    struct stream *stream = stream_of(met, &graph->view->op[recv]);
    if (!stream)
        return;
    int64_t length_ns = muster_unit_length_ns(graph, &graph->unit[receiver]);
    stream->least_ns = muster_ns_least(stream->least_ns, length_ns);
    if (sender == MUSTER_NO_UNIT && is_lonely(graph, receiver)) {
        struct sent *sent = muster_arena_add(graph->making, &met->sent, &met->sents, sizeof *sent);
        *sent = (struct sent){send, receiver, met->streams - 1};
    }
}

/* Of what was called before an operation; MUSTER_NO_UNIT: not known. */
static uint32_t met_before(const struct met *met, uint32_t o)
{
    uint32_t before = met->graph->called_after[o];
    return before == MUSTER_NO_UNIT ? MUSTER_NO_UNIT : met->by[before];
}

static void set_untimed(struct met *met)
{
    struct muster_graph *graph = met->graph;
    for (uint32_t u = 0; u < graph->units; u++) {
        uint32_t before = met_before(met, muster_unit_op(graph, &graph->unit[u]));
        bool own = before != MUSTER_NO_UNIT && muster_unit_gpu_unseated(&graph->unit[before]) ==
                                                   muster_unit_gpu_unseated(&graph->unit[u]);
        graph->untimed[u] = (struct muster_unit_untimed){.before = own ? MUSTER_NO_UNIT : before,
                                                         .sender = MUSTER_NO_UNIT};
    }
    for (size_t i = 0; i < met->sents; i++) {
        const struct sent *sent = &met->sent[i];
        int64_t least_ns = met->stream[sent->stream].least_ns;
        struct muster_unit_untimed *untimed = &graph->untimed[sent->unit];
        untimed->sender = met_before(met, sent->send);
        untimed->transfer_ns = least_ns < UINT32_MAX ? (uint32_t)least_ns : UINT32_MAX;
    }
}

void muster_graph_untimed(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    if (!graph->called_after)
        return;
    struct met met = {.graph = graph};
    met.by = muster_arena_array(graph->making, view->ops + 1, sizeof *met.by);
    graph->untimed = muster_arena_array(graph->memory, graph->units + 1, sizeof *graph->untimed);
    if (graph->making->failed || graph->memory->failed)
        return;
    memcpy(met.by, graph->of_op, view->ops * sizeof *met.by);
    for (uint32_t c = 0; c < view->comms; c++)
        if (muster_joint_possible(&view->comm[c]))
            meet_together(&met, c);
    muster_graph_each_pair(graph, meet_pair, &met);
    if (!graph->making->failed)
        set_untimed(&met);
}
