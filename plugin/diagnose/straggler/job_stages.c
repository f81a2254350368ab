/* Stages of a pipeline that no other rank is like: against the other stages, and against what they
 * need themselves at other times. */
#include <math.h>

#include "base/clock.h"
#include "base/sort.h"
#include "diagnose/straggler/job_graph.h"

#define TIMED 0.9 /* of the operations of a GPU: fewer do not tell what it did in all */

/* Own times of the units of one member that begin with one function; logs, so that a pause counts
 * for little. */
struct pace {
    double sum;
    uint32_t n;
};

static bool is_stage(const struct muster_graph *graph, const struct muster_unit *unit,
                     uint32_t comm)
{
    const struct muster_turn *turn = &graph->turn[unit->turn];
    return turn->comm == comm && turn->p2p && !turn->alike && !unit->evaluated &&
           unit->own_ns != MUSTER_NO_SHORT;
}

static struct pace *pace_of(const struct muster_graph *graph, struct pace (*pace)[2],
                            const struct muster_unit *unit)
{
    const struct muster_view_op *op = &graph->view->op[muster_unit_op(graph, unit)];
    return &pace[op->member][op->func == MUSTER_FUNC_RECV];
}

/* What a stage usually takes: the lower median of the stages. */
static int64_t usual_stage(const struct muster_view_comm *comm, struct pace (*pace)[2], bool recv,
                           double *scratch)
{
    size_t n = 0;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++)
        if (pace[m][recv].n)
            scratch[n++] = exp(pace[m][recv].sum / pace[m][recv].n);
    muster_sort_double(scratch, n);
    return n < 2 ? MUSTER_NO_OWN : (int64_t)(MUSTER_STAGES * scratch[(n - 1) / 2]);
}

/* What each GPU did by itself in all, at positions that come again. */
static double *own_of_gpus(const struct muster_graph *graph)
{
    double *sum = muster_arena_array(graph->making, graph->view->gpus + 1, sizeof *sum);
    for (size_t u = 0; u < graph->units && sum; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (unit->own_ns != MUSTER_NO_SHORT && muster_unit_knows(graph, unit, MUSTER_EDGE_LAST)) {
            int64_t own = muster_unit_own(graph, unit, MUSTER_EDGE_LAST);
            sum[muster_unit_gpu(graph, unit)] += own > 0 ? (double)own : 0;
        }
    }
    return sum;
}

/* What all stages usually do by themselves in all; the lower median. */
static double usual_sum(const struct muster_view *view, const struct muster_view_comm *comm,
                        const double *of_gpu, double *scratch)
{
    for (uint32_t m = 0; m < comm->members; m++)
        scratch[m] = of_gpu[view->member[comm->first_member + m].gpu];
    muster_sort_double(scratch, comm->members);
    return comm->members ? scratch[(comm->members - 1) / 2] : 0;
}

/* Whether nearly all that each GPU of the communicator did was timed: only then its sum is. */
static bool all_timed(const struct muster_view *view, const struct muster_view_comm *comm,
                      const double *timed)
{
    bool all = true;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++)
        all &= timed[view->member[m].gpu] >= TIMED;
    return all;
}

/* Of each GPU the share of its operations that have GPU times. 1 where it is in one communicator
 * alone: all ranks time the same of it. */
static double *timed_of_gpus(const struct muster_view *view, struct muster_arena *memory)
{
    double *timed = muster_arena_array(memory, view->gpus + 1, sizeof *timed);
    double *ops = muster_arena_array(memory, view->gpus + 1, sizeof *ops);
    uint32_t *comms = muster_arena_array(memory, view->gpus + 1, sizeof *comms);
    bool whole = !memory->failed;
    for (size_t o = 0; o < view->ops && whole; o++) {
        uint32_t gpu = view->member[view->op[o].member].gpu;
        timed[gpu] += muster_source_is_gpu(view->op[o].source);
        ops[gpu]++;
    }
    for (size_t m = 0; m < view->members && whole; m++)
        comms[view->member[m].gpu] += view->member[m].ops > 0;
    for (size_t g = 0; g < view->gpus && whole; g++)
        timed[g] = comms[g] < 2 ? 1 : timed[g] / ops[g];
    return timed;
}

/* Whether any exchange is of ranks that do not all do the same. */
static bool any_stages(const struct muster_graph *graph)
{
    bool any = false;
    for (size_t t = 0; t < graph->turns && !any && graph->first_partner; t++)
        any = graph->turn[t].p2p && !graph->turn[t].alike;
    return any;
}

/* Stages that no other rank is like are compared with the other stages: they differ by design, but
 * not by much. */
