/* From guilty ranks to findings. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "diagnose/confidence.h"
#include "diagnose/finding_op.h"
#include "diagnose/late_build.h"

#define PERSISTENT 0.6   /* of the operations at the places where the rank is late */
#define RARE       0.15  /* a rank late less often than so, at the places where it is */
#define ALONE      3     /* times as often as others, for one that is not late persistently */
#define RARE_SHARE 0.015 /* must have cost this much of the time */
#define CARRIES    0.3   /* of the cost: lateness without own excess that is worth naming */

static double ms(uint64_t ns)
{
    return (double)ns / (double)MUSTER_NS_PER_MS;
}

/* Leaves out who was late rarely and for little: single delays of one rank are ordinary. */
static int drop_rare(const struct muster_view *view, struct muster_late_guilts *guilts)
{
    size_t kept = 0;
    for (size_t g = 0; g < guilts->n; g++) {
        const struct muster_late_guilt *guilt = &guilts->guilt[g];
        struct muster_late_detail detail;
        if (muster_late_look(view, guilt, &detail)) {
            return -1;
        }
        bool worth =
            detail.rate >= RARE || (double)guilt->cost_ns >= RARE_SHARE * (double)guilt->active_ns;
        bool alone = detail.rate >= PERSISTENT ||
                     (guilt->hits / ALONE >= guilt->high &&
                      muster_late_beyond_luck(guilt, detail.turns, view->members));
        if (worth && alone) {
            guilts->guilt[kept++] = *guilt;
        }
    }
    guilts->n = kept;
    return 0;
}

static int by_cost(const void *left, const void *right)
{
    const struct muster_late_guilt *a = left;
    const struct muster_late_guilt *b = right;
    if (a->cost_ns != b->cost_ns) {
        return a->cost_ns > b->cost_ns ? -1 : 1;
    }
    return a->member < b->member ? -1 : a->member > b->member;
}

static void say_guilt(const struct muster_view *view, const struct muster_late_guilt *guilt,
                      struct muster_finding *finding)
{
    const struct muster_view_gpu *gpu = &view->gpu[guilt->gpu];
    muster_finding_say(&finding->evidence,
                       "rank %" PRId32 " came last, after longer than the others since its own "
                       "previous operation, in %" PRIu32 " of %" PRIu64 " operations compared in "
                       "communicator %016" PRIx64 "; another rank typically in %" PRIu32,
                       gpu->rank, guilt->hits, guilt->compared, view->comm[guilt->comm].id,
                       guilt->others);
    muster_finding_say(&finding->evidence,
                       "each time by at least %" PRIu64 " us, together %.3f ms, %.2f %% of the "
                       "%.1f ms that its timed operations cover",
                       (uint64_t)((MUSTER_LATE_FLOOR_NS << guilt->scale) / MUSTER_NS_PER_US),
                       ms(guilt->cost_ns), 100 * guilt->share, ms(guilt->covered_ns));
}

static void say_detail(const struct muster_view *view, const struct muster_late_detail *detail,
                       struct muster_finding *finding)
{
    if (detail->class != MUSTER_VIEW_NONE) {
        const struct muster_view_class *class = &view->class[detail->class];
        char size[32];
        muster_text_bytes(size, sizeof size, class->size_log2 < 64 ? 1ull << class->size_log2 : 0);
        muster_finding_say(&finding->evidence,
                           "most often before %s of %s; at such places in %.0f %% of the "
                           "operations since the first time",
                           muster_func_word(class->func), size, 100 * detail->rate);
    }
    if (detail->host_known) {
        muster_finding_say(&finding->evidence,
                           "of %" PRIu32 " such operations its host called %" PRIu32 " later than "
                           "the other ranks of the host did, and %" PRIu32 " had been called long "
                           "before its GPU came to them",
                           detail->host_known, detail->arrived_late, detail->waited_in_queue);
    }
}

