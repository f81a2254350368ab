/* From culprits to findings. */
#include "diagnose/straggler/straggler_describe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/sort.h"
#include "base/text.h"
#include "diagnose/confidence.h"
#include "diagnose/straggler/e_process.h"
#include "diagnose/straggler/straggler_details.h"

#define PERSISTENT 0.6 /* of the operations at the positions where the rank is late */
/* Of bench/verdicts, seeds 1 to 20: true costs over those said, a tenth below and a tenth above. */
#define COST_LOW  0.74
#define COST_HIGH 1.35
#define CARRIES   0.3 /* of the cost: who waits so much less without it is a victim */

static double ms(double ns)
{
    return ns / (double)MUSTER_NS_PER_MS;
}

/* ---- what its operations tell ---- */

struct detail {
    uint32_t late, turns; /* of the positions where it is late, since the first time */
    double others;        /* late at the same positions: mean share */
    struct muster_cause_tally tally;
    const struct muster_unit *first; /* late for the first time */
    uint32_t position;               /* where it is late most */
    enum muster_finding_cause cause;
    struct muster_when when;
};

static void look_at(const struct muster_graph *graph, const uint8_t *group,
                    const struct muster_unit *unit, bool culprit, struct detail *detail)
{
    int64_t excess = muster_unit_excess_ns(graph, unit);
    int64_t usual = muster_unit_own_ns(graph, unit) - excess;
    bool late = culprit && unit->evaluated && excess > muster_seat_limit_ns(usual);
    if (culprit && unit->evaluated) {
        detail->first = detail->first ? detail->first : late ? unit : NULL;
        detail->turns += detail->first != NULL;
        detail->late += late;
    }
    muster_cause_add(&detail->tally, graph, group, unit, late);
}

/* Those of GPUs of one suspect, and of all between them. */
struct some_units {
    uint32_t first, end;
};

static struct some_units units_of(const struct muster_graph *graph,
                                  const struct muster_suspects *suspects, size_t s)
{
    struct some_units of = {MUSTER_NO_UNIT, 0};
    for (size_t g = 0; g < graph->view->gpus; g++) {
        bool its = suspects->group[g] == s;
        of.first = its && graph->first_unit[g] < of.first ? graph->first_unit[g] : of.first;
        of.end = its ? graph->first_unit[g + 1] : of.end;
    }
    return of;
}

/* In the order of turns, by which there is a first time. Other GPUs' units are told by their
 * numbers, without being read. */
static void look(const struct muster_graph *graph, const struct muster_suspects *suspects, size_t s,
                 struct detail *detail)
{
    const struct some_units of = units_of(graph, suspects, s);
    const struct muster_suspect *own = &suspects->suspect[s];
    double late = 0, turns = 0;
    *detail = (struct detail){.position = graph->seat[own->seat].position};
    for (size_t t = 0; t < graph->ordered; t++) {
        const struct muster_turn *turn = &graph->turn[graph->order[t]];
        for (uint32_t i = 0; i < turn->units; i++) {
            uint32_t u = graph->of_turn[turn->first + i];
            const struct muster_unit *unit = &graph->unit[u];
            if (u >= of.first && u < of.end && suspects->group[muster_unit_gpu(graph, unit)] == s)
                look_at(graph, suspects->group, unit, graph->seat[unit->seat].culprit, detail);
        }
    }
    for (size_t i = 0; i < graph->seats; i++) {
        const struct muster_seat *seat = &graph->seat[i];
        if (seat->position == detail->position && !seat->culprit) {
            late += seat->late;
            turns += seat->turns;
        }
    }
    detail->others = turns > 0 ? late / turns : 0;
    detail->cause = muster_cause_of(&detail->tally);
}

/* ---- words ---- */

static void put_where(const struct muster_graph *graph, const struct detail *detail,
                      struct muster_finding *finding)
{
    const struct muster_unit *unit = &graph->unit[graph->position[detail->position].unit];
    const struct muster_view_class *class =
        &graph->view->class[graph->view->op[muster_unit_op(graph, unit)].class];
    char size[32];
    muster_text_bytes(size, sizeof size, class->size_log2 < 64 ? 1ull << class->size_log2 : 0);
    muster_finding_line(&finding->evidence,
                        "most %s, of %s; at such places in %.0f %% of the operations since the "
                        "first time",
                        finding->where, size,
                        100.0 * detail->late / (detail->turns ? detail->turns : 1));
    if (detail->when.every_steps) {
        muster_finding_line(&finding->evidence,
                            "late at a beat: each %" PRIu32
                            "%s step, every %.3g s; the other ranks "
                            "do nothing of the kind then",
                            detail->when.every_steps, muster_text_ordinal(detail->when.every_steps),
                            detail->when.every_s);
    }
}

