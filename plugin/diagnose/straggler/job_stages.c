/* Stages of a pipeline that no other rank is like: against the other stages, and against what they
 * need themselves at other times. */
#include <math.h>

#include "base/clock.h"
#include "base/sort.h"
#include "diagnose/straggler/job_graph.h"
#include "diagnose/straggler/pace.h"

#define TIMED 0.9 /* of the operations of a GPU: fewer do not tell what it did in all */

/* What is compared of an exchange: what its GPU took by itself, and its host from call to call. */
enum { GPU, HOST, SIDES };

/* By function: sends, receives. */
struct stages {
    struct muster_pace (*pace)[2][SIDES]; /* of each member's units */
    int64_t (*most_ns)[2][SIDES]; /* of each communicator; MUSTER_NO_OWN: nothing to compare with */
    double *most_in_all;          /* of each communicator: which share of its time one may work */
    double *scratch;
};

static bool is_stage(const struct muster_graph *graph, const struct muster_unit *unit,
                     uint32_t comm)
{
    const struct muster_turn *turn = &graph->turn[unit->turn];
    return turn->comm == comm && turn->p2p && !turn->alike && !unit->evaluated &&
           unit->own_ns != MUSTER_NO_SHORT;
}

static bool receives(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return graph->view->op[muster_unit_op(graph, unit)].func == MUSTER_FUNC_RECV;
}

static void find_paces(const struct muster_graph *graph, struct stages *stages)
{
    for (size_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        uint32_t member = muster_unit_member(graph, unit);
        if (!is_stage(graph, unit, graph->view->member[member].comm))
            continue;
        struct muster_pace *pace = stages->pace[member][receives(graph, unit)];
        muster_pace_add(&pace[GPU], muster_unit_own_ns(graph, unit));
        if (graph->seat[unit->seat].host_ns != MUSTER_NO_OWN)
            muster_pace_add(&pace[HOST], graph->seat[unit->seat].host_ns);
    }
}

/* What a stage may take: more than the lower median of the stages by what they differ by design. */
static int64_t most_of_stages(const struct muster_view_comm *comm, const struct stages *stages,
                              bool recv, unsigned side)
{
    size_t n = 0;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++) {
        const struct muster_pace *pace = &stages->pace[m][recv][side];
        if (pace->n)
            stages->scratch[n++] = muster_pace_ns(pace);
    }
    muster_sort_double(stages->scratch, n);
    return n < 2 ? MUSTER_NO_OWN
                 : (int64_t)(muster_stages_differ(comm) * stages->scratch[(n - 1) / 2]);
}

/* Whether its host called after its GPU was done with what ran before, so that the GPU had to wait
 * for it; *host_ns: so much of its own time. */
static bool waited_for_host(const struct muster_graph *graph, const struct muster_unit *unit,
                            int64_t *host_ns)
{
    *host_ns = muster_unit_host(graph, unit);
    return *host_ns != MUSTER_NO_OWN && *host_ns > 0 &&
           muster_unit_knows(graph, unit, MUSTER_EDGE_CALL);
}

/* Who waits for another stage has its host ahead, so that its GPU takes its work from a queue.
 * Where a GPU waited for its host, only what it took after the call is held against what those of
 * the others took; what its host did before that, against their hosts. */
static int64_t excess_of(const struct muster_graph *graph, const struct muster_unit *unit,
                         const int64_t most_ns[SIDES])
{
    int64_t excess_ns = muster_unit_own_ns(graph, unit) - most_ns[GPU], before_ns;
    if (most_ns[HOST] == MUSTER_NO_OWN || !waited_for_host(graph, unit, &before_ns))
        return excess_ns;
    int64_t host_ns = muster_unit_own(graph, unit, MUSTER_EDGE_CALL) - most_ns[HOST];
    int64_t by_either = muster_ns_most(excess_ns - before_ns, host_ns);
    return muster_ns_least(excess_ns, by_either);
}

/* The longest at each position counts for nothing: in the first steps programs load and compile,
 * and all wait, for as long as many steps take. */
struct longest {
    int64_t own_ns, length_ns;
};

/* For which share of its time each GPU worked by itself, at positions that come again: of what
 * runs, less time is known of GPUs that have more operations. */
