/* From what was fed to what is read: members by communicator and rank, operations by member. */
#include <stdlib.h>
#include <string.h>

#include "view/view_internal.h"

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

static int by_uid(const void *left, const void *right, void *arg)
{
    const struct muster_view *view = arg;
    const struct muster_view_member *a = &view->member[*(const uint32_t *)left];
    const struct muster_view_member *b = &view->member[*(const uint32_t *)right];
    uint32_t p = view->gpu[a->gpu].process, q = view->gpu[b->gpu].process;
    if (p != q) {
        return p < q ? -1 : 1;
    }
    return (a->uid > b->uid) - (a->uid < b->uid);
}

int muster_view_group_members(struct muster_view *view, uint32_t *to)
{
    struct muster_view_index *index = view->index;
    size_t n = index ? index->feeds : 0;
    view->comm = calloc(n + 1, sizeof *view->comm);
    view->member = calloc(n + 1, sizeof *view->member);
    view->by_uid = calloc(n + 1, sizeof *view->by_uid);
    if (!view->comm || !view->member || !view->by_uid || n >= MUSTER_VIEW_MEMBERS) {
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
            .comm = (uint32_t)view->comms - 1,
            .gpu = feed->gpu,
            .rank = feed->rank,
            .nranks = feed->nranks,
            .uid = feed->uid,
            .entry = feed->entry};
        view->by_uid[i] = (uint32_t)i;
        if (to) {
            to[feed->handle] = (uint32_t)i;
        }
    }
    view->members = n;
    if (n) {
        qsort_r(view->by_uid, n, sizeof *view->by_uid, by_uid, view);
    }
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

/* Each operation to its member's place. */
static int scatter(struct muster_view *view, size_t first, const uint32_t *members, size_t n)
{
    size_t ops = view->ops - first;
    struct muster_view_op *to = malloc((ops + 1) * sizeof *to);
    if (!to) {
        return -1;
    }
    for (size_t m = 0; m < n; m++) {
        view->member[members[m]].ops = 0;
    }
    for (size_t i = first; i < view->ops; i++) {
        struct muster_view_member *member = &view->member[view->op[i].member];
        to[member->first_op - first + member->ops++] = view->op[i];
    }
    if (!view->run) {
        /* All of it, and nothing more comes: no need to copy it back. */
        free(view->op);
        view->op = to;
        return 0;
    }
    if (ops) {
        memcpy(view->op + first, to, ops * sizeof *to);
    }
    free(to);
    return 0;
}

/* Gives each member its room, from `first` on, and its operations in order. */
static int place_ops(struct muster_view *view, size_t first, const uint32_t *members, size_t n,
                     bool in_place)
{
    uint32_t at = (uint32_t)first;
    for (size_t m = 0; m < n; m++) {
        view->member[members[m]].first_op = at;
        at += view->member[members[m]].ops;
    }
    if (!in_place && scatter(view, first, members, n)) {
        return -1;
    }
    for (size_t m = 0; m < n; m++) {
        struct muster_view_member *member = &view->member[members[m]];
        if (member->ops) {
            sort_ops(view->op + member->first_op, member->ops);
        }
    }
    return 0;
}

int muster_view_group_ops(struct muster_view *view, size_t first, const uint32_t *members,
                          size_t n)
{
    size_t piece = 0; /* of members: whose operations come here, if each came in one piece */
    for (size_t i = first; i < view->ops; i++) {
        uint32_t own = view->op[i].member;
        view->member[own].ops++;
        while (piece < n && members[piece] != own) {
            piece++;
        }
    }
    return place_ops(view, first, members, n, piece < n || first == view->ops);
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

/* What was fed with handles. */
static int group_fed(struct muster_view *view, uint32_t *to)
{
    bool in_place = true;
    if (muster_view_group_members(view, to)) {
        return -1;
    }
    for (size_t i = 0; i < view->ops; i++) {
        struct muster_view_op *op = &view->op[i];
        op->member = to[op->member] & (MUSTER_VIEW_MEMBERS - 1);
        view->member[op->member].ops++;
        in_place &= !i || op[-1].member <= op->member;
    }
    group_nets(view, to);
    /* `to` has served: the members, in their order. */
    for (uint32_t m = 0; m < view->members; m++) {
        to[m] = m;
    }
    return place_ops(view, 0, to, view->members, in_place);
}

static int no_memory(struct muster_view *view, struct muster_err *err)
{
    muster_view_free(view);
    return muster_fail_memory(err, "the operations of all ranks");
}

int muster_view_find_times(struct muster_view *view, struct muster_err *err)
{
    return muster_view_self_times(view) || muster_view_queue_times(view) ? no_memory(view, err) : 0;
}

int muster_view_finish(struct muster_view *view, struct muster_err *err)
{
    uint32_t *to = calloc((view->index ? view->index->feeds : 0) + 1, sizeof *to);
    int result = !to || view->failed || group_fed(view, to) ? no_memory(view, err) : 0;
    free(to);
    if (result)
        return -1;
    muster_view_index_free(view);
    return muster_view_find_times(view, err);
}
