#include "diagnose/straggler/straggler_nobody.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/sort.h"
#include "base/text.h"
#include "diagnose/confidence.h"
#include "diagnose/straggler/straggler_details.h"

#define LONGER     1.0  /* than usual: what differs less may be how the work of steps differs */
#define WORTH      0.01 /* of the time: it blames nobody, so it must matter more than a late rank */
#define MOST_RANKS 0.75 /* of those seen: all are compared */
#define HOSTS      0.7  /* of the times: the hosts called late */
#define WARM       0.1  /* of the steps, at the beginning: there all are slow */
enum {
    LEAST_NS = 1000000, /* shorter is no wait for input or storage */
    STEPS_LEAST = 40,
    TIMES_LEAST = 5
};

/* All ranks before one position in one step. */
struct moment {
    uint32_t position, units, unit; /* unit: one of them */
    uint64_t number;
    int64_t least_ns; /* of the rank that took shortest by itself */
    int64_t since_ns; /* since the last of its communicator was over */
};

/* Where all waited alike. */
struct alike {
    uint32_t first, position; /* first: unit */
    uint32_t times, steps, by_host;
    int64_t usual_ns;
    double cost_ns;
};

static int in_order(const void *left, const void *right)
{
    const struct moment *a = left, *b = right;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static bool note(const struct muster_graph *graph, const struct muster_turn *turn,
                 struct moment *moment)
{
    *moment = (struct moment){.number = turn->number, .least_ns = INT64_MAX};
    for (uint32_t i = 0; i < turn->units && turn->alike && !turn->p2p && !turn->graph; i++) {
        uint32_t u = graph->of_turn[turn->first + i];
        const struct muster_unit *unit = &graph->unit[u];
        muster_unit_ask_next(graph, unit);
        if (!unit->scored || !muster_unit_knows(graph, unit, MUSTER_EDGE_LAST))
            continue;
        int64_t own = muster_unit_own(graph, unit, MUSTER_EDGE_LAST);
        if (own < moment->least_ns) {
            moment->least_ns = own;
            moment->since_ns = muster_unit_knows(graph, unit, MUSTER_EDGE_OWN)
                                   ? muster_unit_own(graph, unit, MUSTER_EDGE_OWN)
                                   : own;
            moment->unit = u;
        }
        moment->position = graph->seat[unit->seat].position;
        moment->units++;
    }
    return moment->units > 0;
}

/* Communicators of one role at one place of one step are one moment. */
static size_t join(struct moment *moment, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct moment *last = kept ? &moment[kept - 1] : NULL;
        if (!last || last->position != moment[i].position || last->number != moment[i].number) {
            moment[kept++] = moment[i];
            continue;
        }
        uint32_t units = last->units + moment[i].units;
        *last = moment[i].least_ns < last->least_ns ? moment[i] : *last;
        last->units = units;
    }
    return kept;
}

static bool is_late_call(const struct muster_graph *graph, uint32_t u, int64_t more_ns)
{
    const struct muster_unit *unit = &graph->unit[u];
    int64_t queued_ns = muster_unit_queued_ns(graph, unit);
    return muster_unit_knows_queued(graph, unit) && 2 * queued_ns < more_ns;
}

/* Moments of one position, in order. */
static void look(const struct muster_graph *graph, const struct moment *moment, size_t n,
                 int64_t *scratch, struct alike *alike)
{
    size_t warm = (size_t)(WARM * (double)n);
    *alike = (struct alike){.position = moment->position, .steps = (uint32_t)(n - warm)};
    for (size_t i = 0; i < n; i++)
        scratch[i] = moment[i].since_ns;
    muster_sort_i64(scratch, n);
    int64_t since_ns = scratch[n / 2];
    for (size_t i = 0; i < n; i++)
        scratch[i] = moment[i].least_ns;
    muster_sort_i64(scratch, n);
    alike->usual_ns = scratch[n / 2];
    for (size_t i = warm; i < n; i++) {
        int64_t more = moment[i].least_ns - alike->usual_ns;
        bool all = (double)moment[i].units >= MOST_RANKS * (double)graph->view->gpus;
        if (!all || more < LEAST_NS || (double)more < LONGER * (double)alike->usual_ns)
            continue;
        /* What another communicator did meanwhile may hide work in the other steps. */
        if (2 * (moment[i].since_ns - since_ns) < more)
            continue;
        alike->first = alike->times ? alike->first : moment[i].unit;
        alike->times++;
        alike->by_host += is_late_call(graph, moment[i].unit, more);
        alike->cost_ns += (double)more;
    }
}

