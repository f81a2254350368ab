/* What each unit did by itself: which edge its begin follows, learned from how waits vary, and how
 * long its host takes from call to call. */
#include <math.h>

#include "base/hash.h"
#include "base/sort.h"
#include "diagnose/straggler/hash_index.h"
#include "diagnose/straggler/job_graph.h"
#include "diagnose/straggler/pace.h"

#define BETTER 0.8 /* of the changes by another edge: less speaks for this one */
#define SHOW   0.5 /* of the ranks, each by as many of its units: by fewer, one of them is late */
#define APART  1.5 /* times as long: not the other's pace */
#define EVENLY 0.8 /* of the changes by another measure: less speaks for this one */

enum {
    GRAIN_NS = 4000,    /* changes below are nothing: clocks have steps */
    CHANGES_LEAST = 20, /* of own times: fewer tell no edge */
    TURNS_LEAST = 5,    /* a position met more rarely is none */
    DEEP = 16,          /* units that may be in the queue at once; with more nothing is learned */
    CALLS_LEAST = 20,   /* of a seat: fewer tell nothing */
};

/* ---- positions and seats ---- */

static uint32_t position_of(struct muster_graph *graph, struct muster_places *places,
                            uint64_t label, uint32_t u)
{
    uint32_t *at = muster_places_at(places, label);
    if (!*at) {
        struct muster_position *position =
            muster_arena_add(graph->memory, &graph->position, &graph->positions, sizeof *position);
        *position = (struct muster_position){.label = label, .unit = u};
        *at = (uint32_t)graph->positions;
    }
    return *at - 1;
}

static uint32_t seat_of(struct muster_graph *graph, struct muster_places *places, uint32_t position,
                        uint32_t gpu)
{
    uint32_t *at = muster_places_at(places, muster_hash_number((uint64_t)position << 32, gpu));
    if (!*at) {
        struct muster_seat *seat =
            muster_arena_add(graph->memory, &graph->seat, &graph->seats, sizeof *seat);
        *seat = (struct muster_seat){
            .position = position, .gpu = gpu, .last_unit = MUSTER_NO_UNIT, .least_ns = INT64_MAX};
        *at = (uint32_t)graph->seats;
    }
    return *at - 1;
}

static bool is_failed(const struct muster_graph *graph)
{
    return graph->memory->failed || graph->making->failed;
}

/* Where the last units of each GPU sat: seats follow each other as they did a step before. */
struct followers {
    uint32_t *last; /* of each GPU: its last seat, + 1; 0: none */
    uint32_t *next; /* of each seat: what came after it, + 1 */
    size_t n;
};

/* What came after the GPU's last seat before, + 1; 0: nothing yet. */
static inline uint32_t followed(const struct followers *after, uint32_t gpu)
{
    return after->last[gpu] && after->next ? after->next[after->last[gpu] - 1] : 0;
}

/* MUSTER_NO_UNIT: no memory. */
static uint32_t next_seat(struct muster_graph *graph, struct muster_places *places,
                          struct followers *after, uint32_t position, uint32_t gpu)
{
    uint32_t last = after->last[gpu], seat = followed(after, gpu);
    if (!seat || graph->seat[seat - 1].position != position) {
        seat = seat_of(graph, places, position, gpu) + 1;
        while (after->n < graph->seats && !is_failed(graph))
            muster_arena_add(graph->making, &after->next, &after->n, sizeof *after->next);
        if (is_failed(graph))
            return MUSTER_NO_UNIT;
    }
    if (last && after->next)
        after->next[last - 1] = seat;
    after->last[gpu] = seat;
    return seat - 1;
}

/* A unit that began as soon as its communicator's last was over tells nothing. */
static bool is_informative(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return unit->scored && muster_unit_knows(graph, unit, MUSTER_EDGE_LAST) &&
           muster_unit_own(graph, unit, MUSTER_EDGE_LAST) >= MUSTER_GAP_NS &&
           (!muster_unit_knows(graph, unit, MUSTER_EDGE_OWN) ||
            muster_unit_own(graph, unit, MUSTER_EDGE_OWN) >= MUSTER_GAP_NS);
}

static void note_own(struct muster_seat *seat, unsigned edge, int64_t own)
{
    if (seat->own[edge]) {
        double change = (double)(own - seat->own[edge]);
        seat->change[edge] += change < 0 ? -change : change;
        seat->changes[edge]++;
    }
    seat->own[edge] = own ? own : 1;
}