static void put_delay(const struct muster_graph *graph, const struct muster_suspect *own,
                      const struct detail *detail, const struct muster_view_span *span,
                      struct muster_finding *finding)
{
    const struct muster_view_gpu *gpu = &graph->view->gpu[own->gpu];
    const struct muster_view_comm *comm =
        &graph->view->comm[graph->view->member[muster_unit_member(graph, detail->first)].comm];
    char others[32] = "none";
    if (detail->others >= 0.0005)
        snprintf(others, sizeof others, "%.1f %%", 100 * detail->others);
    if (detail->first->stage && graph->seat[own->seat].past) {
        muster_finding_line(&finding->evidence,
                            "slow stage: rank %" PRId32 " took half as long again by itself as at "
                            "other times, or longer, in %" PRIu32 " of %" PRIu32
                            " exchanges; no other rank has its program",
                            gpu->rank, detail->late, detail->turns);
        muster_finding_line(&finding->not_observable,
                            "whether this stage has more work then by design, or is slow");
    } else if (detail->first->stage) {
        muster_finding_line(&finding->evidence,
                            "slowest stage: rank %" PRId32 " took %s, or longer, in %" PRIu32
                            " of %" PRIu32 " exchanges",
                            gpu->rank, muster_stages_differ_words(comm), detail->late,
                            detail->turns);
        muster_finding_line(&finding->not_observable,
                            "whether this stage has more work by design, or has become slow");
    } else if (own->host) {
        muster_finding_line(&finding->evidence,
                            "all ranks of host %s took longer by themselves than those of other "
                            "hosts in %" PRIu32 " of %" PRIu32 " operations; a typical other rank "
                            "in %s",
                            gpu->host, detail->late, detail->turns, others);
    } else {
        muster_finding_line(&finding->evidence,
                            "rank %" PRId32 " took longer by itself than its peers in %" PRIu32
                            " of %" PRIu32 " operations; a typical other rank in %s",
                            gpu->rank, detail->late, detail->turns, others);
    }
    muster_finding_line(
        &finding->evidence,
        "without that the job would have taken %.3f ms less, %.2f %% of the %.1f ms "
        "that its timed operations cover",
        ms(own->gain_ns), 100 * own->share, ms((double)span[own->gpu].covered_ns));
}

/* `whose`: "", or "rank 3: " where another rank's evidence stands before it. */
static void put_host(const struct detail *detail, const char *whose, struct muster_finding *finding)
{
    struct muster_finding_lines *to = &finding->evidence;
    const struct muster_cause_tally *tally = &detail->tally;
    if (tally->known && detail->cause == MUSTER_CAUSE_GPU) {
        muster_finding_line(to,
                            "%sin %" PRIu32 " of these %" PRIu32 " operations the call was already "
                            "queued: the GPU was late, not the host",
                            whose, tally->known - tally->called_late, tally->known);
    } else if (tally->known && detail->cause == MUSTER_CAUSE_HOST) {
        muster_finding_line(to,
                            "%sin %" PRIu32 " of these %" PRIu32 " operations its process called "
                            "late and its GPU then began at once: the host was late, not the GPU",
                            whose, tally->called_late, tally->known);
    } else if (tally->known) {
        muster_finding_line(to,
                            "%sin %" PRIu32 " of these %" PRIu32 " operations its process called "
                            "late, in the others the call was queued in time",
                            whose, tally->called_late, tally->known);
        muster_finding_line(&finding->not_observable,
                            "%scause: whether its host was late by itself, or held up by its own "
                            "GPU",
                            whose);
    }
}

/* Whether `auto` left out any of the member's operations. A rank's transfer to itself is a copy
 * that nothing times. */
