/* From culprits to findings. */
#include "diagnose/straggler/straggler_describe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sort.h"
#include "base/text.h"
#include "diagnose/confidence.h"
#include "diagnose/straggler/e_process.h"

#define PERSISTENT 0.6 /* of the operations at the positions where the rank is late */
#define CARRIES    0.3 /* of the cost: who waits so much less without it is a victim */
#define MOST       0.7 /* of the operations it was late in: what is true of so many is said */

static double ms(double ns)
{
    return ns / (double)MUSTER_NS_PER_MS;
}

/* ---- what its operations tell ---- */

struct detail {
    uint32_t late, turns;   /* of the positions where it is late, since the first time */
    double others;          /* late at the same positions: mean share */
    uint32_t host_known, behind, queued, at_once;
    const struct muster_unit *first; /* late for the first time */
    uint32_t position;      /* where it is late most */
    enum muster_finding_cause cause;
};

/* How much later than the median of the others of its host the call came. */
static bool behind(const struct muster_graph *graph, const struct muster_unit *unit,
                   int64_t *scratch, int64_t *ns)
{
    const struct muster_view *view = graph->view;
    const struct muster_turn *turn = &graph->turn[unit->turn];
    const struct muster_view_gpu *gpu = &view->gpu[unit->gpu];
    size_t n = 0;
    if (unit->queued == MUSTER_QUEUED_UNKNOWN || !gpu->host_times) {
        return false;
    }
    for (uint32_t i = 0; i < turn->units; i++) {
        const struct muster_unit *other = &graph->unit[graph->of_turn[turn->first + i]];
        const struct muster_view_gpu *its = &view->gpu[other->gpu];
        if (other != unit && its->host_times && strcmp(its->host, gpu->host) == 0) {
            scratch[n++] = (int64_t)other->call_ns;
        }
    }
    if (!n) {
        return false;
    }
    muster_sort_i64(scratch, n);
    *ns = (int64_t)unit->call_ns - scratch[n / 2];
    return true;
}

/* The host, if its calls came late and the GPU then began at once; the GPU, if the calls stood
 * in its queue for as long as it was late. Arrival alone proves nothing: hosts run ahead. */
static void set_cause(struct detail *detail)
{
    double enough = MOST * detail->host_known;
    if (!detail->host_known) {
        return;
    }
    if (detail->behind >= enough && detail->at_once >= enough) {
        detail->cause = MUSTER_CAUSE_HOST;
    } else if (detail->queued >= enough && detail->behind < (1 - MOST) * detail->host_known) {
        detail->cause = MUSTER_CAUSE_GPU;
    }
}

static void look_at(const struct muster_graph *graph, const struct muster_unit *unit,
                    int64_t *scratch, struct detail *detail)
{
    int64_t behind_ns;
    int64_t usual = unit->own_ns - unit->excess_ns;
    bool late = unit->excess_ns > muster_seat_limit_ns(usual);
    detail->first = detail->first ? detail->first : late ? unit : NULL;
    detail->turns += detail->first != NULL;
    detail->late += late;
    if (late && behind(graph, unit, scratch, &behind_ns)) {
        uint64_t queued_ns = unit->queued * MUSTER_QUEUED_NS;
        detail->host_known++;
        detail->behind += 2 * behind_ns >= unit->excess_ns;
        detail->queued += (int64_t)queued_ns >= unit->excess_ns;
        detail->at_once += 2 * (int64_t)queued_ns < unit->excess_ns;
    }
}

static int look(const struct muster_graph *graph, const struct muster_suspects *suspects,
                size_t s, struct detail *detail)
{
    const struct muster_suspect *own = &suspects->suspect[s];
    double late = 0, turns = 0;
    int64_t *scratch = malloc((graph->view->gpus + 1) * sizeof *scratch);
    *detail = (struct detail){.position = graph->seat[own->seat].position};
    if (!scratch) {
        return -1;
    }
    for (size_t t = 0; t < graph->ordered; t++) {
        const struct muster_turn *turn = &graph->turn[graph->order[t]];
        for (uint32_t i = 0; i < turn->units; i++) {
            const struct muster_unit *unit = &graph->unit[graph->of_turn[turn->first + i]];
            bool its = suspects->group[unit->gpu] == s && graph->seat[unit->seat].guilty;
            if (its && unit->judged) {
                look_at(graph, unit, scratch, detail);
            }
        }
    }
    for (size_t i = 0; i < graph->seats; i++) {
        const struct muster_seat *seat = &graph->seat[i];
        if (seat->position == detail->position && !seat->guilty) {
            late += seat->late;
            turns += seat->turns;
        }
    }
    detail->others = turns > 0 ? late / turns : 0;
    set_cause(detail);
    free(scratch);
    return 0;
}