void muster_graph_stages(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    if (!any_stages(graph))
        return;
    struct muster_arena *memory = graph->making;
    struct pace(*pace)[2] = muster_arena_array(memory, view->members + 1, sizeof *pace);
    double *scratch = muster_arena_array(memory, view->members + 1, sizeof *scratch);
    int64_t(*usual)[2] = muster_arena_array(memory, view->comms + 1, sizeof *usual);
    double *of_gpu = own_of_gpus(graph);
    double *sum = muster_arena_array(memory, view->comms + 1, sizeof *sum);
    double *timed = timed_of_gpus(view, memory);
    if (memory->failed)
        return;
    for (size_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (is_stage(graph, unit, view->member[muster_unit_member(graph, unit)].comm)) {
            struct pace *own = pace_of(graph, pace, unit);
            own->sum += log1p((double)muster_unit_own_ns(graph, unit));
            own->n++;
        }
    }
    for (size_t c = 0; c < view->comms; c++) {
        usual[c][0] = usual_stage(&view->comm[c], pace, false, scratch);
        usual[c][1] = usual_stage(&view->comm[c], pace, true, scratch);
        bool whole = all_timed(view, &view->comm[c], timed);
        sum[c] = whole ? usual_sum(view, &view->comm[c], of_gpu, scratch) : INFINITY;
    }
    for (size_t u = 0; u < graph->units; u++) {
        struct muster_unit *unit = &graph->unit[u];
        uint32_t comm = view->member[muster_unit_member(graph, unit)].comm;
        int64_t its = usual[comm][view->op[muster_unit_op(graph, unit)].func == MUSTER_FUNC_RECV];
        if (is_stage(graph, unit, comm) && its != MUSTER_NO_OWN) {
            bool slow = of_gpu[muster_unit_gpu(graph, unit)] > MUSTER_STAGES * sum[comm];
            int64_t own_ns = muster_unit_own_ns(graph, unit);
            int64_t excess_ns = slow || own_ns < its ? own_ns - its : 0;
            unit->evaluated = unit->stage = true;
            muster_unit_set_excess(graph, unit, excess_ns, muster_unit_host(graph, unit));
        }
    }
}

/* ---- against what they need at other times ---- */

#define TIMES 1.5 /* half as much again passes for what differs from step to step */
/* While the job runs: a stage that took longer for some seconds of so few has no past yet. */
#define PAST_NS (10 * MUSTER_NS_PER_S)
enum {
    QUARTER = 4,      /* so quick it is in one of four */
    UNITS_LEAST = 40, /* of a seat: fewer have no past */
    /* A seat's units in the order of time: who is slow in the quietest of these parts half as often
     * as in all of them, or oftener, always is. */
    PARTS = 8,
    QUIET = 2,
    OFTENER = 2,
};

/* What the units of each seat took by themselves: own[first[s]] to own[first[s + 1]]. */
struct past {
    size_t *first;
    int64_t *own, *usual; /* usual: MUSTER_NO_OWN: too few */
    double *more_ns;      /* beyond that, and beyond the other stages */
    double *stage_ns;
};

static bool has_past(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return unit->stage && graph->seat[unit->seat].stage && unit->own_ns != MUSTER_NO_SHORT;
}

/* One that others were like now and then is judged by these alone. */
static size_t find_stages(struct muster_graph *graph)
{
    size_t n = 0;
    for (size_t u = 0; u < graph->units; u++)
        graph->seat[graph->unit[u].seat].stage |= graph->unit[u].stage;
    for (size_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        graph->seat[unit->seat].stage &= unit->stage || !unit->evaluated;
    }
    for (size_t u = 0; u < graph->units; u++)
        n += has_past(graph, &graph->unit[u]);
    return n;
}

static void gather(const struct muster_graph *graph, struct past *past)
{
    for (size_t u = 0; u < graph->units; u++)
        if (has_past(graph, &graph->unit[u]))
            past->first[graph->unit[u].seat + 2]++;
    for (size_t s = 0; s < graph->seats; s++)
        past->first[s + 2] += past->first[s + 1];
    for (size_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (has_past(graph, unit))
            past->own[past->first[unit->seat + 1]++] = muster_unit_own_ns(graph, unit);
    }
}

/* From its first unit that has a past to its last. */
static uint64_t *covered_of_seats(const struct muster_graph *graph)
{
    uint64_t *first = muster_arena_array(graph->making, graph->seats + 1, sizeof *first);
    uint64_t *covered = muster_arena_array(graph->making, graph->seats + 1, sizeof *covered);
    for (size_t u = 0; u < graph->units && !graph->making->failed; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (!has_past(graph, unit))
            continue;
        uint64_t begin_ns = muster_unit_begin_ns(graph, unit);
        first[unit->seat] = first[unit->seat] ? first[unit->seat] : begin_ns;
        if (begin_ns > first[unit->seat] + covered[unit->seat])
            covered[unit->seat] = begin_ns - first[unit->seat];
    }
    return covered;
}

