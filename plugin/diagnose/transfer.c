#include "diagnose/transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "diagnose/confidence.h"
#include "diagnose/joint.h"
#include "diagnose/late_build.h"

#define WAIT_SHARE                                                                                 \
    0.3 /* of all transfers: what the sender of a slow link waits for the network                  \
         */
enum {
    TIMES = 4,       /* as long, per byte, as the other links typically */
    STEPS_MIN = 100, /* of the network proxy, on a link */
    OPS_MIN = 20,
};

/* One directed link between hosts, as its sender sees it. */
struct link {
    const struct muster_view_net *net;
    double wait; /* for the network, ns a byte */
};

/* What the collectives of a communicator took when everybody was there. */
struct moved {
    uint64_t ops, transfer_ns;
    const struct muster_view_op *first, *longest;
    uint64_t longest_ns;
};

static int measure(const struct muster_view *view, uint32_t comm, struct moved *moved)
{
    struct muster_joint joint;
    memset(moved, 0, sizeof *moved);
    if (muster_joint_begin(&joint, view, comm)) {
        return -1;
    }
    while (muster_joint_next(&joint)) {
        uint64_t shortest = UINT64_MAX;
        for (uint32_t i = 0; i < joint.comm->members; i++) {
            const struct muster_view_op *op = joint.op[i];
            if (op && op->end_ns - op->begin_ns < shortest) {
                shortest = op->end_ns - op->begin_ns;
            }
        }
        moved->ops++;
        moved->transfer_ns += shortest;
        moved->first = moved->first ? moved->first : joint.any;
        if (shortest > moved->longest_ns) {
            moved->longest_ns = shortest;
            moved->longest = joint.any;
        }
    }
    muster_joint_end(&joint);
    return 0;
}

static int by_wait(const void *left, const void *right)
{
    const struct link *a = left;
    const struct link *b = right;
    return a->wait > b->wait ? -1 : a->wait < b->wait;
}

/* The senders' rows of the communicator, the longest wait first. */
static size_t collect(const struct muster_view *view, uint32_t comm, struct link *link)
{
    size_t n = 0;
    for (size_t i = 0; i < view->nets; i++) {
        const struct muster_view_net *net = &view->net[i];
        if (view->member[net->member].comm == comm && net->send && net->steps >= STEPS_MIN &&
            net->bytes) {
            link[n++] =
                (struct link){.net = net, .wait = (double)net->net_wait_ns / (double)net->bytes};
        }
    }
    qsort(link, n, sizeof *link, by_wait);
    return n;
}

static bool has_late_rank(const struct muster_findings *findings, uint64_t comm)
{
    for (size_t i = 0; i < findings->n; i++) {
        if (findings->finding[i].kind == MUSTER_FINDING_LATE_RANK &&
            findings->finding[i].comm == comm) {
            return true;
        }
    }
    return false;
}

static const struct muster_view_gpu *gpu_of(const struct muster_view *view,
                                            const struct muster_view_comm *comm, int32_t rank)
{
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++) {
        if (view->member[m].rank == rank) {
            return &view->gpu[view->member[m].gpu];
        }
    }
    return NULL;
}

/* The receiver's side of a link, for what it says about itself. */
static const struct muster_view_net *other_end(const struct muster_view *view,
                                               const struct muster_view_net *net)
{
    const struct muster_view_member *from = &view->member[net->member];
    for (size_t i = 0; i < view->nets; i++) {
        const struct muster_view_net *other = &view->net[i];
        const struct muster_view_member *to = &view->member[other->member];
        if (!other->send && to->comm == from->comm && to->rank == net->peer &&
            other->peer == from->rank) {
            return other;
        }
    }
    return NULL;
}

static double s(uint64_t ns)
{
    return (double)ns / (double)MUSTER_NS_PER_S;
}

static void set_op(const struct muster_view *view, const struct muster_view_comm *comm,
                   const struct moved *moved, struct muster_finding *finding)
{
    const struct muster_view_op *op = moved->longest;
    const struct muster_view_class *class = &view->class[op->class];
    const struct muster_view_gpu *gpu = &view->gpu[view->member[moved->first->member].gpu];
    finding->has_op = true;
    finding->op.func = op->func;
    finding->op.dtype = class->dtype;
    finding->op.index = op->number;
    finding->op.bytes = muster_op_size_bytes(op->func, class->dtype, op->count, comm->nranks);
    finding->since_unix_ns = moved->first->enqueue_ns + (uint64_t)gpu->unix_ns;
}