static double *shares_of_gpus(const struct muster_graph *graph)
{
    size_t gpus = graph->view->gpus;
    double *own = muster_arena_array(graph->memory, gpus + 1, sizeof *own);
    double *all = muster_arena_array(graph->making, gpus + 1, sizeof *all);
    struct longest *longest = muster_arena_array(graph->making, graph->seats + 1, sizeof *longest);
    for (size_t u = 0; u < graph->units && longest; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (unit->own_ns == MUSTER_NO_SHORT || !muster_unit_knows(graph, unit, MUSTER_EDGE_LAST))
            continue;
        struct longest *of_seat = &longest[unit->seat];
        int64_t own_ns = muster_ns_most(muster_unit_own(graph, unit, MUSTER_EDGE_LAST), 0);
        int64_t length_ns = muster_unit_length_ns(graph, unit);
        of_seat->own_ns = muster_ns_most(of_seat->own_ns, own_ns);
        of_seat->length_ns = muster_ns_most(of_seat->length_ns, length_ns);
        own[muster_unit_gpu(graph, unit)] += (double)own_ns;
        all[muster_unit_gpu(graph, unit)] += (double)(own_ns + length_ns);
    }
    for (size_t s = 0; s < graph->seats && longest; s++) {
        own[graph->seat[s].gpu] -= (double)longest[s].own_ns;
        all[graph->seat[s].gpu] -= (double)(longest[s].own_ns + longest[s].length_ns);
    }
    for (size_t g = 0; g < gpus && longest; g++)
        own[g] = all[g] > 0 ? own[g] / all[g] : 0;
    return own;
}

