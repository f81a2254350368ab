#include <stdlib.h>

#include "diagnose/joint.h"
#include "diagnose/transfer_build.h"
#include "segment/table.h"

static uint64_t duration(const struct muster_view_op *op)
{
    return op->end_ns - op->begin_ns;
}

static bool add(struct muster_transfers *to, const struct muster_view_op *op, uint64_t ns)
{
    if (!muster_grow(&to->at, to->n, sizeof *to->at))
        return false;
    to->at[to->n] = (struct muster_transfer){
        .ns = ns, .count = op->count, .class = op->class, .place = (uint32_t)to->n, .op = op};
    to->n++;
    return true;
}

int muster_transfers_of_comm(const struct muster_view *view, uint32_t comm,
                             struct muster_transfers *to)
{
    struct muster_joint joint;
    bool whole = true;
    if (muster_joint_begin(&joint, view, comm) != 0)
        return -1;
    while (whole && muster_joint_next(&joint)) {
        uint64_t shortest = UINT64_MAX;
        if (joint.present < joint.comm->members || !muster_transfer_is_common(joint.any->func))
            continue;
        for (uint32_t i = 0; i < joint.comm->members; i++)
            shortest = duration(joint.op[i]) < shortest ? duration(joint.op[i]) : shortest;
        whole = add(to, joint.any, shortest);
    }
    muster_joint_end(&joint);
    return whole ? 0 : -1;
}

/* Operations [at, end) of the view. */
struct stream {
    uint32_t at, end;
};

static struct stream stream_of(const struct muster_view *view,
                               const struct muster_view_member *member, unsigned func, int32_t peer)
{
    struct stream found = {member->first_op, member->first_op};
    uint32_t end = member->first_op + member->ops;
    while (found.at < end && (view->op[found.at].func != func || view->op[found.at].peer != peer ||
                              (view->op[found.at].flags & MUSTER_OP_GRAPH)))
        found.at++;
    for (found.end = found.at; found.end < end; found.end++) {
        const struct muster_view_op *op = &view->op[found.end];
        if (op->func != func || op->peer != peer || (op->flags & MUSTER_OP_GRAPH))
            break;
    }
    return found;
}

int muster_transfers_of_pair(const struct muster_view *view, uint32_t from, uint32_t to,
                             struct muster_transfers *transfers)
{
    const struct muster_view_member *sender = &view->member[from], *receiver = &view->member[to];
    struct stream out = stream_of(view, sender, MUSTER_FUNC_SEND, receiver->rank);
    struct stream in = stream_of(view, receiver, MUSTER_FUNC_RECV, sender->rank);
    while (out.at < out.end && in.at < in.end) {
        const struct muster_view_op *send = &view->op[out.at], *receive = &view->op[in.at];
        out.at += send->number <= receive->number;
        in.at += receive->number <= send->number;
        if (send->number != receive->number || !muster_view_scored(send) ||
            !muster_view_scored(receive))
            continue;
        uint64_t ns = duration(send) < duration(receive) ? duration(send) : duration(receive);
        if (!add(transfers, send, ns))
            return -1;
    }
    return 0;
}

static int by_class(const void *left, const void *right)
{
    const struct muster_transfer *a = left, *b = right;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

void muster_transfers_sort(struct muster_transfers *transfers)
{
    if (transfers->n > 1)
        qsort(transfers->at, transfers->n, sizeof *transfers->at, by_class);
}

size_t muster_transfers_group(const struct muster_transfers *transfers, size_t from)
{
    const struct muster_transfer *first = &transfers->at[from];
    size_t end = from;
    while (end < transfers->n && transfers->at[end].class == first->class &&
           transfers->at[end].count == first->count)
        end++;
    return end;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

uint64_t muster_transfers_quantile(const struct muster_transfer *at, size_t n, double q,
                                   uint64_t *scratch)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = at[i].ns;
    if (n == 0)
        return 0;
    qsort(scratch, n, sizeof *scratch, by_value);
    return scratch[(size_t)(q * (double)(n - 1))];
}