static void note_change(const struct muster_graph *graph, const struct muster_unit *unit,
                        struct muster_seat *seat)
{
    struct muster_position *position = &graph->position[seat->position];
    uint16_t queued = muster_unit_queued(graph, unit);
    bool known = muster_unit_knows_queued(graph, unit);
    uint64_t begin_ns = muster_unit_begin_ns(graph, unit);
    uint32_t before = unit->own;
    position->host_known += known;
    position->at_once += known && queued <= MUSTER_QUEUED_AT_ONCE;
    note_own(seat, MUSTER_EDGE_LAST, muster_unit_own(graph, unit, MUSTER_EDGE_LAST));
    for (unsigned back = 0; back < MUSTER_BACK && before != MUSTER_NO_UNIT; back++) {
        const struct muster_unit *own = &graph->unit[before];
        if (unit->known >> (MUSTER_EDGE_OWN + back) & 1)
            note_own(seat, MUSTER_EDGE_OWN + back,
                     (int64_t)(begin_ns - muster_unit_end_ns(graph, own)));
        if (unit->known >> (MUSTER_EDGE_BEGIN + back) & 1)
            note_own(seat, MUSTER_EDGE_BEGIN + back,
                     (int64_t)(begin_ns - muster_unit_begin_ns(graph, own)));
        before = own->own;
    }
    if (muster_unit_knows(graph, unit, MUSTER_EDGE_CALL))
        note_own(seat, MUSTER_EDGE_CALL, muster_unit_own(graph, unit, MUSTER_EDGE_CALL));
}

/* For learning which edge holds, while the turn's units are at hand. */
static void note_unit(struct muster_graph *graph, const struct muster_unit *unit)
{
    struct muster_seat *seat = &graph->seat[unit->seat];
    seat->least_ns = muster_ns_least(seat->least_ns, muster_unit_length_ns(graph, unit));
    seat->hints += unit->scored && muster_unit_knows(graph, unit, MUSTER_EDGE_LAST);
    if (is_informative(graph, unit))
        note_change(graph, unit, seat);
}

static void seat_turn(struct muster_graph *graph, const struct muster_turn *turn,
                      struct muster_places *positions, struct muster_places *seats,
                      struct followers *after)
{
    uint64_t role = graph->role[turn->comm];
    uint32_t position = MUSTER_NO_UNIT;
    for (uint32_t i = 0; i < turn->units; i++) {
        uint32_t u = graph->of_turn[turn->first + i];
        struct muster_unit *unit = &graph->unit[u];
        uint32_t gpu = muster_unit_gpu_unseated(unit);
        muster_unit_ask_next(graph, unit);
        if (i == 0 || !turn->alike) {
            uint64_t label = muster_hash_number(role, graph->label[unit->seat]);
            uint32_t met = followed(after, gpu);
            position = met && graph->position[graph->seat[met - 1].position].label == label
                           ? graph->seat[met - 1].position
                           : position_of(graph, positions, label, u);
            if (is_failed(graph))
                return;
            graph->position[position].turns++;
        }
        unit->seat = next_seat(graph, seats, after, position, gpu);
        unit->excess_ns = 0;
        if (unit->seat == MUSTER_NO_UNIT)
            return;
        struct muster_seat *seat = &graph->seat[unit->seat];
        graph->in_order &= seat->last_unit == MUSTER_NO_UNIT || seat->last_unit < u;
        seat->last_unit = u;
        note_unit(graph, unit);
    }
}

void muster_graph_seats(struct muster_graph *graph)
{
    struct muster_places positions = {.memory = graph->making}, seats = positions;
    struct followers after = {
        .last = muster_arena_array(graph->making, graph->view->gpus + 1, sizeof *after.last)};
    graph->in_order = true;
    for (size_t t = 0; t < graph->ordered && !is_failed(graph); t++) {
        if (t + 3 * MUSTER_AHEAD < graph->ordered) {
            const uint32_t *order = &graph->order[t];
            const uint32_t ahead[] = {order[MUSTER_AHEAD], order[2 * MUSTER_AHEAD],
                                      order[3 * MUSTER_AHEAD]};
            muster_turns_ask(graph, ahead);
        }
        seat_turn(graph, &graph->turn[graph->order[t]], &positions, &seats, &after);
    }
}