static bool is_sampled(const struct muster_view *view, const struct muster_view_member *member)
{
    if (view->gpu[member->gpu].timing != MUSTER_TIMING_AUTO)
        return false;
    for (uint32_t i = member->first_op; i < member->first_op + member->ops; i++) {
        const struct muster_view_op *op = &view->op[i];
        if (!muster_source_is_gpu(op->source) && !muster_view_to_itself(view, op))
            return true;
    }
    return false;
}

static void put_limits(const struct muster_graph *graph, const struct detail *detail,
                       struct muster_finding *finding)
{
    const struct muster_view *view = graph->view;
    const struct muster_view_comm *comm =
        &view->comm[view->member[muster_unit_member(graph, detail->first)].comm];
    const struct muster_view_gpu *gpu = &view->gpu[muster_unit_gpu(graph, detail->first)];
    struct muster_finding_lines *to = &finding->not_observable;
    uint64_t missing = 0;
    bool sampled = false;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_view_member *member = &view->member[comm->first_member + i];
        missing += view->gpu[member->gpu].missing;
        sampled = sampled || is_sampled(view, member);
    }
    if (comm->members < comm->nranks) {
        muster_finding_line(to,
                            "%u of %u ranks of the communicator are not observed: lateness is "
                            "relative to those that are",
                            comm->nranks - comm->members, comm->nranks);
    }
    if (sampled) {
        muster_finding_line(to, "not all operations were timed: counts and times are of those "
                                "that were, not of the run");
    }
    if (missing) {
        muster_finding_line(to,
                            "%" PRIu64 " operations of these ranks were dropped, lost or "
                            "overwritten and are not compared",
                            missing);
    }
    if (!detail->tally.known) {
        const struct muster_view_op *op = &view->op[muster_unit_op(graph, detail->first)];
        muster_finding_line(
            to, "cause: %s",
            op->flags & MUSTER_OP_GRAPH ? "the host's calls of graph replays are not seen"
            : gpu->host_times           ? "no other rank does the same there"
                                        : "host times mean nothing in a replay at full speed");
    }
}

/* Of the other ranks of its host that use the same GPU one; NULL: none is known. */
static const struct muster_view_gpu *sharer(const struct muster_view *view,
                                            const struct muster_view_gpu *gpu)
{
    for (size_t g = 0; g < view->gpus && gpu->uuid; g++) {
        const struct muster_view_gpu *other = &view->gpu[g];
        if (other->uuid && other->rank != gpu->rank && strcmp(other->uuid, gpu->uuid) == 0 &&
            strcmp(other->host, gpu->host) == 0)
            return other;
    }
    return NULL;
}

/* What the others' kernels on its GPU take shows nowhere else. */
static void put_sharer(const struct muster_view *view, const struct muster_suspect *own,
                       struct muster_finding *finding)
{
    const struct muster_view_gpu *gpu = &view->gpu[own->gpu];
    const struct muster_view_gpu *other = own->host ? NULL : sharer(view, gpu);
    if (other && finding->cause != MUSTER_CAUSE_HOST) {
        muster_finding_line(&finding->evidence,
                            "rank %" PRId32 " shares its GPU with rank %" PRId32
                            ": each waits while the other's kernels run",
                            gpu->rank, other->rank);
    }
}

static bool is_named(const struct muster_finding *finding, int32_t rank)
{
    bool named = false;
    for (uint32_t i = 0; i < finding->ranks && !named; i++)
        named = finding->rank[i] == rank;
    return named;
}

/* Whether one of them shares its GPU. */
static bool advise_own_gpu(const struct muster_view *view, struct muster_finding *finding)
{
    bool own = finding->kind == MUSTER_FINDING_LATE_RANK && finding->cause != MUSTER_CAUSE_HOST;
    const struct muster_view_gpu *gpu = view->gpu, *other = NULL;
    for (size_t g = 0; g < view->gpus && own && !other; g++) {
        gpu = &view->gpu[g];
        other = is_named(finding, gpu->rank) ? sharer(view, gpu) : NULL;
    }
    if (!other)
        return false;
    snprintf(finding->advice, sizeof finding->advice,
             "give rank %" PRId32 " a GPU of its own, by torch.cuda.set_device(LOCAL_RANK) or "
             "CUDA_VISIBLE_DEVICES: rank %" PRId32 " uses the same one",
             gpu->rank, other->rank);
    return true;
}