/* covered: NULL where the past is the whole run. */
static void find_usual(const struct muster_graph *graph, const uint64_t *covered, struct past *past)
{
    for (size_t s = 0; s < graph->seats; s++) {
        size_t n = past->first[s + 1] - past->first[s];
        int64_t *own = past->own + past->first[s];
        past->usual[s] = MUSTER_NO_OWN;
        bool begun = covered && covered[s] < PAST_NS;
        if (n >= UNITS_LEAST && !begun) {
            muster_sort_i64(own, n);
            past->usual[s] = own[(n - 1) / QUARTER];
        }
    }
}

/* Of a seat with a past: beyond it a unit is slow. */
static int64_t limit_of(const struct past *past, uint32_t seat)
{
    return (int64_t)(TIMES * (double)past->usual[seat]);
}

/* Where a seat is slow in more than a quarter, and as often at all times, nothing of it is. */
static void drop_always_uneven(const struct muster_graph *graph, struct past *past)
{
    struct muster_arena *memory = graph->making;
    uint32_t *seen = muster_arena_array(memory, graph->seats + 1, sizeof *seen);
    uint64_t(*slow)[PARTS] = muster_arena_array(memory, graph->seats + 1, sizeof *slow);
    for (uint32_t u = 0; u < graph->units && !memory->failed; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        uint32_t s = unit->seat;
        if (!has_past(graph, unit) || past->usual[s] == MUSTER_NO_OWN)
            continue;
        size_t n = past->first[s + 1] - past->first[s];
        slow[s][seen[s]++ * PARTS / n] += muster_unit_own_ns(graph, unit) > limit_of(past, s);
    }
    for (size_t s = 0; s < graph->seats && !memory->failed; s++) {
        uint64_t all = 0, quiet = 0;
        muster_sort_u64(slow[s], PARTS);
        for (unsigned i = 0; i < PARTS; i++) {
            all += slow[s][i];
            quiet += i < QUIET ? slow[s][i] : 0;
        }
        bool often = QUARTER * all > past->first[s + 1] - past->first[s];
        if (often && OFTENER * quiet * PARTS >= all * QUIET)
            past->usual[s] = MUSTER_NO_OWN;
    }
}

/* How much longer than at other times, no longer than anybody waited for it; 0 and less: not. */
static int64_t more_of(const struct muster_graph *graph, const struct past *past, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    int64_t usual = past->usual[unit->seat], own = muster_unit_own_ns(graph, unit);
    if (usual == MUSTER_NO_OWN)
        return INT64_MIN;
    int64_t most = limit_of(past, unit->seat);
    if (own <= most)
        return own - most;
    int64_t held = muster_unit_held_ns(graph, u);
    return held < own - usual ? held : own - usual;
}

/* Of each seat all units are told by the comparison that finds more. */
static void weigh(struct muster_graph *graph, struct past *past)
{
    for (uint32_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (!has_past(graph, unit))
            continue;
        int64_t more = more_of(graph, past, u), stage = muster_unit_excess_ns(graph, unit);
        past->more_ns[unit->seat] += more > 0 ? (double)more : 0;
        past->stage_ns[unit->seat] += stage > 0 ? (double)stage : 0;
    }
    for (size_t s = 0; s < graph->seats; s++)
        graph->seat[s].past =
            past->usual[s] != MUSTER_NO_OWN && past->more_ns[s] > past->stage_ns[s];
}

void muster_graph_past(struct muster_graph *graph)
{
    struct muster_arena *memory = graph->making;
    size_t stages = find_stages(graph), seats = graph->seats;
    if (!stages)
        return;
    struct past past = {
        .first = muster_arena_array(memory, seats + 2, sizeof *past.first),
        .own = muster_arena_array(memory, stages, sizeof *past.own),
        .usual = muster_arena_array(memory, seats, sizeof *past.usual),
        .more_ns = muster_arena_array(memory, seats, sizeof *past.more_ns),
        .stage_ns = muster_arena_array(memory, seats, sizeof *past.stage_ns),
    };
    const uint64_t *covered = graph->view->window ? covered_of_seats(graph) : NULL;
    if (memory->failed)
        return;
    gather(graph, &past);
    find_usual(graph, covered, &past);
    drop_always_uneven(graph, &past);
    weigh(graph, &past);
    for (uint32_t u = 0; u < graph->units; u++) {
        struct muster_unit *unit = &graph->unit[u];
        if (has_past(graph, unit) && graph->seat[unit->seat].past)
            muster_unit_set_excess(graph, unit, more_of(graph, &past, u),
                                   muster_unit_host(graph, unit));
    }
}