/* ---- which edge ---- */

/* Of one edge at one position, over its seats. */
struct edge_sum {
    double log_change, seats; /* of the mean change of each seat */
    double most;              /* of these: a culprit's */
    double changes;
};

/* Of one position. */
struct learned {
    struct edge_sum edge[MUSTER_EDGES];
    uint32_t seats, showing; /* showing: enough of whose units show an edge */
};

/* By how much own times change, without the rank where they do most: it may be late. */
static double mean_change(const struct edge_sum *sum)
{
    return sum->seats >= 3  ? exp((sum->log_change - sum->most) / (sum->seats - 1))
           : sum->seats > 0 ? exp(sum->log_change / sum->seats)
                            : INFINITY;
}

/* Whether own times by this edge are known as often as by the last end. */
static bool may_be(const struct edge_sum *sum, const struct muster_position *position, unsigned e)
{
    return sum[e].changes >= BETTER * sum[MUSTER_EDGE_LAST].changes &&
           sum[e].changes >= CHANGES_LEAST &&
           (e != MUSTER_EDGE_CALL || muster_position_waits_for_host(position));
}

static uint64_t role_of(const struct muster_graph *graph, const struct muster_position *position)
{
    return graph->role[graph->turn[graph->unit[position->unit].turn].comm];
}

static bool most_show(const struct learned *learned)
{
    return learned->seats && learned->showing >= SHOW * learned->seats;
}

/* Gradients are all-reduced while computing goes on. Where a step begins, most ranks find their
 * communicator free; later on, as one of them was late there, it is busy whenever they come, and
 * own times from its last end are that one's alone: what the others do between they do meanwhile.
 * From begin to begin they are as long as they waited. Where a late host calls late, it is known by
 * calls what hosts take. */
static bool is_busy(const struct muster_graph *graph, const struct learned *learned,
                    const struct muster_position *position, const struct muster_places *begins)
{
    const struct edge_sum *sum = learned->edge;
    const struct muster_view_op *op = muster_op_of(graph, &graph->unit[position->unit]);
    return graph->view->class[op->class].func == MUSTER_FUNC_ALL_REDUCE && !most_show(learned) &&
           muster_places_find(begins, role_of(graph, position)) &&
           !muster_position_waits_for_host(position) && may_be(sum, position, MUSTER_EDGE_BEGIN) &&
           BETTER * mean_change(&sum[MUSTER_EDGE_BEGIN]) < mean_change(&sum[MUSTER_EDGE_LAST]);
}

/* The edge by which own times change least; one further down must be clearly better. */
static uint8_t choose(const struct edge_sum *sum, const struct muster_position *position, bool busy)
{
    uint8_t best = busy ? MUSTER_EDGE_BEGIN : MUSTER_EDGE_LAST;
    double least = mean_change(&sum[best]);
    for (unsigned e = 1; e < MUSTER_EDGES; e++) {
        double change = may_be(sum, position, e) ? mean_change(&sum[e]) : INFINITY;
        if (change < BETTER * least) {
            best = (uint8_t)e;
            least = change;
        }
    }
    return best;
}

/* Had hosts waited for their GPUs, it would be from the end there to the call that changes less. */
static bool runs(const struct edge_sum *sum, const struct muster_position *position)
{
    return may_be(sum, position, MUSTER_EDGE_CALL) &&
           mean_change(&sum[MUSTER_EDGE_CALL]) < mean_change(&sum[MUSTER_EDGE_LAST]);
}

static void choose_edges(struct muster_graph *graph, const struct learned *learned)
{
    struct muster_places begins = {.memory = graph->making}; /* roles with such a position */
    for (size_t p = 0; p < graph->positions; p++)
        if (most_show(&learned[p]))
            *muster_places_at(&begins, role_of(graph, &graph->position[p])) = 1;
    for (size_t p = 0; p < graph->positions && !graph->making->failed; p++) {
        struct muster_position *position = &graph->position[p];
        bool busy = is_busy(graph, &learned[p], position, &begins);
        position->edge = choose(learned[p].edge, position, busy);
        position->host_runs = runs(learned[p].edge, position);
    }
}

