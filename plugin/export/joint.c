/* Comparing the ranks of a communicator, operation by operation, without comparing clocks. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "export/build.h"

/* Rooted operations have no common end, sends and receives no common operation. */
static bool comparable(unsigned func)
{
    switch (func) {
    case MUSTER_FUNC_ALL_REDUCE:
    case MUSTER_FUNC_ALL_GATHER:
    case MUSTER_FUNC_REDUCE_SCATTER:
    case MUSTER_FUNC_ALL_TO_ALL:
        return true;
    default:
        return false;
    }
}

int muster_build_offer(struct muster_build *build, const struct muster_member *member,
                       uint32_t class, const struct muster_op *op)
{
    const struct muster_report_comm *comm = &build->report->comm[member->comm];
    if (!comparable(op->func) || muster_op_source(op) != MUSTER_SOURCE_GPU ||
        (op->flags & MUSTER_OP_UNSCORED) || !comm->id || comm->twice ||
        (comm->seen < 2 && !comm->full)) {
        return 0;
    }
    if (build->peer_ops == build->peer_op_room) {
        size_t room = build->peer_op_room ? 2 * build->peer_op_room : 1024;
        struct muster_peer_op *at = reallocarray(build->peer_op, room, sizeof *at);
        if (!at) {
            return -1;
        }
        build->peer_op = at;
        build->peer_op_room = room;
    }
    build->peer_op[build->peer_ops++] = (struct muster_peer_op){
        .number = op->number,
        .count = op->count,
        .ns = muster_op_duration_ns(op),
        .stream = member->comm << 1 | ((op->flags & MUSTER_OP_GRAPH) != 0),
        .member = (uint32_t)(member - build->member),
        .class = class,
        .func = op->func,
    };
    return 0;
}

static int by_number(const void *left, const void *right)
{
    const struct muster_peer_op *a = left;
    const struct muster_peer_op *b = right;
    if (a->stream != b->stream) {
        return a->stream < b->stream ? -1 : 1;
    }
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    return a->member < b->member ? -1 : a->member > b->member;
}

static void add(double *sum, double us)
{
    *sum = isnan(*sum) ? us : *sum + us;
}

/* The same operation on all ranks that are seen. */
static int compare(struct muster_build *build, const struct muster_peer_op *op, size_t n)
{
    struct muster_report *report = build->report;
    bool full = report->comm[op->stream >> 1].full;
    uint64_t shortest = op->ns;
    uint64_t longest = op->ns;
    for (size_t i = 1; i < n; i++) {
        if (op[i].member == op[i - 1].member || op[i].func != op->func ||
            op[i].count != op->count) {
            report->mismatched++;
            return 0;
        }
        shortest = op[i].ns < shortest ? op[i].ns : shortest;
        longest = op[i].ns > longest ? op[i].ns : longest;
    }
    report->joint++;
    for (size_t i = 0; i < n; i++) {
        struct muster_report_rank *rank = &report->rank[build->member[op[i].member].entry];
        rank->joint_ops++;
        add(&rank->late_us, (double)(longest - op[i].ns) / (double)MUSTER_NS_PER_US);
        if (full) {
            add(&rank->wait_us, (double)(op[i].ns - shortest) / (double)MUSTER_NS_PER_US);
        }
    }
    return full ? muster_samples_add(&build->transfer, op->class, shortest) : 0;
}

int muster_build_joint(struct muster_build *build)
{
    const struct muster_peer_op *op = build->peer_op;
    if (build->peer_ops) {
        qsort(build->peer_op, build->peer_ops, sizeof *build->peer_op, by_number);
    }
    for (size_t i = 0, next; i < build->peer_ops; i = next) {
        for (next = i + 1; next < build->peer_ops && op[next].stream == op[i].stream &&
                           op[next].number == op[i].number;
             next++) {
        }
        if (next - i == build->report->comm[op[i].stream >> 1].seen &&
            compare(build, &op[i], next - i)) {
            return -1;
        }
    }
    return 0;
}
