#include "diagnose/straggler/straggler_links.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/hashmap.h"
#include "base/nccl_types.h"
#include "diagnose/confidence.h"

#define LONGER 2.5   /* than over the other links */
#define SPREAD 1.5   /* of those, the longest to the shortest */
#define WORTH  0.005 /* of the time, as of a late rank: computing may hide the rest */
/* Of what the launches took longer: the rest their ranks would have waited for others. Median, and
 * four in five, of 112 generated faults (seeds 1 to 150). */
#define COST      0.82
#define COST_LOW  0.53
#define COST_HIGH 1.22
enum {
    OTHERS_LEAST = 3,
    SENT_LEAST = 20,     /* over each link, in their own time */
    TIES_MOST = 1 << 19, /* looked at, spread evenly: 20 MB at most */
    IN_TEN = 10,         /* of so many one may be shorter */
};

/* A send, or several of one launch, with nobody to wait for. Those of one kind are as many bytes,
 * in communicators that are used alike. */
struct sent {
    uint64_t kind, ns;
    uint32_t from, to; /* hosts */
    uint32_t unit;     /* the sender's */
    uint32_t receiver; /* unit */
};

/* All of one kind from one host to another. */
struct way {
    uint32_t from, to;
    uint64_t floor_ns; /* nine in ten take longer */
    size_t n;
    uint32_t unit, receiver; /* of the lowest rank that sends */
};

struct ways {
    struct way *at;
    size_t n;
};