/* ---- words ---- */

static void say_where(const struct muster_graph *graph, const struct detail *detail,
                      struct muster_finding *finding)
{
    const struct muster_unit *unit = &graph->unit[graph->position[detail->position].unit];
    const struct muster_view_class *class =
        &graph->view->class[graph->view->op[unit->op].class];
    char size[32];
    muster_text_bytes(size, sizeof size, class->size_log2 < 64 ? 1ull << class->size_log2 : 0);
    muster_finding_say(&finding->evidence,
                       "most before %s of %s; at such places in %.0f %% of the operations since "
                       "the first time",
                       muster_func_word(class->func), size,
                       100.0 * detail->late / (detail->turns ? detail->turns : 1));
}

static void say_guilt(const struct muster_graph *graph, const struct muster_suspect *own,
                      const struct detail *detail, const struct muster_view_span *span,
                      struct muster_finding *finding)
{
    const struct muster_view_gpu *gpu = &graph->view->gpu[own->gpu];
    char others[32] = "none";
    if (detail->others >= 0.0005) {
        snprintf(others, sizeof others, "%.1f %%", 100 * detail->others);
    }
    if (detail->first->stage) {
        muster_finding_say(&finding->evidence,
                           "slowest stage: rank %" PRId32 " took half as long again by itself as "
                           "the other stages usually do, or longer, in %" PRIu32 " of %" PRIu32
                           " exchanges",
                           gpu->rank, detail->late, detail->turns);
        muster_finding_say(&finding->not_observable,
                           "whether this stage has more work by design, or has become slow");
    } else if (own->host) {
        muster_finding_say(&finding->evidence,
                           "all ranks of host %s took longer by themselves than those of other "
                           "hosts in %" PRIu32 " of %" PRIu32 " operations; a typical other rank "
                           "in %s",
                           gpu->host, detail->late, detail->turns, others);
    } else {
        muster_finding_say(&finding->evidence,
                           "rank %" PRId32 " took longer by itself than its peers in %" PRIu32
                           " of %" PRIu32 " operations; a typical other rank in %s",
                           gpu->rank, detail->late, detail->turns, others);
    }
    muster_finding_say(&finding->evidence,
                       "without that the job would have taken %.3f ms less, %.2f %% of the %.1f ms "
                       "that its timed operations cover",
                       ms(own->gain_ns), 100 * own->share,
                       ms((double)span[own->gpu].covered_ns));
}

static void say_host(const struct detail *detail, struct muster_finding *finding)
{
    struct muster_finding_lines *to = &finding->evidence;
    if (detail->host_known && detail->cause == MUSTER_CAUSE_GPU) {
        muster_finding_say(to,
                           "in %" PRIu32 " of these %" PRIu32 " operations the call was already "
                           "queued: the GPU was late, not the host",
                           detail->queued, detail->host_known);
    } else if (detail->host_known && detail->cause == MUSTER_CAUSE_HOST) {
        muster_finding_say(to,
                           "in %" PRIu32 " of these %" PRIu32 " operations its process called "
                           "later than the others on its host: the host was late, not the GPU",
                           detail->behind, detail->host_known);
    } else if (detail->host_known) {
        muster_finding_say(to,
                           "of these %" PRIu32 " operations its process called %" PRIu32
                           " later than the others on its host, and %" PRIu32 " were queued long "
                           "before its GPU came to them",
                           detail->host_known, detail->behind, detail->queued);
    }
}

static void say_limits(const struct muster_graph *graph, const struct detail *detail,
                       struct muster_finding *finding)
{
    const struct muster_view *view = graph->view;
    const struct muster_view_comm *comm = &view->comm[view->member[detail->first->member].comm];
    const struct muster_view_gpu *gpu = &view->gpu[detail->first->gpu];
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
        muster_finding_say(to, "not all operations were timed: counts and times are of those "
                               "that were, not of the run");
    }
    if (missing) {
        muster_finding_say(to,
                           "%" PRIu64 " operations of these ranks were dropped, lost or "
                           "overwritten and are not compared",
                           missing);
    }
    if (!detail->host_known) {
        const struct muster_view_op *op = &view->op[detail->first->op];
        muster_finding_say(to, "cause: %s",
                           op->flags & MUSTER_OP_GRAPH ? "the host's calls of graph replays are not seen"
                           : gpu->host_times ? "no other rank of its host is seen"
                                             : "host times mean nothing in a replay at full speed");
    }
}

static void advise(struct muster_finding *finding)
{
    const char *what =
        finding->cause == MUSTER_CAUSE_HOST
            ? "look at its process: CPU time, data loading, I/O, others on its cores"
        : finding->cause == MUSTER_CAUSE_GPU
            ? "look at its GPU: clocks, power cap, temperature, other processes, more work than "
              "the others have"
            : "compare its work, its GPU's clocks and its host's load with the others'";
    muster_text_copy(finding->advice, sizeof finding->advice, what);
}

