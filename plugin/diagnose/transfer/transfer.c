#include "diagnose/transfer/transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "diagnose/confidence.h"
#include "diagnose/straggler/what_if.h"
#include "diagnose/transfer/transfer_internal.h"
#include "view/aligned.h"

/* Of all transfers: what the sender of a slow link waits for the network */
#define WAIT_SHARE 0.3
#define WORTH      0.005 /* of the time, as of a late rank: computing may hide the rest */
enum {
    TIMES = 4,       /* as long, per byte, as the other links typically */
    STEPS_MIN = 100, /* of the network proxy, on a link */
    OPS_MIN = 5,
};

/* One directed link between hosts, as its sender sees it. */
struct link {
    const struct muster_view_net *net;
    double wait; /* for the network, ns a byte */
};

/* A slow link of a communicator: of several between the same hosts one finding is made. */
struct crossing {
    uint32_t comm;
    const struct muster_view_net *net;
    const struct muster_view_gpu *from, *to; /* the sender's and the receiver's */
    size_t links;
    double wait, usual; /* of it, of the typical link; ns a byte */
    bool described;
};

struct crossings {
    struct crossing *at;
    size_t n;
};

/* What the collectives of a communicator took when everybody was there. */
struct moved {
    uint64_t ops, transfer_ns;
    const struct muster_view_op *first, *longest;
    uint64_t longest_ns;
};

static void measure(const struct muster_view *view, uint32_t comm, struct muster_arena *memory,
                    struct moved *moved)
{
    struct muster_joint joint;
    memset(moved, 0, sizeof *moved);
    muster_joint_begin(&joint, view, comm, NULL, memory);
    while (muster_joint_next(&joint)) {
        if (!muster_joint_ends_together(joint.any->func))
            continue;
        uint64_t shortest = muster_joint_span(&joint).shortest_ns;
        moved->ops++;
        moved->transfer_ns += shortest;
        moved->first = moved->first ? moved->first : joint.any;
        if (shortest > moved->longest_ns) {
            moved->longest_ns = shortest;
            moved->longest = joint.any;
        }
    }
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
    for (size_t i = 0; i < findings->n; i++)
        if (findings->finding[i].kind == kind && findings->finding[i].comm == comm)
            return true;
    return false;
}

static const struct muster_view_gpu *gpu_of(const struct muster_view *view,
                                            const struct muster_view_comm *comm, int32_t rank)
{
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++)
        if (view->member[m].rank == rank)
            return &view->gpu[view->member[m].gpu];
    return NULL;
}

/* The receiver's side of a link, for what it shows of itself. */
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

