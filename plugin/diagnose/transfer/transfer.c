#include "diagnose/transfer/transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "diagnose/confidence.h"
#include "diagnose/transfer/transfer_internal.h"
#include "view/aligned.h"

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
        if (!muster_joint_ends_together(joint.any->func)) {
            continue;
        }
        uint64_t shortest = muster_joint_span(&joint).shortest_ns;
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

bool muster_transfer_named(const struct muster_findings *findings, uint64_t comm,
                           enum muster_finding_kind kind)
{
    for (size_t i = 0; i < findings->n; i++) {
        if (findings->finding[i].kind == kind && findings->finding[i].comm == comm) {
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
    muster_transfer_op(view, comm, moved->longest, moved->first, finding);
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

/* A late rank in it, or in what its ranks do elsewhere. */
static bool is_held_up(const struct muster_view *view, const struct muster_view_comm *comm,
                       const struct muster_findings *findings)
{
    for (size_t i = 0; i < findings->n; i++) {
        const struct muster_finding *finding = &findings->finding[i];
        for (uint32_t m = 0; m < comm->members && muster_finding_is_late(finding); m++) {
            int32_t rank = view->gpu[view->member[comm->first_member + m].gpu].rank;
            for (unsigned r = 0; r < finding->ranks; r++) {
                if (finding->rank[r] == rank) {
                    return true;
                }
            }
        }
    }
    return false;
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

/* By what the network proxies of its links waited. */
static int by_links(const struct muster_view *view, uint32_t c, struct link *link,
                    const struct muster_view_span *span, struct muster_findings *findings)
{
    struct moved moved;
    size_t n = waits_are_real(view, &view->comm[c]) ? collect(view, c, link) : 0;
    if (n == 0) {
        return 0;
    }
    if (measure(view, c, &moved)) {
        return -1;
    }
    if (!stands_out(link, n, &moved) || !gpu_of(view, &view->comm[c], link[0].net->peer)) {
        return 0;
    }
    struct muster_finding *finding = muster_findings_add(findings);
    if (!finding) {
        return -1;
    }
    word(view, c, link, n, &moved, span[view->member[link[0].net->member].gpu].covered_ns, finding);
    return 0;
}

/* By what its collectives took before, and, later, in other communicators. */
static int by_collectives(const struct muster_view *view, uint32_t c,
                          const struct muster_view_span *span,
                          struct muster_transfer_classes *classes, struct muster_findings *findings)
{
    struct muster_transfers transfers = {0};
    int result = muster_transfers_of_comm(view, c, &transfers);
    if (result == 0) {
        result = muster_transfers_sort(&transfers);
    }
    if (result == 0) {
        result = muster_transfer_history(view, c, MUSTER_VIEW_NONE, MUSTER_VIEW_NONE, &transfers,
                                         span, findings);
    }
    if (result == 0) {
        result = muster_transfer_summarise(view, c, &transfers, classes);
    }
    free(transfers.at);
    return result;
}

static int by_pair(const struct muster_view *view, const struct muster_hashmap *loads, uint32_t c,
                   uint32_t from, uint32_t to, const struct muster_view_span *span,
                   struct muster_findings *findings)
{
    struct muster_transfers transfers = {0};
    int result = muster_transfers_of_pair(view, loads, from, to, &transfers);
    if (result == 0) {
        result = muster_transfers_sort(&transfers);
    }
    if (result == 0) {
        result = muster_transfer_history(view, c, from, to, &transfers, span, findings);
    }
    free(transfers.at);
    return result;
}

/* By what the sends of a member took before. */
static int by_sends_of(const struct muster_view *view, uint32_t c, uint32_t m,
                       const struct muster_view_span *span, struct muster_findings *findings)
{
    const struct muster_view_comm *comm = &view->comm[c];
    const struct muster_view_member *member = &view->member[m];
    struct muster_hashmap loads;
    int32_t peer = -1;
    int result = 0;
    for (uint32_t i = 0; i < member->ops && result == 0; i++) {
        const struct muster_view_op *op = &view->op[member->first_op + i];
        /* Sorted by peer. */
        if (op->func != MUSTER_FUNC_SEND || op->peer == peer || op->peer < 0 ||
            (uint32_t)op->peer >= comm->members)
            continue;
        if (peer < 0 && muster_transfer_loads(view, m, &loads) != 0)
            return -1;
        peer = op->peer;
        result =
            by_pair(view, &loads, c, m, comm->first_member + (uint32_t)peer, span, findings);
    }
    if (peer >= 0)
        muster_hashmap_free(&loads);
    return result;
}

static int by_sends(const struct muster_view *view, uint32_t c, const struct muster_view_span *span,
                    struct muster_findings *findings)
{
    const struct muster_view_comm *comm = &view->comm[c];
    int result = 0;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members && result == 0; m++)
        result = by_sends_of(view, c, m, span, findings);
    return result;
}

static bool is_readable(const struct muster_view *view, const struct muster_view_comm *comm,
                        const struct muster_findings *findings)
{
    return muster_joint_possible(comm) && comm->members == comm->nranks &&
           !is_held_up(view, comm, findings);
}

static int read_comm(const struct muster_view *view, uint32_t c, struct link *link,
                     const struct muster_view_span *span, struct muster_transfer_classes *classes,
                     struct muster_findings *findings)
{
    int result = view->nets ? by_links(view, c, link, span, findings) : 0;
    if (result == 0 &&
        !muster_transfer_named(findings, view->comm[c].id, MUSTER_FINDING_SLOW_TRANSFER)) {
        result = by_collectives(view, c, span, classes, findings);
    }
    return result ? result : by_sends(view, c, span, findings);
}

int muster_diagnose_transfer(const struct muster_view *view, struct muster_findings *findings,
                             struct muster_err *err)
{
    struct link *link = calloc(view->nets + 1, sizeof *link);
    struct muster_view_span *span = NULL;
    struct muster_transfer_classes classes = {0};
    int result = link ? 0 : -1;
    for (uint32_t c = 0; c < view->comms && result == 0; c++) {
        if (!is_readable(view, &view->comm[c], findings)) {
            continue;
        }
        span = span ? span : muster_view_spans(view);
        result = span ? read_comm(view, c, link, span, &classes, findings) : -1;
    }
    if (result == 0) {
        result = muster_transfer_compare(view, &classes, span, findings);
    }
    free(classes.at);
    free(link);
    free(span);
    return result ? muster_fail_memory(err, "looking for slow transfers") : 0;
}