static void advise(const struct muster_view *view, struct muster_finding *finding)
{
    if (finding->every_steps && finding->ranks == 1 && finding->cause != MUSTER_CAUSE_GPU) {
        muster_text_copy(finding->advice, sizeof finding->advice,
                         "look at what this rank alone does at that beat: checkpoints, logging, "
                         "metrics, evaluation; do it less often, on a thread of its own, or on all "
                         "ranks");
        return;
    }
    if (advise_own_gpu(view, finding))
        return;
    bool host = finding->kind == MUSTER_FINDING_LATE_HOST;
    const char *what =
        host && finding->cause == MUSTER_CAUSE_GPU
            ? "look at what its GPUs share: power, cooling, clocks (nvidia-smi -q -d "
              "CLOCK,POWER,TEMPERATURE); `muster doctor` on that host; drain it if it stays so"
        : host
            ? "look at what its ranks share: CPUs and their quota, memory, storage, another job; "
              "`muster doctor` on that host; drain it if it stays so"
        : finding->cause == MUSTER_CAUSE_HOST
            ? "look at its process: CPU time, data loading, I/O, others on its cores"
        : finding->cause == MUSTER_CAUSE_GPU
            ? "look at its GPU: clocks, power cap, temperature, other processes, more work than "
              "the others"
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
    const struct muster_view_comm *own = &view->comm[comm];
    size_t waiting = 0, inside = 0;
    for (size_t g = 0; g < view->gpus; g++)
        waiting += waits[g] >= least;
    for (uint32_t i = 0; i < own->members; i++)
        inside += waits[view->member[own->first_member + i].gpu] >= least;
    bool beyond = waiting > inside;
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
    for (size_t g = 0; g < graph->view->gpus; g++)
        if (suspects->group[g] == s && finding->ranks < MUSTER_FINDING_RANKS)
            finding->rank[finding->ranks++] = graph->view->gpu[g].rank;
}

static bool is_chained(const struct muster_graph *graph)
{
    bool chained = false;
    for (size_t t = 0; t < graph->turns && graph->first_partner && !chained; t++)
        chained = graph->turn[t].kind == MUSTER_TURN_PARTNERS;
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
    finding->kind = own->host ? MUSTER_FINDING_LATE_HOST : MUSTER_FINDING_LATE_RANK;
    finding->comm = comm->id;
    muster_text_copy(finding->host, sizeof finding->host, gpu->host);
    finding->gpu = own->host ? -1 : gpu->gpu_index;
    finding->every_steps = detail->when.every_steps;
    finding->every_s = detail->when.every_s;
    finding->step_s = detail->when.step_s;
    finding->against_one = muster_view_is_pair(view) || graph->seat[own->seat].past;
    muster_where_of(graph, own->seat, finding->where, sizeof finding->where);
    finding->mode = detail->late == 1                            ? MUSTER_MODE_ONCE
                    : detail->late >= PERSISTENT * detail->turns ? MUSTER_MODE_PERSISTENT
                                                                 : MUSTER_MODE_INTERMITTENT;
    finding->cause = detail->cause;
    finding->confidence = muster_confidence_late(is_chained(graph));
    muster_finding_set_op(finding, view, comm, op);
    finding->op.root = view->class[op->class].root;
    finding->since_unix_ns =
        op->enqueue_ns + (uint64_t)view->gpu[muster_unit_gpu(graph, detail->first)].unix_ns;
}

/* GPUs that wait while one does not come: those of the job, as far as they are known. */
static double gpus_of(const struct muster_view *view)
{
    size_t most = view->gpus;
    for (size_t c = 0; c < view->comms; c++)
        most = view->comm[c].nranks > most ? view->comm[c].nranks : most;
    return (double)most;
}

static void add_cost(const struct muster_view *view, const struct muster_suspect *own,
                     struct muster_finding *finding)
{
    enum { SECONDS_PER_HOUR = 3600 };
    finding->cost_s += own->gain_ns / (double)MUSTER_NS_PER_S;
    finding->cost_low_s = COST_LOW * finding->cost_s;
    finding->cost_high_s = COST_HIGH * finding->cost_s;
    finding->cost_share += own->share;
    finding->cost_run_s += own->run_ns / (double)MUSTER_NS_PER_S;
    finding->gpu_hours = finding->cost_run_s * gpus_of(view) / SECONDS_PER_HOUR;
}