static void learn_edges(struct muster_graph *graph, struct learned *learned)
{
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        struct learned *at = &learned[seat->position];
        at->seats += seat->hints > 0;
        at->showing += seat->hints > 0 && seat->changes[MUSTER_EDGE_LAST] >= SHOW * seat->hints;
        for (unsigned e = 0; e < MUSTER_EDGES; e++) {
            struct edge_sum *own = &at->edge[e];
            own->changes += seat->changes[e];
            own->seats += seat->changes[e] > 0;
            double change =
                seat->changes[e] ? log(GRAIN_NS + seat->change[e] / seat->changes[e]) : 0;
            own->log_change += change;
            own->most = change > own->most ? change : own->most;
        }
    }
    choose_edges(graph, learned);
}

/* Whether what lies between the unit and the end that it follows, further back in its communicator,
 * waited for ranks that were not seen: nobody knows how much of that time is its own. */
static bool spans_unseen(const struct muster_graph *graph, const struct muster_unit *unit)
{
    uint32_t between = unit->own;
    for (unsigned e = MUSTER_EDGE_OWN; e < unit->edge; e++) {
        const struct muster_unit *one = &graph->unit[between];
        const struct muster_turn *turn = &graph->turn[one->turn];
        if (turn->p2p && !muster_turn_is_whole(graph, turn))
            return true;
        between = one->own;
    }
    return false;
}

/* ready: of each position sum and number of the own times that are seen. */
static void set_own(struct muster_graph *graph, double (*ready)[2])
{
    for (size_t u = 0; u < graph->units; u++) {
        struct muster_unit *unit = &graph->unit[u];
        uint32_t at = graph->seat[unit->seat].position;
        const struct muster_position *position = &graph->position[at];
        unit->edge = position->edge & 7u;
        if (!muster_unit_knows(graph, unit, unit->edge) ||
            (unit->edge <= MUSTER_EDGE_OWN_3 && spans_unseen(graph, unit))) {
            unit->edge = MUSTER_EDGE_LAST;
        } else if (unit->edge > MUSTER_EDGE_OWN && unit->edge < MUSTER_EDGE_CALL &&
                   muster_unit_own(graph, unit, MUSTER_EDGE_OWN) < MUSTER_GAP_NS) {
            unit->edge = MUSTER_EDGE_OWN; /* it was ready before: only the queue is seen */
        } else if (unit->scored && position->turns >= TURNS_LEAST) {
            int64_t own_ns = muster_unit_own(graph, unit, unit->edge);
            own_ns = own_ns < 0 ? 0 : own_ns;
            unit->own_ns = muster_shorten_ns(&graph->long_ns, own_ns);
            ready[at][0] += (double)own_ns;
            ready[at][1]++;
        }
    }
}

void muster_graph_edges(struct muster_graph *graph)
{
    struct muster_arena scratch = {0};
    struct learned *learned = muster_arena_array(&scratch, graph->positions + 1, sizeof *learned);
    double(*ready)[2] = muster_arena_array(&scratch, graph->positions + 1, sizeof *ready);
    graph->long_ns.memory = graph->memory;
    if (!scratch.failed) {
        learn_edges(graph, learned);
        set_own(graph, ready);
    }
    for (size_t p = 0; p < graph->positions && !scratch.failed; p++)
        graph->position[p].ready_ns = ready[p][1] > 0 ? (int64_t)(ready[p][0] / ready[p][1]) : 0;
    muster_arena_end(&scratch, graph->memory);
}

void muster_graph_add_bridged(const struct muster_graph *graph, struct muster_view_span *span)
{
    if (graph->units == graph->view->ops)
        return; /* all of it was timed */
    for (size_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (muster_op_of(graph, unit)->self_known ||
            !muster_unit_knows(graph, unit, MUSTER_EDGE_LAST)) {
            continue;
        }
        int64_t own_ns = muster_unit_own(graph, unit, MUSTER_EDGE_LAST);
        span[muster_unit_gpu(graph, unit)].covered_ns += own_ns > 0 ? (uint64_t)own_ns : 0;
    }
}

/* ---- how long a host takes from call to call, where it cannot have waited for its GPU ---- */

/* When a unit was called, on its GPU's clock. */
static int64_t called_ns(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return (int64_t)muster_unit_begin_ns(graph, unit) - muster_unit_queued_ns(graph, unit);
}

/* Whether nothing of its GPU's that was called before ended between the call before and its own: so
 * its host waited for none of it. `first`: of its GPU. */
