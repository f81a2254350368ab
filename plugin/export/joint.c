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

enum { KEY_BYTES = sizeof(uint64_t) + sizeof(uint32_t) };

/* Byte `i` of the key, from the lowest: first the number's, then the stream's. */
static unsigned key_byte(const struct muster_peer_op *op, unsigned i)
{
    uint64_t part =
        i < sizeof op->number ? op->number >> (8 * i) : op->stream >> (8 * (i - sizeof op->number));
    return part & 0xff;
}

/* In which bytes of their keys the operations are not all the same; how many. */
static unsigned differing(const struct muster_peer_op *op, size_t n, unsigned byte[KEY_BYTES])
{
    struct muster_peer_op other = {0};
    for (size_t i = 0; i < n; i++) {
        other.number |= op[i].number ^ op[0].number;
        other.stream |= op[i].stream ^ op[0].stream;
    }
    unsigned bytes = 0;
    for (unsigned b = 0; b < KEY_BYTES; b++) {
        if (key_byte(&other, b)) {
            byte[bytes++] = b;
        }
    }
    return bytes;
}

/* By stream and number. A radix sort, because millions of operations come as a few ascending runs
 * whose keys differ in few bytes: a byte in which all agree costs nothing. */
static int sort(struct muster_build *build)
{
    size_t n = build->peer_ops;
    struct muster_peer_op *from = build->peer_op;
    struct muster_peer_op *to = malloc((n + 1) * sizeof *to);
    size_t(*with)[256] = calloc(KEY_BYTES, sizeof *with);
    if (!to || !with) {
        free(to);
        free(with);
        return -1;
    }
    unsigned byte[KEY_BYTES];
    unsigned bytes = differing(from, n, byte);
    for (size_t i = 0; i < n; i++) {
        for (unsigned b = 0; b < bytes; b++) {
            with[byte[b]][key_byte(&from[i], byte[b])]++;
        }
    }
    for (unsigned b = 0; b < bytes; b++) {
        size_t *place = with[byte[b]];
        for (size_t at = 0, v = 0; v < 256; v++) {
            size_t own = place[v];
            place[v] = at;
            at += own;
        }
        for (size_t i = 0; i < n; i++) {
            to[place[key_byte(&from[i], byte[b])]++] = from[i];
        }
        struct muster_peer_op *swap = from;
        from = to;
        to = swap;
    }
    free(to);
    free(with);
    build->peer_op = from;
    build->peer_op_room = n + 1;
    return 0;
}

static void add(double *sum, double us)
{
    *sum = isnan(*sum) ? us : *sum + us;
}

/* Whether every rank has it once, and they called the same. `last` holds, for each member, the
 * operation where it was met last. */
static bool agree(const struct muster_peer_op *op, size_t n, const struct muster_peer_op **last)
{
    for (size_t i = 0; i < n; i++) {
        if (last[op[i].member] == op || op[i].func != op->func || op[i].count != op->count) {
            return false;
        }
        last[op[i].member] = op;
    }
    return true;
}

/* The same operation on all ranks that are seen. */
static int compare(struct muster_build *build, const struct muster_peer_op *op, size_t n)
{
    struct muster_report *report = build->report;
    bool full = report->comm[op->stream >> 1].full;
    uint64_t shortest = op->ns;
    uint64_t longest = op->ns;
    for (size_t i = 1; i < n; i++) {
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
    const struct muster_peer_op **last = calloc(build->members + 1, sizeof *last);
    int result = last ? sort(build) : -1;
    const struct muster_peer_op *op = build->peer_op;
    for (size_t i = 0, next; i < build->peer_ops && result == 0; i = next) {
        next = i + 1;
        while (next < build->peer_ops && op[next].stream == op[i].stream &&
               op[next].number == op[i].number) {
            next++;
        }
        if (next - i != build->report->comm[op[i].stream >> 1].seen) {
            continue;
        }
        if (agree(&op[i], next - i, last)) {
            result = compare(build, &op[i], next - i);
        } else {
            build->report->mismatched++;
        }
    }
    free(last);
    return result;
}