static void say_limits(const struct muster_view *view, const struct muster_late_guilt *guilt,
                       const struct muster_late_detail *detail, struct muster_finding *finding)
{
    const struct muster_view_comm *comm = &view->comm[guilt->comm];
    const struct muster_view_gpu *gpu = &view->gpu[guilt->gpu];
    struct muster_finding_lines *to = &finding->not_observable;
    uint64_t missing = 0;
    bool sampled = false;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_view_gpu *own = &view->gpu[view->member[comm->first_member + i].gpu];
        missing += own->missing;
        sampled |= own->timing == MUSTER_TIMING_AUTO;
    }
    if (comm->members < comm->nranks) {
        muster_finding_say(to,
                           "%u of %u ranks of the communicator are not observed: lateness is "
                           "relative to those that are",
                           comm->nranks - comm->members, comm->nranks);
    }
    if (sampled) {
        muster_finding_say(to, "operations are timed in blocks: counts and cost are of these "
                               "operations, not of the run");
    }
    if (missing) {
        muster_finding_say(to,
                           "%" PRIu64 " operations of these ranks were dropped, lost or "
                           "overwritten and are not compared",
                           missing);
    }
    if (!detail->host_known) {
        muster_finding_say(to, "cause: %s",
                           detail->first->flags & MUSTER_OP_GRAPH
                               ? "the host's calls of graph replays are not seen"
                           : gpu->host_times ? "no other rank of its host is seen"
                                             : "host times mean nothing in a replay at full "
                                               "speed");
    }
}

static void advise(struct muster_finding *finding)
{
    const char *rank = finding->ranks > 1 ? "these ranks" : "this rank";
    const char *what =
        finding->cause == MUSTER_CAUSE_HOST
            ? "look at its host: CPU time, data loading, I/O, other processes on its cores"
        : finding->cause == MUSTER_CAUSE_GPU
            ? "look at its GPU: clocks, power cap, temperature, other processes, more work than "
              "the others have"
            : "compare its work, its GPU's clocks and its host's load with the other ranks'";
    snprintf(finding->advice, sizeof finding->advice, "%s: %s", rank, what);
}

static void set_op(const struct muster_view *view, const struct muster_view_comm *comm,
                   const struct muster_late_detail *detail, struct muster_finding *finding)
{
    const struct muster_view_op *op = detail->first;
    if (!op) {
        return;
    }
    const struct muster_view_gpu *gpu = &view->gpu[view->member[op->member].gpu];
    muster_finding_set_op(finding, view, comm, op);
    finding->op.root = view->class[op->class].root;
    finding->since_unix_ns = op->enqueue_ns + (uint64_t)gpu->unix_ns;
}

static int new_finding(const struct muster_view *view, const struct muster_late_guilts *guilts,
                       size_t lead, const struct muster_late_part *part,
                       struct muster_finding *finding)
{
    const struct muster_late_guilt *guilt = &guilts->guilt[lead];
    const struct muster_view_gpu *gpu = &view->gpu[guilt->gpu];
    struct muster_late_detail detail;
    if (muster_late_look(view, guilt, &detail)) {
        return -1;
    }
    finding->kind = MUSTER_FINDING_LATE_RANK;
    finding->comm = view->comm[guilt->comm].id;
    muster_text_copy(finding->host, sizeof finding->host, gpu->host);
    finding->gpu = gpu->gpu_index;
    finding->mode = guilt->hits == 1            ? MUSTER_MODE_ONCE
                    : detail.rate >= PERSISTENT ? MUSTER_MODE_PERSISTENT
                                                : MUSTER_MODE_INTERMITTENT;
    finding->cause = detail.cause;
    finding->confidence = muster_confidence_late(guilt->hits, guilt->others);
    set_op(view, &view->comm[guilt->comm], &detail, finding);
    say_guilt(view, guilt, finding);
    say_detail(view, &detail, finding);
    say_limits(view, guilt, &detail, finding);
    advise(finding);
    return muster_late_victims(view, guilts, lead, part, finding);
}