/* What a stage may do by itself in all: as above. Only where that is known of all of them. */
static double most_in_all(const struct muster_graph *graph, const struct muster_view_comm *comm,
                          const struct stages *stages)
{
    size_t n = comm->members;
    for (uint32_t m = 0; m < n; m++)
        stages->scratch[m] = graph->worked[graph->view->member[comm->first_member + m].gpu];
    muster_sort_double(stages->scratch, n);
    return n && stages->scratch[0] >= 0 ? muster_stages_differ(comm) * stages->scratch[(n - 1) / 2]
                                        : INFINITY;
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

static void set_worked(struct muster_graph *graph)
{
    double *timed = timed_of_gpus(graph->view, graph->making);
    graph->worked = shares_of_gpus(graph);
    for (size_t g = 0; g < graph->view->gpus && !graph->making->failed && graph->worked; g++)
        if (timed[g] < TIMED)
            graph->worked[g] = MUSTER_NOT_ALL_TIMED;
}

bool muster_graph_any_stages(const struct muster_graph *graph)
{
    bool any = false;
    for (size_t t = 0; t < graph->turns && !any && graph->first_partner; t++)
        any = graph->turn[t].p2p && !graph->turn[t].alike;
    return any;
}

static void evaluate_stages(struct muster_graph *graph, const struct stages *stages)
{
    const struct muster_view *view = graph->view;
    for (size_t u = 0; u < graph->units; u++) {
        struct muster_unit *unit = &graph->unit[u];
        uint32_t comm = view->member[muster_unit_member(graph, unit)].comm;
        const int64_t *most_ns = stages->most_ns[comm][receives(graph, unit)];
        if (is_stage(graph, unit, comm) && most_ns[GPU] != MUSTER_NO_OWN) {
            bool slow = graph->worked[muster_unit_gpu(graph, unit)] > stages->most_in_all[comm];
            int64_t excess_ns = excess_of(graph, unit, most_ns);
            unit->evaluated = unit->stage = true;
            muster_unit_set_excess(graph, unit, slow || excess_ns < 0 ? excess_ns : 0,
                                   muster_unit_host(graph, unit));
        }
    }
}

/* Stages that no other rank is like are compared with the other stages: they differ by design, but
 * not by much. */
void muster_graph_stages(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    if (!muster_graph_any_stages(graph))
        return;
    struct muster_arena *memory = graph->making;
    struct stages stages = {
        .pace = muster_arena_array(memory, view->members + 1, sizeof *stages.pace),
        .most_ns = muster_arena_array(memory, view->comms + 1, sizeof *stages.most_ns),
        .most_in_all = muster_arena_array(memory, view->comms + 1, sizeof *stages.most_in_all),
        .scratch = muster_arena_array(memory, view->members + 1, sizeof *stages.scratch),
    };
    set_worked(graph);
    if (memory->failed || !graph->worked)
        return;
    find_paces(graph, &stages);
    for (size_t c = 0; c < view->comms; c++) {
        const struct muster_view_comm *comm = &view->comm[c];
        for (unsigned recv = 0; recv < 2; recv++)
            for (unsigned side = 0; side < SIDES; side++)
                stages.most_ns[c][recv][side] = most_of_stages(comm, &stages, recv, side);
        stages.most_in_all[c] = most_in_all(graph, comm, &stages);
    }
    evaluate_stages(graph, &stages);
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

/* What the units of each seat took, by sides: [first[s]] to [first[s + 1]]. */
struct past {
    size_t *first;
    int64_t *took[SIDES];  /* INT64_MAX: not known */
    int64_t *usual[SIDES]; /* MUSTER_NO_OWN: too few */
    double *more_ns;       /* beyond that, and beyond the other stages */
    double *stage_ns;
};

/* From the call before; INT64_MAX: not known. */
static int64_t call_to_call(const struct muster_graph *graph, const struct muster_unit *unit)
{
    bool known = muster_unit_knows(graph, unit, MUSTER_EDGE_CALL);
    return known ? muster_unit_own(graph, unit, MUSTER_EDGE_CALL) : INT64_MAX;
}

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
        if (has_past(graph, unit)) {
            size_t at = past->first[unit->seat + 1]++;
            past->took[GPU][at] = muster_unit_own_ns(graph, unit);
            past->took[HOST][at] = call_to_call(graph, unit);
        }
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

static int64_t quickest_quarter(int64_t *took, size_t n)
{
    muster_sort_i64(took, n);
    while (n > 0 && took[n - 1] == INT64_MAX)
        n--;
    return n < UNITS_LEAST ? MUSTER_NO_OWN : took[(n - 1) / QUARTER];
}

/* covered: NULL where the past is the whole run. */
static void find_usual(const struct muster_graph *graph, const uint64_t *covered, struct past *past)
{
    for (size_t s = 0; s < graph->seats; s++) {
        size_t n = past->first[s + 1] - past->first[s];
        bool begun = covered && covered[s] < PAST_NS;
        for (unsigned side = 0; side < SIDES; side++) {
            past->usual[side][s] =
                begun ? MUSTER_NO_OWN : quickest_quarter(past->took[side] + past->first[s], n);
        }
    }
}

/* What is beyond `usual`; where it is no more than passes for that, by how much: negative. */
static int64_t beyond(int64_t ns, int64_t usual)
{
    int64_t limit = (int64_t)(TIMES * (double)usual);
    return ns > limit ? ns - usual : ns - limit;
}

/* How much longer than at other times, of a seat with a past; 0 and less: not. As above, what its
 * host did before it called is held against what that takes at other times. */
static int64_t longer_of(const struct muster_graph *graph, const struct past *past,
                         const struct muster_unit *unit)
{
    int64_t usual_ns = past->usual[GPU][unit->seat], paced_ns = past->usual[HOST][unit->seat];
    int64_t own_ns = muster_unit_own_ns(graph, unit), before_ns;
    int64_t longer = beyond(own_ns, usual_ns);
    if (!graph->seat[unit->seat].runs || paced_ns == MUSTER_NO_OWN ||
        !waited_for_host(graph, unit, &before_ns))
        return longer;
    int64_t host = beyond(call_to_call(graph, unit), paced_ns);
    return muster_ns_least(longer, muster_ns_most(beyond(own_ns - before_ns, usual_ns), host));
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
        if (!has_past(graph, unit) || past->usual[GPU][s] == MUSTER_NO_OWN)
            continue;
        size_t n = past->first[s + 1] - past->first[s];
        slow[s][seen[s]++ * PARTS / n] += longer_of(graph, past, unit) > 0;
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
            past->usual[GPU][s] = MUSTER_NO_OWN;
    }
}

/* The same, no longer than anybody waited for it. */
static int64_t more_of(const struct muster_graph *graph, const struct past *past, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    if (past->usual[GPU][unit->seat] == MUSTER_NO_OWN)
        return INT64_MIN;
    int64_t longer = longer_of(graph, past, unit);
    return longer > 0 ? muster_ns_least(longer, muster_unit_held_ns(graph, u)) : longer;
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
            past->usual[GPU][s] != MUSTER_NO_OWN && past->more_ns[s] > past->stage_ns[s];
}

void muster_graph_past(struct muster_graph *graph)
{
    struct muster_arena *memory = graph->making;
    size_t stages = muster_graph_any_stages(graph) ? find_stages(graph) : 0, seats = graph->seats;
    if (!stages)
        return;
    struct past past = {
        .first = muster_arena_array(memory, seats + 2, sizeof *past.first),
        .took = {muster_arena_array(memory, stages, sizeof **past.took),
                 muster_arena_array(memory, stages, sizeof **past.took)},
        .usual = {muster_arena_array(memory, seats, sizeof **past.usual),
                  muster_arena_array(memory, seats, sizeof **past.usual)},
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