static void word(const struct muster_view *view, uint32_t c, const struct link *link, size_t links,
                 const struct moved *moved, uint64_t covered_ns, struct muster_finding *finding)
{
    const struct muster_view_comm *comm = &view->comm[c];
    const struct muster_view_net *net = link[0].net;
    const struct muster_view_net *back = other_end(view, net);
    const struct muster_view_gpu *from = &view->gpu[view->member[net->member].gpu];
    const struct muster_view_gpu *to = gpu_of(view, comm, net->peer);
    double usual = link[links / 2].wait;
    finding->kind = MUSTER_FINDING_SLOW_TRANSFER;
    finding->comm = comm->id;
    finding->rank[0] = from->rank;
    finding->rank[1] = to->rank;
    finding->ranks = 2;
    muster_text_copy(finding->host, sizeof finding->host, from->host);
    finding->gpu = from->gpu_index;
    set_op(view, comm, moved, finding);
    /* Without the slow link the others set the pace. */
    finding->cost_s = s(moved->transfer_ns) * (1 - usual / link[0].wait);
    finding->cost_share =
        covered_ns ? finding->cost_s * (double)MUSTER_NS_PER_S / (double)covered_ns : 0;
    finding->confidence = muster_confidence_transfer();
    muster_finding_say(&finding->evidence,
                       "sending from rank %" PRId32 " (host %s) to rank %" PRId32 " (host %s) "
                       "waited %.2f s for the network, %.1f times as long a byte as the other "
                       "links between hosts",
                       from->rank, from->host, to->rank, to->host, s(net->net_wait_ns),
                       usual > 0 ? link[0].wait / usual : 0.0);
    muster_finding_say(&finding->evidence,
                       "all %" PRIu32 " ranks are in view, none is late, and %" PRIu64
                       " operations took %.2f s after the last rank had come",
                       comm->nranks, moved->ops, s(moved->transfer_ns));
    if (back) {
        muster_finding_say(&finding->evidence,
                           "its receiver waited %.2f s for data and %.2f s for its own GPU",
                           s(back->net_wait_ns), s(back->gpu_wait_ns));
    }
    if (from->timing == MUSTER_TIMING_AUTO) {
        muster_finding_say(&finding->not_observable,
                           "waits are of the operations timed in blocks, not of the run");
    }
    muster_finding_say(&finding->not_observable,
                       "whether the sender's port, the path, or the receiver's port is slow");
    snprintf(finding->advice, sizeof finding->advice,
             "check link speed, errors, and other traffic on the way from %s to %s, in that "
             "direction",
             from->host, to->host);
}

/* A link that stands out by what its own sender waits for the network. RecvWait and SendGPUWait
 * are high everywhere around a slow link: they only pass it on. */
static bool stands_out(const struct link *link, size_t n, const struct moved *moved)
{
    return n >= 2 && link[0].wait >= TIMES * link[n / 2].wait && moved->ops >= OPS_MIN &&
           (double)link[0].net->net_wait_ns >= WAIT_SHARE * (double)moved->transfer_ns;
}

/* Waits are on the host's clock, which a replay at full speed does not keep. */
static bool waits_are_real(const struct muster_view *view, const struct muster_view_comm *comm)
{
    for (uint32_t m = 0; m < comm->members; m++) {
        if (!view->gpu[view->member[comm->first_member + m].gpu].host_times)
            return false;
    }
    return true;
}

int muster_diagnose_transfer(const struct muster_view *view, struct muster_findings *findings,
                             struct muster_err *err)
{
    struct link *link = calloc(view->nets + 1, sizeof *link);
    struct muster_late_span *span = muster_late_spans(view);
    int result = link && span ? 0 : -1;
    for (uint32_t c = 0; c < view->comms && view->nets && result == 0; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        struct moved moved;
        if (!muster_joint_possible(comm) || comm->members != comm->nranks ||
            !waits_are_real(view, comm) || has_late_rank(findings, comm->id)) {
            continue;
        }
        size_t n = collect(view, c, link);
        result = n ? measure(view, c, &moved) : 0;
        if (result || !n || !stands_out(link, n, &moved) ||
            !gpu_of(view, comm, link[0].net->peer)) {
            continue;
        }
        struct muster_finding *finding = muster_findings_add(findings);
        result = finding ? 0 : -1;
        if (finding) {
            uint32_t gpu = view->member[link[0].net->member].gpu;
            word(view, c, link, n, &moved, span[gpu].covered_ns, finding);
        }
    }
    free(link);
    free(span);
    return result ? muster_fail(err, "out of memory while looking for slow transfers") : 0;
}