static bool waited_for_nothing(const struct muster_graph *graph, uint32_t first, uint32_t u)
{
    int64_t now_ns = called_ns(graph, &graph->unit[u]);
    int64_t before_ns = called_ns(graph, &graph->unit[u - 1]);
    for (uint32_t back = 1; back <= DEEP && back <= u - first; back++) {
        int64_t end_ns = (int64_t)muster_unit_end_ns(graph, &graph->unit[u - back]);
        if (end_ns <= before_ns)
            return true;
        if (end_ns <= now_ns)
            return false;
    }
    return false;
}

static bool knows_calls(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return muster_unit_knows(graph, unit, MUSTER_EDGE_CALL) &&
           muster_unit_knows_queued(graph, unit) && muster_unit_knows_queued(graph, unit - 1);
}

/* By how much a time changes from one unit of a seat to the next. */
struct change {
    int64_t last_ns;
    double sum;
};

/* What the calls of a seat are like. */
struct calls {
    struct muster_pace host; /* from call to call where the host waited for nothing */
    struct muster_pace gpu;  /* of what stood in the queue, from begin to begin */
    /* To the call: from the one before, and from the last end. */
    struct change from_call, from_last;
    uint32_t n;
};

static double mean_ns(const struct muster_pace *pace)
{
    return pace->n < CALLS_LEAST ? NAN : muster_pace_ns(pace);
}

static void note(struct change *change, bool first, int64_t ns)
{
    double by = (double)(ns - change->last_ns);
    change->sum += first ? 0 : fabs(by);
    change->last_ns = ns;
}

static void note_calls(const struct muster_graph *graph, uint32_t first, uint32_t u,
                       struct calls *calls)
{
    const struct muster_unit *unit = &graph->unit[u];
    int64_t queued_ns = muster_unit_queued_ns(graph, unit);
    int64_t own_ns = muster_unit_own(graph, unit, MUSTER_EDGE_LAST);
    int64_t took_ns = muster_unit_own(graph, unit, MUSTER_EDGE_CALL);
    note(&calls->from_call, !calls->n, took_ns);
    note(&calls->from_last, !calls->n, own_ns - queued_ns);
    calls->n++;
    if (waited_for_nothing(graph, first, u))
        muster_pace_add(&calls->host, took_ns);
    if (queued_ns > own_ns + (int64_t)MUSTER_QUEUED_NS)
        muster_pace_add(&calls->gpu, own_ns + graph->seat[graph->unit[u - 1].seat].least_ns);
}

/* Had it waited, its calls would follow the last end more evenly than the call before. */
static bool calls_run(const struct calls *calls)
{
    return calls->n >= CALLS_LEAST && calls->from_last.sum > EVENLY * calls->from_call.sum;
}

/* A host that is as far ahead as it may be waits in any call: it is as quick as its GPU. */
static bool is_own_pace(double host_ns, double gpu_ns)
{
    return host_ns > APART * gpu_ns || APART * host_ns < gpu_ns;
}

static void find_calls(const struct muster_graph *graph, struct calls *calls)
{
    for (size_t g = 0; g < graph->view->gpus; g++) {
        uint32_t first = graph->first_unit[g];
        for (uint32_t u = first + 1; u < graph->first_unit[g + 1]; u++) {
            const struct muster_unit *unit = &graph->unit[u];
            if (knows_calls(graph, unit) && muster_unit_last(graph, unit) == u - 1 &&
                muster_unit_knows(graph, unit, MUSTER_EDGE_LAST))
                note_calls(graph, first, u, &calls[unit->seat]);
        }
    }
}

/* Only who is compared with one other, or with the past, is held against its host's pace. */
void muster_graph_calls(struct muster_graph *graph)
{
    bool pair = muster_view_is_pair(graph->view), asked = pair || muster_graph_any_stages(graph);
    struct calls *calls =
        asked ? muster_arena_array(graph->making, graph->seats + 1, sizeof *calls) : NULL;
    if (calls)
        find_calls(graph, calls);
    for (size_t s = 0; s < graph->seats; s++) {
        struct muster_seat *seat = &graph->seat[s];
        double host_ns = calls ? mean_ns(&calls[s].host) : NAN;
        seat->host_ns = isnan(host_ns) ? MUSTER_NO_OWN : (int64_t)host_ns;
        seat->paced = pair && calls && is_own_pace(host_ns, mean_ns(&calls[s].gpu));
        seat->runs = calls && calls_run(&calls[s]);
    }
}