static void describe(const struct muster_view *view, const struct crossing *own,
                     const struct moved *moved, struct muster_finding *finding)
{
    const struct muster_view_comm *comm = &view->comm[own->comm];
    const struct muster_view_net *net = own->net;
    const struct muster_view_net *back = other_end(view, net);
    const struct muster_view_gpu *from = own->from, *to = own->to;
    finding->kind = MUSTER_FINDING_SLOW_TRANSFER;
    finding->comm = comm->id;
    muster_finding_set_ends(finding, from, to);
    muster_transfer_op(view, comm, moved->longest, moved->first, finding);
    finding->confidence = muster_confidence_transfer();
    muster_finding_line(&finding->evidence,
                        "sending from rank %" PRId32 " (host %s) to rank %" PRId32 " (host %s) "
                        "waited %.2f s for the network, %.1f times as long a byte as the other "
                        "links between hosts",
                        from->rank, from->host, to->rank, to->host, s(net->net_wait_ns),
                        own->usual > 0 ? own->wait / own->usual : 0.0);
    muster_finding_line(&finding->evidence,
                        "all %" PRIu32 " ranks are in view, none is late, and %" PRIu64
                        " operations took %.2f s after the last rank had come",
                        comm->nranks, moved->ops, s(moved->transfer_ns));
    if (back) {
        muster_finding_line(&finding->evidence,
                            "its receiver waited %.2f s for data and %.2f s for its own GPU",
                            s(back->net_wait_ns), s(back->gpu_wait_ns));
    }
    if (from->timing == MUSTER_TIMING_AUTO) {
        muster_finding_line(&finding->not_observable,
                            "waits are of the operations timed in blocks, not of the run");
    }
    muster_finding_line(&finding->not_observable,
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
            for (unsigned r = 0; r < finding->ranks; r++)
                if (finding->rank[r] == rank)
                    return true;
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
    for (uint32_t m = 0; m < comm->members; m++)
        if (!view->gpu[view->member[comm->first_member + m].gpu].host_times)
            return false;
    return true;
}

/* By what the network proxies of its links waited. */
static void by_links(const struct muster_view *view, uint32_t c, struct muster_arena *memory,
                     struct link *link, struct crossings *crossings)
{
    struct moved moved;
    size_t n = waits_are_real(view, &view->comm[c]) ? collect(view, c, link) : 0;
    if (n == 0)
        return;
    measure(view, c, memory, &moved);
    const struct muster_view_gpu *to = gpu_of(view, &view->comm[c], link[0].net->peer);
    if (!stands_out(link, n, &moved) || !to)
        return;
    struct crossing *own = muster_arena_add(memory, &crossings->at, &crossings->n, sizeof *own);
    *own = (struct crossing){.comm = c,
                             .net = link[0].net,
                             .from = &view->gpu[view->member[link[0].net->member].gpu],
                             .to = to,
                             .links = n,
                             .wait = link[0].wait,
                             .usual = link[n / 2].wait};
}

static bool crosses(const struct crossings *crossings, uint32_t comm)
{
    bool found = false;
    for (size_t i = 0; i < crossings->n; i++)
        found |= crossings->at[i].comm == comm;
    return found;
}

static bool same_way(const struct crossing *a, const struct crossing *b)
{
    return strcmp(a->from->host, b->from->host) == 0 && strcmp(a->to->host, b->to->host) == 0;
}

/* The share of a transfer that stays without the slow link. It would take no longer than twice what
 * its sender waits for its own GPU, as where nothing is slow it waits about as long for the
 * network; and no shorter than at the pace of the other links, most of which only wait for this
 * one. */
static double kept_share(const struct crossing *own, bool most)
{
    double gpu = (double)own->net->gpu_wait_ns, net = (double)own->net->net_wait_ns;
    double by_gpu = 2 * gpu / (gpu + net), by_others = own->usual / own->wait;
    by_gpu = by_gpu < 1 ? by_gpu : 1;
    bool swap = by_gpu < by_others;
    return most == swap ? by_others : by_gpu;
}

enum estimate { LEAST, USUAL, MOST, ESTIMATES };

/* Of all communicators that go the way of `own`. */
static void saved_s(const struct muster_view *view, const struct crossings *crossings,
                    const struct crossing *own, struct muster_arena *memory, double *keep,
                    double cost_s[ESTIMATES])
{
    for (unsigned e = 0; e < ESTIMATES; e++) {
        for (size_t c = 0; c < view->comms; c++)
            keep[c] = 1;
        for (size_t i = 0; i < crossings->n; i++) {
            const struct crossing *one = &crossings->at[i];
            double least = kept_share(one, false), most = kept_share(one, true);
            if (same_way(one, own))
                keep[one->comm] = e == LEAST ? most : e == MOST ? least : (least + most) / 2;
        }
        cost_s[e] = muster_hastened_ns(view, keep, memory) / (double)MUSTER_NS_PER_S;
    }
}

/* One finding of all that go the way of the first. */
static void describe_way(const struct muster_view *view, struct crossings *crossings, size_t first,
                         const struct muster_view_span *span, struct muster_arena *memory,
                         double *keep, struct muster_findings *findings)
{
    const struct crossing *own = &crossings->at[first];
    const struct muster_view_span *its = &span[view->member[own->net->member].gpu];
    double cost_s[ESTIMATES];
    struct moved moved;
    unsigned comms = 0;
    for (size_t i = first; i < crossings->n; i++) {
        bool same = same_way(&crossings->at[i], &crossings->at[first]);
        comms += same;
        crossings->at[i].described |= same;
        own = same && crossings->at[i].wait > own->wait ? &crossings->at[i] : own;
    }
    saved_s(view, crossings, own, memory, keep, cost_s);
    measure(view, own->comm, memory, &moved);
    double covered_s = s(its->covered_ns);
    if (memory->failed || !(cost_s[USUAL] >= WORTH * covered_s))
        return; /* computing hides it */
    struct muster_finding *finding = muster_findings_add(findings);
    if (!finding) {
        memory->failed = true;
        return;
    }
    describe(view, own, &moved, finding);
    finding->cost_s = cost_s[USUAL];
    finding->cost_low_s = cost_s[LEAST];
    finding->cost_high_s = cost_s[MOST];
    finding->cost_share = finding->cost_s / covered_s;
    finding->cost_run_s = finding->cost_share * s(its->length_ns);
    if (comms > 1) {
        muster_finding_line(&finding->evidence,
                            "the same in %u communicators that go from host %s to host %s", comms,
                            own->from->host, own->to->host);
    }
}

static void describe_crossings(const struct muster_view *view, struct crossings *crossings,
                               const struct muster_view_span *span, struct muster_arena *memory,
                               struct muster_findings *findings)
{
    double *keep = muster_arena_array(memory, view->comms + 1, sizeof *keep);
    for (size_t i = 0; i < crossings->n && !memory->failed; i++)
        if (!crossings->at[i].described)
            describe_way(view, crossings, i, span, memory, keep, findings);
}

/* What a search holds. */
struct reading {
    const struct muster_view *view;
    struct muster_arena memory;
    struct link *link; /* scratch */
    struct muster_view_span *span;
    struct muster_transfer_classes classes;
    struct crossings crossings;
};

/* By what its collectives took before, and, later, in other communicators. */
static void by_collectives(struct reading *in, uint32_t c, struct muster_findings *findings)
{
    struct muster_arena scratch = {0};
    struct muster_transfers transfers = {0};
    muster_transfers_of_comm(in->view, c, &scratch, &transfers);
    if (!scratch.failed) {
        scratch.failed |= muster_transfer_history(in->view, c, MUSTER_VIEW_NONE, MUSTER_VIEW_NONE,
                                                  &transfers, in->span, findings) != 0;
        muster_transfer_summarise(in->view, c, &transfers, &in->memory, &in->classes);
    }
    muster_arena_end(&scratch, &in->memory);
}

static void by_pair(struct reading *in, const struct muster_launches *launches, uint32_t from,
                    uint32_t to, struct muster_findings *findings)
{
    struct muster_arena scratch = {0};
    struct muster_transfers transfers = {0};
    muster_transfers_of_pair(in->view, launches, from, to, &scratch, &transfers);
    if (!scratch.failed) {
        scratch.failed |= muster_transfer_history(in->view, launches->comm, from, to, &transfers,
                                                  in->span, findings) != 0;
    }
    muster_arena_end(&scratch, &in->memory);
}

/* By what the sends of a member took before. */
static void by_sends_of(struct reading *in, const struct muster_launches *launches, uint32_t m,
                        struct muster_findings *findings)
{
    const struct muster_view *view = in->view;
    const struct muster_view_comm *comm = &view->comm[launches->comm];
    const struct muster_view_member *member = &view->member[m];
    int32_t peer = -1;
    for (uint32_t i = 0; i < member->ops && !in->memory.failed; i++) {
        const struct muster_view_op *op = &view->op[member->first_op + i];
        /* Sorted by peer. */
        if (op->func != MUSTER_FUNC_SEND || op->peer == peer || op->peer < 0 ||
            (uint32_t)op->peer >= comm->members)
            continue;
        peer = (int32_t)op->peer;
        by_pair(in, launches, m, comm->first_member + (uint32_t)peer, findings);
    }
}

static void by_sends(struct reading *in, uint32_t c, struct muster_findings *findings)
{
    const struct muster_view_comm *comm = &in->view->comm[c];
    struct muster_arena scratch = {0};
    struct muster_launches launches;
    muster_launches_of(in->view, c, &scratch, &launches);
    for (uint32_t m = 0; m < comm->members && launches.n && !scratch.failed; m++)
        by_sends_of(in, &launches, comm->first_member + m, findings);
    muster_launches_free(in->view, &launches);
    muster_arena_end(&scratch, &in->memory);
}

static bool is_readable(const struct muster_view *view, const struct muster_view_comm *comm,
                        const struct muster_findings *findings)
{
    return muster_joint_possible(comm) && comm->members == comm->nranks &&
           !is_held_up(view, comm, findings);
}

/* A send waits for who receives, and that one for whom it waits elsewhere: no communicator is far
 * enough from a late rank. */
static void read_all(struct reading *in, struct muster_findings *findings)
{
    const struct muster_view *view = in->view;
    bool late = muster_findings_any_late(findings);
    for (uint32_t c = 0; c < view->comms && view->nets; c++)
        if (is_readable(view, &view->comm[c], findings))
            by_links(view, c, &in->memory, in->link, &in->crossings);
    describe_crossings(view, &in->crossings, in->span, &in->memory, findings);
    for (uint32_t c = 0; c < view->comms && !in->memory.failed; c++) {
        if (!is_readable(view, &view->comm[c], findings))
            continue;
        if (!crosses(&in->crossings, c))
            by_collectives(in, c, findings);
        if (!late)
            by_sends(in, c, findings);
    }
    if (!in->memory.failed && muster_transfer_compare(view, &in->classes, in->span, findings) != 0)
        in->memory.failed = true;
}

int muster_diagnose_transfer(const struct muster_view *view, struct muster_findings *findings,
                             struct muster_err *err)
{
    struct reading in = {.view = view};
    in.link = muster_arena_array(&in.memory, view->nets + 1, sizeof *in.link);
    in.span = muster_view_spans(view, &in.memory);
    if (!in.memory.failed)
        read_all(&in, findings);
    int result = muster_arena_check(&in.memory, err, "looking for slow transfers");
    muster_arena_free(&in.memory);
    return result;
}