/* The ways that stand out, and what the others take. */
struct slow {
    uint64_t kind;
    const struct way *way; /* the slowest */
    size_t ways, others;
    uint32_t host;   /* that all of them begin or end at */
    bool many, both; /* ways to several hosts; there and back */
    uint64_t usual_ns;
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t length_of(const struct muster_graph *graph, uint32_t u)
{
    return (uint64_t)muster_unit_length_ns(graph, &graph->unit[u]);
}

static uint32_t host_of(const struct muster_graph *graph, uint32_t u)
{
    return graph->host[muster_unit_gpu(graph, &graph->unit[u])];
}

static int32_t rank_of(const struct muster_graph *graph, uint32_t u)
{
    return graph->view->gpu[muster_unit_gpu(graph, &graph->unit[u])].rank;
}

static uint64_t kind_of(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_view_op *op = muster_op_of(graph, &graph->unit[u]);
    uint64_t bytes = op->count * muster_dtype_bytes(graph->view->class[op->class].dtype);
    return muster_hash_number(graph->role[graph->view->member[op->member].comm], bytes);
}

/* Between two hosts, and scored on both. */
static bool crosses(const struct muster_graph *graph, uint32_t u, uint32_t partner)
{
    const struct muster_unit *unit = &graph->unit[u], *other = &graph->unit[partner];
    return unit->scored && other->scored && host_of(graph, u) != host_of(graph, partner);
}

/* What the way took, at most: who sends into a buffer waits for nobody; else whichever of the two
 * came last did not wait for the other. */
static uint64_t way_ns(const struct muster_graph *graph, uint32_t u, uint32_t partner)
{
    bool sent = graph->turn[graph->unit[u].turn].sent;
    return sent ? length_of(graph, u) : least(length_of(graph, u), length_of(graph, partner));
}

/* Of all that wait for each other who came last waited for nobody, and took the shortest. */
static bool in_its_own_time(const struct muster_graph *graph, uint32_t u, uint32_t partner,
                            uint64_t ns)
{
    const struct muster_turn *own = &graph->turn[graph->unit[u].turn];
    const struct muster_turn *its = &graph->turn[graph->unit[partner].turn];
    return own->sent || ns <= least(own->transfer_ns, its->transfer_ns);
}

static void collect(const struct muster_graph *graph, struct sent **sent, size_t *n)
{
    uint64_t step = graph->first_partner[graph->units] / TIES_MOST + 1;
    for (uint32_t u = 0; u < graph->units && !graph->memory->failed; u++) {
        if (muster_hash_number(step, u) % step)
            continue; /* not each so-manieth: steps of the job repeat */
        for (uint32_t i = graph->first_partner[u]; i < graph->first_partner[u + 1]; i++) {
            uint32_t partner = muster_partner(graph, i);
            if (!muster_partner_receives(graph, i) || !crosses(graph, u, partner))
                continue;
            uint64_t ns = way_ns(graph, u, partner);
            if (!in_its_own_time(graph, u, partner, ns))
                continue;
            struct sent *own = muster_arena_add(graph->memory, sent, n, sizeof *own);
            *own = (struct sent){.kind = kind_of(graph, u),
                                 .ns = ns,
                                 .from = host_of(graph, u),
                                 .to = host_of(graph, partner),
                                 .unit = u,
                                 .receiver = partner};
        }
    }
}

static int by_way(const void *left, const void *right)
{
    const struct sent *a = left, *b = right;
    const uint64_t one[] = {a->kind, a->from, a->to, a->ns, a->unit, a->receiver};
    const uint64_t two[] = {b->kind, b->from, b->to, b->ns, b->unit, b->receiver};
    for (unsigned i = 0; i < sizeof one / sizeof one[0]; i++)
        if (one[i] != two[i])
            return one[i] < two[i] ? -1 : 1;
    return 0;
}

static int by_floor(const void *left, const void *right)
{
    const struct way *a = left, *b = right;
    if (a->floor_ns != b->floor_ns)
        return a->floor_ns < b->floor_ns ? -1 : 1;
    return a->from != b->from ? (a->from < b->from ? -1 : 1) : (a->to > b->to) - (a->to < b->to);
}

/* n of one way, the shortest first. */
static struct way way_of(const struct muster_graph *graph, const struct sent *sent, size_t n)
{
    struct way way = {sent->from, sent->to, sent[n / IN_TEN].ns, n, sent->unit, sent->receiver};
    for (size_t i = 1; i < n; i++) {
        if (rank_of(graph, sent[i].unit) < rank_of(graph, way.unit)) {
            way.unit = sent[i].unit;
            way.receiver = sent[i].receiver;
        }
    }
    return way;
}

static void split(const struct muster_graph *graph, const struct sent *sent, size_t n,
                  struct ways *ways)
{
    ways->n = 0;
    for (size_t from = 0, end; from < n; from = end) {
        for (end = from;
             end < n && sent[end].from == sent[from].from && sent[end].to == sent[from].to;)
            end++;
        if (end - from >= SENT_LEAST)
            ways->at[ways->n++] = way_of(graph, &sent[from], end - from);
    }
    if (ways->n)
        qsort(ways->at, ways->n, sizeof *ways->at, by_floor);
}

static bool touches(const struct way *way, uint32_t host)
{
    return way->from == host || way->to == host;
}

/* What is slow between two groups of hosts is how they are wired; what all of it has one host in
 * common may be that host's. */
static bool have_common_host(const struct way *way, size_t n, uint32_t *host)
{
    const uint32_t either[] = {way[n - 1].from, way[n - 1].to};
    bool common = false;
    for (unsigned e = 0; e < 2 && !common; e++) {
        common = true;
        *host = either[e];
        for (size_t i = 0; i < n; i++)
            common &= touches(&way[i], *host);
    }
    return common;
}

/* In the order of their floors: those behind the widest gap, if that is wide enough and the others
 * are alike. */
static bool stands_out(const struct ways *ways, struct slow *slow)
{
    size_t others = 0;
    double widest = 0;
    for (size_t i = 1; i < ways->n; i++) {
        double gap = (double)ways->at[i].floor_ns / (double)(ways->at[i - 1].floor_ns + 1);
        others = gap > widest ? i : others;
        widest = gap > widest ? gap : widest;
    }
    size_t n = ways->n - others;
    if (others < OTHERS_LEAST || !have_common_host(&ways->at[others], n, &slow->host))
        return false;
    slow->usual_ns = ways->at[others / 2].floor_ns;
    slow->way = &ways->at[ways->n - 1];
    slow->ways = n;
    slow->others = others;
    for (size_t i = others; i < ways->n; i++) {
        bool same = touches(&ways->at[i], slow->way->from) && touches(&ways->at[i], slow->way->to);
        slow->many |= !same;
        slow->both |= same && ways->at[i].from != slow->way->from;
    }
    double usual = (double)slow->usual_ns;
    return (double)ways->at[others].floor_ns >= LONGER * usual &&
           (double)ways->at[others - 1].floor_ns <= SPREAD * (double)ways->at[0].floor_ns;
}

static bool is_slow(const struct slow *slow, uint32_t from, uint32_t to)
{
    if (slow->many)
        return from == slow->host || to == slow->host;
    bool back = from == slow->way->to && to == slow->way->from;
    return (from == slow->way->from && to == slow->way->to) || (slow->both && back);
}

/* What a member of a communicator lost by its launches to one peer over the link, or from it. */
struct lost {
    uint32_t member;
    uint64_t all;  /* launches */
    uint32_t seen; /* of these both sides were timed in so many, and lost: */
    double ns;
};

struct all_lost {
    struct muster_hashmap place; /* of member, peer and direction in `at` */
    struct lost *at;
    size_t n;
};

/* Whether what the GPU did next began with the end of the unit: else it computed meanwhile. */
static bool is_waited_for(const struct muster_graph *graph, uint32_t u)
{
    uint32_t next = u + 1, end = graph->first_unit[muster_unit_gpu(graph, &graph->unit[u]) + 1];
    if (next >= end)
        return false;
    const struct muster_unit *unit = &graph->unit[next];
    return !muster_edge_begins(unit->edge) && unit->edge != MUSTER_EDGE_CALL &&
           muster_unit_before(graph, unit, unit->edge) == u;
}

/* Of how many sends to the partner, or receives, the unit is one: what was not timed counts. */
static uint64_t all_of(const struct muster_graph *graph, uint32_t u, uint32_t partner, bool sends)
{
    const struct muster_view *view = graph->view;
    const struct muster_view_member *own =
        &view->member[muster_unit_member(graph, &graph->unit[u])];
    int32_t peer = view->member[muster_unit_member(graph, &graph->unit[partner])].rank;
    struct muster_view_stream stream =
        muster_view_stream(view, own, sends ? MUSTER_FUNC_SEND : MUSTER_FUNC_RECV, peer);
    bool any = stream.at < stream.end;
    return any ? view->op[stream.end - 1].number - view->op[stream.at].number + 1 : 0;
}

static struct lost *lost_of(const struct muster_graph *graph, uint32_t u, uint32_t partner,
                            bool sends, struct all_lost *lost)
{
    uint32_t member = muster_unit_member(graph, &graph->unit[u]);
    const uint32_t key[] = {member, muster_unit_member(graph, &graph->unit[partner]), sends};
    size_t place = muster_hashmap_find(&lost->place, key);
    if (place == SIZE_MAX) {
        place = lost->n;
        struct lost *own = muster_arena_add(graph->memory, &lost->at, &lost->n, sizeof *own);
        *own = (struct lost){.member = member, .all = all_of(graph, u, partner, sends)};
        graph->memory->failed |= !muster_hashmap_put(&lost->place, key, place);
    }
    return graph->memory->failed ? NULL : &lost->at[place];
}

/* By how much less the unit would have taken, also if it waited for somebody. There and back may be
 * one launch. */
static void add_unit(const struct muster_graph *graph, const struct slow *slow, uint32_t u,
                     struct all_lost *lost)
{
    uint64_t less_ns = 0, more_ns = slow->way->floor_ns - slow->usual_ns;
    uint32_t here = host_of(graph, u);
    struct lost *own = NULL;
    if (kind_of(graph, u) != slow->kind)
        return;
    for (uint32_t i = graph->first_partner[u]; i < graph->first_partner[u + 1]; i++) {
        uint32_t partner = muster_partner(graph, i), there = host_of(graph, partner);
        bool sends = muster_partner_receives(graph, i);
        if (!is_slow(slow, sends ? here : there, sends ? there : here))
            continue;
        uint64_t ns = least(length_of(graph, u), length_of(graph, partner));
        own = own ? own : lost_of(graph, u, partner, sends, lost);
        if (ns > slow->usual_ns)
            less_ns = most(less_ns, least(more_ns, ns - slow->usual_ns));
    }
    if (own) {
        own->ns += is_waited_for(graph, u) ? (double)less_ns : 0;
        own->seen++;
    }
}

/* Of the whole run: the mean over the GPUs of the host that lost most. */
static double worst_host_ns(const struct muster_graph *graph, const struct all_lost *lost)
{
    const struct muster_view *view = graph->view;
    double *of_host = muster_arena_array(graph->memory, view->gpus + 1, sizeof *of_host), worst = 0;
    uint8_t *counted = muster_arena_array(graph->memory, view->gpus + 1, sizeof *counted);
    uint32_t *gpus = muster_arena_array(graph->memory, view->gpus + 1, sizeof *gpus);
    if (graph->memory->failed)
        return 0;
    for (size_t i = 0; i < lost->n; i++) {
        uint32_t gpu = view->member[lost->at[i].member].gpu, host = graph->host[gpu];
        of_host[host] += lost->at[i].ns * (double)lost->at[i].all / lost->at[i].seen;
        gpus[host] += !counted[gpu];
        counted[gpu] = true;
    }
    for (size_t h = 0; h < view->gpus; h++)
        worst = gpus[h] ? fmax(worst, of_host[h] / gpus[h]) : worst;
    return worst;
}

static double lost_ns(const struct muster_graph *graph, const struct slow *slow)
{
    struct all_lost lost = {.place = {.key_bytes = 3 * sizeof(uint32_t)}};
    for (uint32_t u = 0; u < graph->units && !graph->memory->failed; u++)
        add_unit(graph, slow, u, &lost);
    muster_hashmap_free(&lost.place);
    return worst_host_ns(graph, &lost);
}

static double us(uint64_t ns)
{
    return (double)ns / (double)MUSTER_NS_PER_US;
}

static void name(const struct muster_graph *graph, const struct slow *slow,
                 struct muster_finding *finding)
{
    const struct muster_view *view = graph->view;
    const struct muster_unit *unit = &graph->unit[slow->way->unit];
    const struct muster_view_op *op = muster_op_of(graph, unit);
    const struct muster_view_comm *comm = &view->comm[view->member[op->member].comm];
    const struct muster_view_gpu *from = &view->gpu[muster_unit_gpu(graph, unit)];
    const struct muster_view_gpu *to =
        &view->gpu[muster_unit_gpu(graph, &graph->unit[slow->way->receiver])];
    finding->kind = MUSTER_FINDING_SLOW_TRANSFER;
    finding->comm = comm->id;
    muster_finding_set_ends(finding, from, to);
    finding->since_unix_ns = op->enqueue_ns + (uint64_t)from->unix_ns;
    muster_finding_set_op(finding, view, comm, op);
}

static void word(const struct slow *slow, struct muster_finding *finding)
{
    const char *host = slow->way->from == slow->host ? finding->host : finding->to_host;
    finding->confidence = muster_confidence_transfer_peers();
    muster_finding_line(&finding->evidence,
                        "of %zu sends from host %s to host %s that waited for nobody nine in ten "
                        "took %.1f us and more, and %.1f us over the %zu other ways between hosts",
                        slow->way->n, finding->host, finding->to_host, us(slow->way->floor_ns),
                        us(slow->usual_ns), slow->others);
    if (slow->many)
        muster_finding_line(&finding->evidence,
                            "so it is on %zu ways, all of them to or from host %s", slow->ways,
                            host);
    else if (slow->both)
        muster_finding_line(&finding->not_observable, "in which direction it is slow");
    muster_finding_line(&finding->not_observable,
                        "whether the sender's port, the path, or the receiver's port is slow");
    if (slow->many)
        snprintf(finding->advice, sizeof finding->advice,
                 "check the network adapters and ports of %.80s: speed, errors, other traffic",
                 host);
    else
        snprintf(finding->advice, sizeof finding->advice,
                 "check link speed, errors, and other traffic on the way from %.80s to %.80s",
                 finding->host, finding->to_host);
}

static bool has_suspect(const struct muster_graph *graph, const struct muster_suspects *suspects,
                        const struct way *way)
{
    bool found = false;
    for (size_t s = 0; s < suspects->n; s++)
        found |= touches(way, graph->host[suspects->suspect[s].gpu]);
    return found;
}

static void report(const struct muster_graph *graph, const struct slow *slow,
                   const struct muster_view_span *span, struct muster_findings *findings)
{
    const struct muster_view_span *its =
        &span[muster_unit_gpu(graph, &graph->unit[slow->way->unit])];
    double cost_ns = COST * lost_ns(graph, slow);
    double length_ns = (double)its->length_ns;
    if (graph->memory->failed || !(cost_ns >= WORTH * length_ns))
        return;
    struct muster_finding *finding = muster_findings_add(findings);
    if (!finding) {
        graph->memory->failed = true;
        return;
    }
    name(graph, slow, finding);
    word(slow, finding);
    finding->cost_share = cost_ns / length_ns;
    finding->cost_s = finding->cost_share * (double)its->covered_ns / (double)MUSTER_NS_PER_S;
    finding->cost_low_s = finding->cost_s * COST_LOW / COST;
    finding->cost_high_s = finding->cost_s * COST_HIGH / COST;
    finding->cost_run_s = cost_ns / (double)MUSTER_NS_PER_S;
}

/* Of all kinds the one that stands out most; without a way: none does. */
static void find(const struct muster_graph *graph, const struct sent *sent, size_t n,
                 struct ways *ways, struct slow *found)
{
    double worst = 0;
    for (size_t from = 0, end; from < n; from = end) {
        struct slow slow = {.kind = sent[from].kind};
        for (end = from; end < n && sent[end].kind == sent[from].kind;)
            end++;
        split(graph, &sent[from], end - from, ways);
        bool stands = stands_out(ways, &slow);
        double lost =
            stands ? (double)(slow.way->floor_ns - slow.usual_ns) * (double)slow.way->n : 0;
        if (lost > worst) {
            worst = lost;
            *found = slow;
        }
        ways->at += ways->n; /* `found` points into them */
    }
}

void muster_straggler_links(const struct muster_graph *graph,
                            const struct muster_suspects *suspects,
                            const struct muster_view_span *span, struct muster_findings *findings)
{
    struct sent *sent = NULL;
    struct ways ways = {0};
    struct slow slow = {0};
    size_t n = 0;
    if (!graph->first_partner)
        return;
    collect(graph, &sent, &n);
    ways.at = muster_arena_array(graph->memory, n / SENT_LEAST + 1, sizeof *ways.at);
    if (graph->memory->failed || n == 0)
        return;
    qsort(sent, n, sizeof *sent, by_way);
    find(graph, sent, n, &ways, &slow);
    if (slow.way && !has_suspect(graph, suspects, slow.way))
        report(graph, &slow, span, findings);
}