static void word(const struct muster_graph *graph, const struct alike *alike,
                 const struct muster_view_span *span, struct muster_finding *finding)
{
    const struct muster_view *view = graph->view;
    const struct muster_unit *first = &graph->unit[alike->first];
    const struct muster_view_op *op = &view->op[muster_unit_op(graph, first)];
    const struct muster_view_comm *comm = &view->comm[view->member[op->member].comm];
    uint32_t gpu = muster_unit_gpu(graph, first);
    double ms = (double)MUSTER_NS_PER_MS, s = (double)MUSTER_NS_PER_S;
    finding->kind = MUSTER_FINDING_ALL_WAIT;
    finding->comm = comm->id;
    finding->since_unix_ns = op->enqueue_ns + (uint64_t)view->gpu[gpu].unix_ns;
    muster_finding_set_op(finding, view, comm, op);
    muster_where_of(graph, first->seat, finding->where, sizeof finding->where);
    finding->cost_s = alike->cost_ns / s;
    finding->cost_share = alike->cost_ns / (double)span[gpu].covered_ns;
    finding->cost_run_s = finding->cost_share * (double)span[gpu].length_ns / s;
    finding->confidence = muster_confidence_alike();
    muster_finding_line(&finding->evidence,
                        "in %" PRIu32 " of %" PRIu32 " steps each rank took longer by itself there "
                        "than usual (%.1f ms), the one that took shortest by %.1f ms on average",
                        alike->times, alike->steps, (double)alike->usual_ns / ms,
                        alike->cost_ns / alike->times / ms);
    muster_finding_line(&finding->evidence,
                        "in %" PRIu32 " of these %" PRIu32
                        " the calls came late: the hosts waited, "
                        "not the GPUs",
                        alike->by_host, alike->times);
    muster_finding_line(&finding->not_observable,
                        "what they waited for: a checkpoint or an evaluation that all ranks make "
                        "looks the same");
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "look at what all ranks share before this call: the input (more workers, "
                     "prefetching), its storage, the network to it; not at a rank");
}

/* Of all positions that which costs most, if it is worth a word. */
static struct alike find(const struct muster_graph *graph, const struct moment *moment, size_t n,
                         int64_t *scratch)
{
    struct alike best = {0}, one;
    for (size_t from = 0, end; from < n; from = end) {
        for (end = from; end < n && moment[end].position == moment[from].position; end++) {
        }
        if (end - from < STEPS_LEAST)
            continue;
        look(graph, &moment[from], end - from, scratch, &one);
        /* What usually begins as soon as the last is over was ready before: nothing is known of it.
         */
        bool counts = one.usual_ns >= MUSTER_GAP_NS && one.times >= TIMES_LEAST &&
                      one.by_host >= HOSTS * one.times;
        best = counts && one.cost_ns > best.cost_ns ? one : best;
    }
    return best;
}

/* How far apart the moments of a position are. */
struct spread {
    int64_t least_ns, most_ns;
    size_t n;
};

/* None of those that are no further apart than what counts as nothing is longer than usual by more:
 * they need not be put in order. */
static bool may_wait(const struct spread *spread)
{
    return spread->n >= STEPS_LEAST && spread->most_ns - spread->least_ns >= LEAST_NS;
}

static struct spread *find_spreads(const struct muster_graph *graph)
{
    struct spread *spread = muster_arena_array(graph->memory, graph->positions + 1, sizeof *spread);
    struct moment moment;
    for (size_t t = 0; t < graph->turns && spread; t++) {
        if (!note(graph, &graph->turn[t], &moment))
            continue;
        struct spread *own = &spread[moment.position];
        own->least_ns = muster_ns_least(own->n ? own->least_ns : INT64_MAX, moment.least_ns);
        own->most_ns = muster_ns_most(own->n ? own->most_ns : INT64_MIN, moment.least_ns);
        own->n++;
    }
    return spread;
}

/* Of the positions where all may have waited; *n of them. */
static struct moment *find_moments(const struct muster_graph *graph, size_t *n)
{
    const struct spread *spread = find_spreads(graph);
    size_t most = 0;
    *n = 0;
    for (size_t p = 0; p < graph->positions && spread; p++)
        most += may_wait(&spread[p]) ? spread[p].n : 0;
    struct moment *moment =
        most ? muster_arena_array(graph->memory, most + 1, sizeof *moment) : NULL;
    for (size_t t = 0; t < graph->turns && moment; t++)
        *n += note(graph, &graph->turn[t], &moment[*n]) && may_wait(&spread[moment[*n].position]);
    return moment;
}

void muster_straggler_alike(const struct muster_graph *graph, const struct muster_view_span *span,
                            struct muster_findings *findings)
{
    size_t n;
    struct moment *moment = find_moments(graph, &n);
    int64_t *scratch = n ? muster_arena_array(graph->memory, n, sizeof *scratch) : NULL;
    if (scratch) {
        qsort(moment, n, sizeof *moment, in_order);
        struct alike best = find(graph, moment, join(moment, n), scratch);
        uint32_t gpu = best.times ? muster_unit_gpu(graph, &graph->unit[best.first]) : 0;
        bool worth = best.times && best.cost_ns >= WORTH * (double)span[gpu].covered_ns;
        struct muster_finding *finding = worth ? muster_findings_add(findings) : NULL;
        graph->memory->failed |= worth && !finding;
        if (finding)
            word(graph, &best, span, finding);
    }
}