static void add_rank(struct muster_finding *finding, int32_t rank)
{
    for (unsigned i = 0; i < finding->ranks; i++) {
        if (finding->rank[i] == rank) {
            return;
        }
    }
    if (finding->ranks < MUSTER_FINDING_RANKS) {
        finding->rank[finding->ranks++] = rank;
    }
}

int muster_late_word(const struct muster_view *view, struct muster_late_guilts *guilts,
                     const struct muster_late_part *part, struct muster_findings *findings)
{
    size_t *of = calloc(guilts->n + 1, sizeof *of);
    int result = of ? drop_rare(view, guilts) : -1;
    if (guilts->n && result == 0) {
        qsort(guilts->guilt, guilts->n, sizeof *guilts->guilt, by_cost);
    }
    for (size_t g = 0; g < guilts->n && result == 0; g++) {
        const struct muster_late_guilt *guilt = &guilts->guilt[g];
        size_t same = 0;
        while (same < g && guilts->guilt[same].gpu != guilt->gpu &&
               guilts->guilt[same].comm != guilt->comm) {
            same++;
        }
        struct muster_finding *finding;
        if (same < g) {
            of[g] = of[same];
            finding = &findings->finding[of[g]];
            say_guilt(view, guilt, finding);
        } else {
            finding = muster_findings_add(findings);
            of[g] = findings->n - 1;
            result = finding ? new_finding(view, guilts, g, part, finding) : -1;
        }
        if (result == 0) {
            add_rank(finding, view->gpu[guilt->gpu].rank);
            finding->cost_s += (double)guilt->cost_ns / (double)MUSTER_NS_PER_S;
            finding->cost_share += guilt->share;
        }
    }
    free(of);
    return result;
}

static void add_victim(struct muster_finding *finding, int32_t rank)
{
    for (unsigned i = 0; i < finding->victims; i++) {
        if (finding->victim[i] == rank) {
            return;
        }
    }
    if (finding->victims < MUSTER_FINDING_RANKS) {
        finding->victim[finding->victims++] = rank;
    }
}

int muster_late_victims(const struct muster_view *view, const struct muster_late_guilts *guilts,
                        size_t lead, const struct muster_late_part *part,
                        struct muster_finding *finding)
{
    enum { REACHED = 1, GUILTY = 2 };
    const struct muster_late_guilt *guilt = &guilts->guilt[lead];
    const struct muster_view_comm *own = &view->comm[guilt->comm];
    double worth = CARRIES * (double)guilt->cost_ns;
    uint8_t *gpu = calloc(view->gpus + 1, sizeof *gpu);
    if (!gpu) {
        return -1;
    }
    for (uint32_t i = 0; i < own->members; i++) {
        gpu[view->member[own->first_member + i].gpu] = REACHED;
    }
    for (size_t g = 0; g < guilts->n; g++) {
        gpu[guilts->guilt[g].gpu] |= GUILTY;
    }
    for (bool more = true; more;) {
        more = false;
        for (size_t m = 0; m < view->members; m++) {
            const struct muster_view_member *member = &view->member[m];
            double late = (double)part[m].late_ns - (double)part[m].blame_ns;
            if (member->comm == guilt->comm || !(gpu[member->gpu] & REACHED) || late < worth) {
                continue;
            }
            if (!(gpu[member->gpu] & GUILTY)) {
                add_victim(finding, view->gpu[member->gpu].rank);
            }
            const struct muster_view_comm *comm = &view->comm[member->comm];
            for (uint32_t i = comm->first_member; i < comm->first_member + comm->members; i++) {
                uint8_t *other = &gpu[view->member[i].gpu];
                bool waited = (double)part[i].late_ns < late / 2;
                if (waited && !(*other & GUILTY)) {
                    add_victim(finding, view->gpu[view->member[i].gpu].rank);
                }
                more |= waited && !(*other & REACHED);
                *other |= waited ? REACHED : 0;
            }
        }
    }
    free(gpu);
    return 0;
}
