/* From what was fed to what is read: members by communicator and rank, operations by member. */
#include <stdlib.h>
#include <string.h>

#include "diagnose/view_build.h"

static int by_comm(const void *left, const void *right)
{
    const struct muster_view_feed *a = left;
    const struct muster_view_feed *b = right;
    if (a->id != b->id) {
        return a->id < b->id ? -1 : 1;
    }
    if (a->id && a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return a->handle < b->handle ? -1 : a->handle > b->handle;
}

static void join(struct muster_view_comm *comm, const struct muster_view_feed *feed,
                 const struct muster_view_feed *before)
{
    comm->twice |= before && before->rank == feed->rank;
    comm->members++;
    comm->nranks = comm->nranks ? comm->nranks : feed->nranks;
    comm->nnodes = comm->nnodes ? comm->nnodes : feed->nnodes;
    if (!comm->name[0]) {
        memcpy(comm->name, feed->name, sizeof comm->name);
    }
}

/* Fills comm and member; `to` gets the index of each handle. */
static int group_members(struct muster_view *view, uint32_t *to)
{
    struct muster_view_index *index = view->index;
    size_t n = index ? index->feeds : 0;
    view->comm = calloc(n + 1, sizeof *view->comm);
    view->member = calloc(n + 1, sizeof *view->member);
    if (!view->comm || !view->member) {
        return -1;
    }
    if (n) {
        qsort(index->feed, n, sizeof *index->feed, by_comm);
    }
    for (size_t i = 0; i < n; i++) {
        const struct muster_view_feed *feed = &index->feed[i];
        bool same = i && feed->id && feed[-1].id == feed->id;
        if (!same) {
            view->comm[view->comms++] =
                (struct muster_view_comm){.id = feed->id, .first_member = (uint32_t)i};
        }
        join(&view->comm[view->comms - 1], feed, same ? feed - 1 : NULL);
        view->member[i] = (struct muster_view_member){
            .comm = (uint32_t)view->comms - 1, .gpu = feed->gpu, .rank = feed->rank};
        to[feed->handle] = (uint32_t)i;
    }
    view->members = n;
    return 0;
}

static int compare_ops(const struct muster_view_op *a, const struct muster_view_op *b)
{
    unsigned graph_a = a->flags & MUSTER_OP_GRAPH;
    unsigned graph_b = b->flags & MUSTER_OP_GRAPH;
    if (graph_a != graph_b) {
        return graph_a ? 1 : -1;
    }
    bool p2p_a = muster_func_is_p2p(a->func);
    bool p2p_b = muster_func_is_p2p(b->func);
    if (p2p_a != p2p_b) {
        return p2p_a ? 1 : -1;
    }
    if (p2p_a && a->func != b->func) {
        return a->func < b->func ? -1 : 1;
    }
    if (p2p_a && a->peer != b->peer) {
        return a->peer < b->peer ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

static int by_place(const void *left, const void *right)
{
    return compare_ops(left, right);
}

/* Operations come nearly in order: those of one stream are, and few streams mix. */
static void sort_ops(struct muster_view_op *op, size_t n)
{
    size_t moves = 4 * n + 64;
    for (size_t i = 1; i < n; i++) {
        if (compare_ops(&op[i - 1], &op[i]) <= 0) {
            continue;
        }
        struct muster_view_op moved = op[i];
        size_t j = i;
        while (j && moves && compare_ops(&op[j - 1], &moved) > 0) {
            op[j] = op[j - 1];
            j--;
            moves--;
        }
        op[j] = moved;
        if (!moves) {
            qsort(op, n, sizeof *op, by_place);
            return;
        }
    }
}

/* Operations side by side by member. A feed in which each member came in one piece, in order,
 * stays where it is. */
static int group_ops(struct muster_view *view, const uint32_t *to)
{
    bool grouped = true;
    for (size_t i = 0; i < view->ops; i++) {
        struct muster_view_op *op = &view->op[i];
        op->member = to[op->member];
        view->member[op->member].ops++;
        grouped &= !i || op[-1].member <= op->member;
    }
    uint32_t at = 0;
    for (size_t m = 0; m < view->members; m++) {
        view->member[m].first_op = at;
        at += view->member[m].ops;
        view->member[m].ops = grouped ? view->member[m].ops : 0;
    }
    if (!grouped) {
        struct muster_view_op *op = malloc((view->ops + 1) * sizeof *op);
        if (!op) {
            return -1;
        }
        for (size_t i = 0; i < view->ops; i++) {
            struct muster_view_member *member = &view->member[view->op[i].member];
            op[member->first_op + member->ops++] = view->op[i];
        }
        free(view->op);
        view->op = op;
    }
    for (size_t m = 0; m < view->members; m++) {
        sort_ops(view->op + view->member[m].first_op, view->member[m].ops);
    }
    return 0;
}

static void group_nets(struct muster_view *view, const uint32_t *to)
{
    size_t n = 0;
    for (size_t i = 0; i < view->nets; i++) {
        if (view->net[i].member < view->members) {
            view->net[n] = view->net[i];
            view->net[n].member = to[view->net[n].member];
            n++;
        }
    }
    view->nets = n;
}

int muster_view_finish(struct muster_view *view, struct muster_err *err)
{
    uint32_t *to = calloc((view->index ? view->index->feeds : 0) + 1, sizeof *to);
    int result = !to || view->failed || group_members(view, to) || group_ops(view, to) ? -1 : 0;
    if (result == 0) {
        group_nets(view, to);
        muster_view_index_free(view);
        result = muster_view_self_times(view) || muster_view_queue_times(view) ? -1 : 0;
    }
    free(to);
    if (result) {
        muster_view_free(view);
        return muster_fail_memory(err, "the operations of all ranks");
    }
    return 0;
}