/* In time. */
static void add_stretch(const struct detail *detail, int32_t rank, struct muster_finding *finding)
{
    const struct muster_when *when = &detail->when;
    unsigned at = finding->stretches;
    if (at == MUSTER_FINDING_STRETCHES)
        return;
    for (; at > 0 && finding->stretch[at - 1].since_unix_ns > when->span.since_unix_ns; at--)
        finding->stretch[at] = finding->stretch[at - 1];
    finding->stretch[at] = (struct muster_finding_stretch){
        rank, detail->cause, when->span.since_unix_ns, when->span.until_unix_ns};
    finding->stretches++;
}

/* The finding that tells of the suspect already; NULL: none. */
static struct muster_finding *found_with(const struct muster_findings *findings, size_t first,
                                         uint64_t comm, bool moves)
{
    for (size_t f = first; f < findings->n; f++) {
        struct muster_finding *known = &findings->finding[f];
        if (known->kind == MUSTER_FINDING_LATE_RANK && (moves || known->comm == comm))
            return known;
    }
    return NULL;
}

/* What is said of all its ranks holds for each. */
static void keep_common(const struct detail *detail, struct muster_finding *finding)
{
    finding->cause = detail->cause == finding->cause ? finding->cause : MUSTER_CAUSE_UNKNOWN;
    if (detail->when.every_steps != finding->every_steps) {
        finding->every_steps = 0;
        finding->every_s = 0;
    }
}

struct story {
    const struct muster_graph *graph;
    const struct muster_suspects *suspects;
    const struct muster_view_span *span;
    size_t first; /* of the findings, that this adds */
    bool moves;
};

static void describe_one(const struct story *story, size_t s, const struct detail *detail,
                         struct muster_findings *findings)
{
    const struct muster_graph *graph = story->graph;
    const struct muster_view *view = graph->view;
    const struct muster_suspect *own = &story->suspects->suspect[s];
    uint32_t comm = view->member[muster_unit_member(graph, detail->first)].comm;
    struct muster_finding *finding =
        own->host ? NULL : found_with(findings, story->first, view->comm[comm].id, story->moves);
    bool is_new = !finding;
    finding = finding ? finding : muster_findings_add(findings);
    if (!finding) {
        graph->memory->failed = true;
        return;
    }
    if (is_new)
        new_finding(graph, story->suspects, s, detail, finding);
    add_ranks(graph, story->suspects, s, finding);
    add_cost(view, own, finding);
    add_stretch(detail, view->gpu[own->gpu].rank, finding);
    put_delay(graph, own, detail, story->span, finding);
    if (is_new) {
        put_where(graph, detail, finding);
        put_host(detail, "", finding);
        put_limits(graph, detail, finding);
        add_victims(graph, story->suspects, s, comm, finding);
    } else {
        char whose[24];
        snprintf(whose, sizeof whose, "rank %" PRId32 ": ", view->gpu[own->gpu].rank);
        put_host(detail, whose, finding);
        keep_common(detail, finding);
    }
    put_sharer(view, own, finding);
    finding->mode = story->moves ? MUSTER_MODE_MOVES : finding->mode;
    finding->since_unix_ns =
        story->moves ? finding->stretch[0].since_unix_ns : finding->since_unix_ns;
    advise(view, finding);
}

/* Of each suspect. Whether all are late one after the other. */
static bool look_at_all(const struct muster_graph *graph, const struct muster_suspects *suspects,
                        struct detail *detail)
{
    struct muster_when when[MUSTER_SUSPECTS];
    bool hosts = false;
    for (size_t s = 0; s < suspects->n; s++) {
        look(graph, suspects, s, &detail[s]);
        muster_when_of(graph, suspects, s, &when[s]);
        detail[s].when = when[s];
        hosts |= suspects->suspect[s].host || !detail[s].first;
    }
    return !hosts && muster_when_moves(when, suspects->n);
}

void muster_straggler_describe(const struct muster_graph *graph,
                               const struct muster_suspects *suspects,
                               const struct muster_view_span *span,
                               struct muster_findings *findings)
{
    struct detail detail[MUSTER_SUSPECTS];
    bool moves = look_at_all(graph, suspects, detail);
    struct story story = {graph, suspects, span, findings->n, moves};
    for (size_t s = 0; s < suspects->n && !graph->memory->failed; s++)
        if (detail[s].first)
            describe_one(&story, s, &detail[s], findings);
}