/* Who waited for it, where its lateness is carried beyond its communicator. */
static void add_victims(const struct muster_graph *graph, const struct muster_suspects *suspects,
                        size_t s, uint32_t comm, struct muster_finding *finding)
{
    const struct muster_view *view = graph->view;
    const double *waits = &suspects->waits[s * view->gpus];
    double least = CARRIES * suspects->suspect[s].gain_ns;
    bool beyond = false;
    for (size_t m = 0; m < view->members; m++) {
        bool inside = false;
        for (uint32_t i = 0; i < view->comm[comm].members; i++) {
            inside |= view->member[view->comm[comm].first_member + i].gpu == view->member[m].gpu;
        }
        beyond |= !inside && waits[view->member[m].gpu] >= least;
    }
    for (size_t g = 0; g < view->gpus && beyond; g++) {
        if (waits[g] >= least && suspects->group[g] >= suspects->n &&
            finding->victims < MUSTER_FINDING_RANKS) {
            finding->victim[finding->victims++] = view->gpu[g].rank;
        }
    }
}

static void add_ranks(const struct muster_graph *graph, const struct muster_suspects *suspects,
                      size_t s, struct muster_finding *finding)
{
    for (size_t g = 0; g < graph->view->gpus; g++) {
        if (suspects->group[g] == s && finding->ranks < MUSTER_FINDING_RANKS) {
            finding->rank[finding->ranks++] = graph->view->gpu[g].rank;
        }
    }
}

static bool is_chained(const struct muster_graph *graph)
{
    bool chained = false;
    for (size_t t = 0; t < graph->turns && !chained; t++) {
        chained = graph->turn[t].kind == MUSTER_TURN_PARTNERS;
    }
    return chained;
}

static void new_finding(const struct muster_graph *graph, const struct muster_suspects *suspects,
                        size_t s, const struct detail *detail, struct muster_finding *finding)
{
    const struct muster_view *view = graph->view;
    const struct muster_suspect *own = &suspects->suspect[s];
    const struct muster_view_gpu *gpu = &view->gpu[own->gpu];
    const struct muster_view_op *op = &view->op[detail->first->op];
    const struct muster_view_comm *comm = &view->comm[view->member[op->member].comm];
    finding->kind = MUSTER_FINDING_LATE_RANK;
    finding->comm = comm->id;
    muster_text_copy(finding->host, sizeof finding->host, gpu->host);
    finding->gpu = own->host ? -1 : gpu->gpu_index;
    finding->mode = detail->late == 1 ? MUSTER_MODE_ONCE
                    : detail->late >= PERSISTENT * detail->turns ? MUSTER_MODE_PERSISTENT
                                                                 : MUSTER_MODE_INTERMITTENT;
    finding->cause = detail->cause;
    finding->confidence = muster_confidence_late(is_chained(graph));
    muster_finding_set_op(finding, view, comm, op);
    finding->op.root = view->class[op->class].root;
    finding->since_unix_ns =
        op->enqueue_ns + (uint64_t)view->gpu[detail->first->gpu].unix_ns;
}

int muster_straggler_describe(const struct muster_graph *graph,
                              const struct muster_suspects *suspects,
                              const struct muster_view_span *span,
                              struct muster_findings *findings)
{
    const struct muster_view *view = graph->view;
    size_t first = findings->n;
    for (size_t s = 0; s < suspects->n; s++) {
        const struct muster_suspect *own = &suspects->suspect[s];
        struct detail detail;
        if (look(graph, suspects, s, &detail)) {
            return -1;
        }
        if (!detail.first) {
            continue;
        }
        uint32_t comm = view->member[detail.first->member].comm;
        struct muster_finding *finding = NULL;
        for (size_t f = first; f < findings->n && !own->host; f++) {
            bool same = findings->finding[f].comm == view->comm[comm].id;
            finding = same ? &findings->finding[f] : finding;
        }
        bool is_new = !finding;
        finding = finding ? finding : muster_findings_add(findings);
        if (!finding) {
            return -1;
        }
        if (is_new) {
            new_finding(graph, suspects, s, &detail, finding);
        }
        add_ranks(graph, suspects, s, finding);
        say_guilt(graph, own, &detail, span, finding);
        finding->cost_s += own->gain_ns / (double)MUSTER_NS_PER_S;
        finding->cost_share += own->share;
        if (is_new) {
            say_where(graph, &detail, finding);
            say_host(&detail, finding);
            say_limits(graph, &detail, finding);
            add_victims(graph, suspects, s, comm, finding);
        }
        advise(finding);
    }
    return 0;
}
