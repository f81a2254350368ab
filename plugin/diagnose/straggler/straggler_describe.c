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
#include "diagnose/straggler/straggler_cause.h"

#define PERSISTENT 0.6 /* of the operations at the positions where the rank is late */
#define CARRIES    0.3 /* of the cost: who waits so much less without it is a victim */

static double ms(double ns)
{
    return ns / (double)MUSTER_NS_PER_MS;
}

/* ---- what its operations tell ---- */

struct detail {
    uint32_t late, turns;   /* of the positions where it is late, since the first time */
    double others;          /* late at the same positions: mean share */
    struct muster_cause_tally tally;
    const struct muster_unit *first; /* late for the first time */
    uint32_t position;      /* where it is late most */
    enum muster_finding_cause cause;
};

static void look_at(const struct muster_graph *graph, const uint8_t *group,
                    const struct muster_unit *unit, bool guilty, struct detail *detail)
{
    int64_t excess = muster_unit_excess_ns(graph, unit);
    int64_t usual = muster_unit_own_ns(graph, unit) - excess;
    bool late = guilty && unit->judged && excess > muster_seat_limit_ns(usual);
    if (guilty && unit->judged) {
        detail->first = detail->first ? detail->first : late ? unit : NULL;
        detail->turns += detail->first != NULL;
        detail->late += late;
    }
    muster_cause_add(&detail->tally, graph, group, unit, late);
}

static void look(const struct muster_graph *graph, const struct muster_suspects *suspects, size_t s,
                 struct detail *detail)
{
    const struct muster_suspect *own = &suspects->suspect[s];
    double late = 0, turns = 0;
    *detail = (struct detail){.position = graph->seat[own->seat].position};
    for (size_t t = 0; t < graph->ordered; t++) {
        const struct muster_turn *turn = &graph->turn[graph->order[t]];
        for (uint32_t i = 0; i < turn->units; i++) {
            const struct muster_unit *unit = &graph->unit[graph->of_turn[turn->first + i]];
            if (suspects->group[muster_unit_gpu(graph, unit)] == s) {
                look_at(graph, suspects->group, unit, graph->seat[unit->seat].guilty, detail);
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
    detail->cause = muster_cause_of(&detail->tally);
}

/* ---- words ---- */

static void say_where(const struct muster_graph *graph, const struct detail *detail,
                      struct muster_finding *finding)
{
    const struct muster_unit *unit = &graph->unit[graph->position[detail->position].unit];
    const struct muster_view_class *class =
        &graph->view->class[graph->view->op[muster_unit_op(graph, unit)].class];
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
    const struct muster_cause_tally *tally = &detail->tally;
    if (tally->known && detail->cause == MUSTER_CAUSE_GPU) {
        muster_finding_say(to,
                           "in %" PRIu32 " of these %" PRIu32 " operations the call was already "
                           "queued: the GPU was late, not the host",
                           tally->known - tally->called_late, tally->known);
    } else if (tally->known && detail->cause == MUSTER_CAUSE_HOST) {
        muster_finding_say(to,
                           "in %" PRIu32 " of these %" PRIu32 " operations its process called "
                           "late and its GPU then began at once: the host was late, not the GPU",
                           tally->called_late, tally->known);
    } else if (tally->known) {
        muster_finding_say(to,
                           "in %" PRIu32 " of these %" PRIu32 " operations its process called "
                           "late, in the others the call was queued in time",
                           tally->called_late, tally->known);
        muster_finding_say(&finding->not_observable,
                           "cause: whether its host was late by itself, or held up by its own GPU");
    }
}

static void say_limits(const struct muster_graph *graph, const struct detail *detail,
                       struct muster_finding *finding)
{
    const struct muster_view *view = graph->view;
    const struct muster_view_comm *comm = &view->comm[view->member[muster_unit_member(graph, detail->first)].comm];
    const struct muster_view_gpu *gpu = &view->gpu[muster_unit_gpu(graph, detail->first)];
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
    if (!detail->tally.known) {
        const struct muster_view_op *op = &view->op[muster_unit_op(graph, detail->first)];
        muster_finding_say(to, "cause: %s",
                           op->flags & MUSTER_OP_GRAPH ? "the host's calls of graph replays are not seen"
                           : gpu->host_times ? "no other rank does the same there"
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
    const struct muster_view_op *op = &view->op[muster_unit_op(graph, detail->first)];
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
        op->enqueue_ns + (uint64_t)view->gpu[muster_unit_gpu(graph, detail->first)].unix_ns;
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
        look(graph, suspects, s, &detail);
        if (!detail.first) {
            continue;
        }
        uint32_t comm = view->member[muster_unit_member(graph, detail.first)].comm;
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
