/* What each unit did by itself: which edge its begin follows, learned from how waits vary, and what
 * is usual for the ranks that do the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/sort.h"
#include "diagnose/straggler/job_graph.h"

#define BETTER 0.8 /* of the changes by another edge: less speaks for this one */
#define AT_ONCE 0.7 /* of the units of a position: the GPU waited for its host */

enum {
    GRAIN_NS = 4000, /* changes below are nothing: clocks have steps */
    GAP_NS = 10000,   /* what begins sooner after its communicator's last was ready before */
    QUEUED_LEAST = 2, /* in MUSTER_QUEUED_NS: called so long before, it was not the call */
    CHANGES_LEAST = 20, /* of own times: fewer tell no edge */
    TURNS_LEAST = 5,  /* a position met more rarely is none */
};

/* ---- positions and seats ---- */

struct places {
    uint64_t *key;
    uint32_t *value; /* + 1; 0: free */
    size_t slots, used;
};

static int grow_places(struct places *places)
{
    struct places more = {.slots = places->slots ? 2 * places->slots : 1024};
    more.key = malloc(more.slots * sizeof *more.key);
    more.value = calloc(more.slots, sizeof *more.value);
    if (!more.key || !more.value) {
        free(more.key);
        free(more.value);
        return -1;
    }
    for (size_t i = 0; i < places->slots; i++) {
        if (places->value[i]) {
            size_t at = places->key[i] & (more.slots - 1);
            while (more.value[at]) {
                at = (at + 1) & (more.slots - 1);
            }
            more.key[at] = places->key[i];
            more.value[at] = places->value[i];
        }
    }
    more.used = places->used;
    free(places->key);
    free(places->value);
    *places = more;
    return 0;
}

/* Where the value of the key stands; NULL: no memory. */
static uint32_t *place(struct places *places, uint64_t key)
{
    if (2 * places->used >= places->slots && grow_places(places)) {
        return NULL;
    }
    size_t at = key & (places->slots - 1);
    while (places->value[at] && places->key[at] != key) {
        at = (at + 1) & (places->slots - 1);
    }
    places->used += places->value[at] == 0;
    places->key[at] = key;
    return &places->value[at];
}

static void free_places(struct places *places)
{
    free(places->key);
    free(places->value);
}

static uint32_t position_of(struct muster_graph *graph, struct places *places, uint64_t label,
                            uint32_t u)
{
    uint32_t *at = place(places, label);
    if (!at || *at) {
        return at ? *at - 1 : MUSTER_NO_UNIT;
    }
    if (!muster_grow(&graph->position, graph->positions, sizeof *graph->position)) {
        return MUSTER_NO_UNIT;
    }
    graph->position[graph->positions] = (struct muster_position){.label = label, .unit = u};
    *at = (uint32_t)++graph->positions;
    return *at - 1;
}

static uint32_t seat_of(struct muster_graph *graph, struct places *places, uint32_t position,
                        uint32_t gpu)
{
    uint32_t *at = place(places, muster_hash_number((uint64_t)position << 32, gpu));
    if (!at || *at) {
        return at ? *at - 1 : MUSTER_NO_UNIT;
    }
    if (!muster_grow(&graph->seat, graph->seats, sizeof *graph->seat)) {
        return MUSTER_NO_UNIT;
    }
    graph->seat[graph->seats] =
        (struct muster_seat){.position = position, .gpu = gpu, .first_late = MUSTER_NO_UNIT};
    *at = (uint32_t)++graph->seats;
    return *at - 1;
}

static int seat_turn(struct muster_graph *graph, const struct muster_turn *turn,
                     struct places *positions, struct places *seats)
{
    uint64_t role = graph->role[turn->comm];
    uint32_t position = MUSTER_NO_UNIT;
    for (uint32_t i = 0; i < turn->units; i++) {
        uint32_t u = graph->of_turn[turn->first + i];
        struct muster_unit *unit = &graph->unit[u];
        if (i == 0 || !turn->alike) {
            uint64_t label = muster_hash_number(role, unit->position);
            position = position_of(graph, positions, label, u);
        }
        unit->seat = position == MUSTER_NO_UNIT ? MUSTER_NO_UNIT
                                                : seat_of(graph, seats, position, unit->gpu);
        if (unit->seat == MUSTER_NO_UNIT) {
            return -1;
        }
        graph->position[position].turns += i == 0 || !turn->alike;
    }
    return 0;
}

static int make_seats(struct muster_graph *graph)
{
    struct places positions = {0}, seats = {0};
    int result = 0;
    for (size_t t = 0; t < graph->ordered && result == 0; t++) {
        result = seat_turn(graph, &graph->turn[graph->order[t]], &positions, &seats);
    }
    free_places(&positions);
    free_places(&seats);
    return result;
}

/* ---- which edge ---- */

static bool waited_for_call(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return graph->view->gpu[unit->gpu].host_times && unit->queued != MUSTER_QUEUED_UNKNOWN &&
           unit->queued <= QUEUED_LEAST;
}

/* A unit that began as soon as its communicator's last was over tells nothing. */
static bool tells(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return unit->scored && muster_unit_knows(unit, MUSTER_EDGE_LAST) &&
           muster_unit_own(graph, unit, MUSTER_EDGE_LAST) >= GAP_NS &&
           (!muster_unit_knows(unit, MUSTER_EDGE_OWN) ||
            muster_unit_own(graph, unit, MUSTER_EDGE_OWN) >= GAP_NS);
}

static void note_change(const struct muster_graph *graph, const struct muster_unit *unit)
{
    struct muster_seat *seat = &graph->seat[unit->seat];
    struct muster_position *position = &graph->position[seat->position];
    bool known = graph->view->gpu[unit->gpu].host_times && unit->queued != MUSTER_QUEUED_UNKNOWN;
    position->host_known += known;
    position->at_once += known && waited_for_call(graph, unit);
    for (unsigned e = 0; e < MUSTER_EDGES; e++) {
        if (!muster_unit_knows(unit, e)) {
            continue;
        }
        int64_t own = muster_unit_own(graph, unit, e);
        if (seat->own[e]) {
            double change = (double)(own - seat->own[e]);
            seat->change[e] += change < 0 ? -change : change;
            seat->changes[e]++;
        }
        seat->own[e] = own ? own : 1;
    }
}

/* Of one edge at one position, over its seats. */
struct edge_sum {
    double log_change, seats; /* of the mean change of each seat */
    double most;              /* of these: a culprit's */
    double changes;
};

/* By how much own times change, without the rank where they do most: it may be late. */
static double mean_change(const struct edge_sum *sum)
{
    return sum->seats >= 3   ? exp((sum->log_change - sum->most) / (sum->seats - 1))
           : sum->seats > 0 ? exp(sum->log_change / sum->seats)
                             : INFINITY;
}

/* The edge by which own times change least; one further down must be clearly better. */
static uint8_t choose(const struct edge_sum *sum, const struct muster_position *position)
{
    bool hosts = position->at_once >= AT_ONCE * position->host_known && position->host_known;
    uint8_t best = MUSTER_EDGE_LAST;
    double least = mean_change(&sum[best]);
    for (unsigned e = 1; e < MUSTER_EDGES; e++) {
        bool may = sum[e].changes >= BETTER * sum[MUSTER_EDGE_LAST].changes &&
                   sum[e].changes >= CHANGES_LEAST && (e != MUSTER_EDGE_CALL || hosts);
        double change = may ? mean_change(&sum[e]) : INFINITY;
        if (change < BETTER * least) {
            best = (uint8_t)e;
            least = change;
        }
    }
    return best;
}

static int learn_edges(struct muster_graph *graph)
{
    struct edge_sum(*sum)[MUSTER_EDGES] = calloc(graph->positions + 1, sizeof *sum);
    if (!sum) {
        return -1;
    }
    for (size_t t = 0; t < graph->ordered; t++) {
        const struct muster_turn *turn = &graph->turn[graph->order[t]];
        for (uint32_t i = 0; i < turn->units; i++) {
            const struct muster_unit *unit = &graph->unit[graph->of_turn[turn->first + i]];
            if (tells(graph, unit)) {
                note_change(graph, unit);
            }
        }
    }
    for (size_t s = 0; s < graph->seats; s++) {
        const struct muster_seat *seat = &graph->seat[s];
        for (unsigned e = 0; e < MUSTER_EDGES; e++) {
            struct edge_sum *own = &sum[seat->position][e];
            own->changes += seat->changes[e];
            own->seats += seat->changes[e] > 0;
            double change =
                seat->changes[e] ? log(GRAIN_NS + seat->change[e] / seat->changes[e]) : 0;
            own->log_change += change;
            own->most = change > own->most ? change : own->most;
        }
    }
    for (size_t p = 0; p < graph->positions; p++) {
        graph->position[p].edge = choose(sum[p], &graph->position[p]);
    }
    free(sum);
    return 0;
}

static void set_own(struct muster_graph *graph)
{
    for (size_t u = 0; u < graph->units; u++) {
        struct muster_unit *unit = &graph->unit[u];
        const struct muster_position *position =
            &graph->position[graph->seat[unit->seat].position];
        unit->edge = position->edge;
        if (!muster_unit_knows(unit, unit->edge)) {
            unit->edge = MUSTER_EDGE_LAST;
        } else if (unit->edge > MUSTER_EDGE_OWN && unit->edge < MUSTER_EDGE_CALL &&
                   muster_unit_own(graph, unit, MUSTER_EDGE_OWN) < GAP_NS) {
            unit->edge = MUSTER_EDGE_OWN; /* it was ready before: only the queue is seen */
        } else if (unit->scored && position->turns >= TURNS_LEAST) {
            unit->own_ns = muster_unit_own(graph, unit, unit->edge);
            unit->own_ns = unit->own_ns < 0 ? 0 : unit->own_ns;
        }
    }
}

/* How long after what it follows a unit is ready, where that is seen. */
static int set_ready(struct muster_graph *graph)
{
    double(*sum)[2] = calloc(graph->positions + 1, sizeof *sum);
    for (size_t u = 0; u < graph->units && sum; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (unit->own_ns != MUSTER_NO_OWN) {
            sum[graph->seat[unit->seat].position][0] += (double)unit->own_ns;
            sum[graph->seat[unit->seat].position][1]++;
        }
    }
    for (size_t p = 0; p < graph->positions && sum; p++) {
        graph->position[p].ready_ns = sum[p][1] > 0 ? (int64_t)(sum[p][0] / sum[p][1]) : 0;
    }
    free(sum);
    return sum ? 0 : -1;
}

/* ---- what is usual ---- */

struct pool {
    int64_t *own;
    uint32_t *unit;
    size_t n;
};

static uint64_t call_before_ns(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return graph->unit[unit->call].call_ns;
}

/* A GPU that began as soon as it was called waited for its host. What that took longer is measured
 * from call to call, against ranks of the host that are so far ahead that they cannot have waited
 * for this one in between; unless there are few of these, a lag from before is nobody's excess. */
static int64_t host_excess(const struct muster_graph *graph, const struct pool *pool,
                           const struct muster_unit *unit, int64_t *scratch)
{
    const struct muster_view *view = graph->view;
    size_t n = 0, others = 0;
    if (!waited_for_call(graph, unit) || !muster_unit_knows(unit, MUSTER_EDGE_CALL)) {
        return INT64_MAX;
    }
    for (size_t i = 0; i < pool->n; i++) {
        const struct muster_unit *other = &graph->unit[pool->unit[i]];
        bool near = other != unit && strcmp(view->gpu[other->gpu].host, view->gpu[unit->gpu].host) == 0;
        others += other != unit;
        if (near && view->gpu[other->gpu].host_times &&
            muster_unit_knows(other, MUSTER_EDGE_CALL) &&
            other->call_ns < call_before_ns(graph, unit)) {
            scratch[n++] = muster_unit_own(graph, other, MUSTER_EDGE_CALL);
        }
    }
    if (2 * n < others || n == 0) {
        return INT64_MAX;
    }
    muster_sort_i64(scratch, n);
    return muster_unit_own(graph, unit, MUSTER_EDGE_CALL) - scratch[n / 2];
}

/* The lower median: half of the ranks may be guilty together. */
static int64_t usual_of(struct pool *pool)
{
    muster_sort_i64(pool->own, pool->n);
    return pool->own[(pool->n - 1) / 2];
}

/* How long after its communicator's last was over a unit began. */
static int64_t gap_of(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    return muster_unit_knows(unit, MUSTER_EDGE_OWN) ? muster_unit_own(graph, unit, MUSTER_EDGE_OWN)
                                                    : INT64_MAX;
}

/* Sorts pool->own anew. */
static void set_host(struct muster_graph *graph, struct pool *pool)
{
    size_t known = 0;
    for (size_t i = 0; i < pool->n; i++) {
        int64_t host = muster_unit_host(graph, &graph->unit[pool->unit[i]]);
        if (host != MUSTER_NO_OWN) {
            pool->own[known++] = host;
        }
    }
    if (known < 2) {
        return;
    }
    muster_sort_i64(pool->own, known);
    int64_t usual = pool->own[(known - 1) / 2];
    for (size_t i = 0; i < pool->n; i++) {
        struct muster_unit *unit = &graph->unit[pool->unit[i]];
        int64_t host = muster_unit_host(graph, unit);
        unit->host_ns = host == MUSTER_NO_OWN ? host : host - usual;
    }
}

/* Late is who took longer, less what it waited longer for others meanwhile, no later than it came
 * after the first to come, and no longer than anybody waited for it. */
static void judge_pool(struct muster_graph *graph, struct pool *pool)
{
    if (pool->n < 2) {
        return;
    }
    for (size_t i = 0; i < pool->n; i++) {
        pool->own[i] = graph->unit[pool->unit[i]].own_ns;
    }
    int64_t usual = usual_of(pool);
    for (size_t i = 0; i < pool->n; i++) {
        pool->own[i] = muster_graph_waited_ns(graph, pool->unit[i]);
    }
    int64_t usual_wait = usual_of(pool), first = INT64_MAX;
    set_host(graph, pool);
    for (size_t i = 0; i < pool->n; i++) {
        int64_t gap = gap_of(graph, pool->unit[i]);
        first = gap < first ? gap : first;
    }
    for (size_t i = 0; i < pool->n; i++) {
        struct muster_unit *unit = &graph->unit[pool->unit[i]];
        int64_t waited = muster_graph_waited_ns(graph, pool->unit[i]) - usual_wait;
        int64_t gap = gap_of(graph, pool->unit[i]);
        bool clamped = muster_edge_begins(unit->edge) && gap < INT64_MAX;
        int64_t after = clamped ? gap - first : INT64_MAX;
        int64_t more = unit->own_ns - usual, own = more - (waited > 0 ? waited : 0);
        own = after < own ? after : own;
        int64_t held = own > 0 ? muster_graph_held_ns(graph, pool->unit[i]) : INT64_MAX;
        own = held < own ? held : own;
        unit->excess_ns = own;
        unit->waited_ns = more > 0 ? more - (own > 0 ? own : 0) : 0;
        unit->judged = true;
        if (unit->excess_ns >= GAP_NS) {
            int64_t host_ns = host_excess(graph, pool, unit, pool->own);
            unit->carried = host_ns < unit->excess_ns / 2;
            unit->excess_ns = host_ns < unit->excess_ns ? host_ns : unit->excess_ns;
        }
    }
}

/* Units by what they are compared with: ranks of the same program in the same place of the same
 * step, in all communicators of the role. */
static uint64_t pool_key(const struct muster_graph *graph, const struct muster_unit *unit)
{
    const struct muster_turn *turn = &graph->turn[unit->turn];
    uint64_t label = graph->position[graph->seat[unit->seat].position].label;
    const struct muster_view_member *member = &graph->view->member[unit->member];
    uint64_t stage = turn->p2p && graph->stages[member->comm] ? (uint64_t)member->rank + 1 : 0;
    uint64_t program = (uint64_t)graph->program[unit->gpu] << 20 ^ stage;
    return muster_hash_number(label, muster_hash_number(program, turn->number << 1 ^ turn->graph));
}

static int set_usual(struct muster_graph *graph)
{
    struct muster_keyed *item = malloc(2 * (graph->units + 1) * sizeof *item);
    struct pool pool = {malloc((graph->units + 1) * sizeof *pool.own),
                        malloc((graph->units + 1) * sizeof *pool.unit), 0};
    size_t n = 0;
    int result = item && pool.own && pool.unit ? 0 : -1;
    for (uint32_t t = 0; t < graph->turns && result == 0; t++) {
        for (uint32_t i = 0; i < graph->turn[t].units; i++) {
            uint32_t u = graph->of_turn[graph->turn[t].first + i];
            if (graph->unit[u].own_ns != MUSTER_NO_OWN) {
                item[n++] = (struct muster_keyed){pool_key(graph, &graph->unit[u]), u, {0}};
            }
        }
    }
    struct muster_keyed *sorted = result ? NULL : muster_sort_keyed(item, item + n, n);
    for (size_t i = 0; i < n && result == 0; i++) {
        pool.unit[pool.n++] = sorted[i].value;
        if (i + 1 == n || sorted[i + 1].key != sorted[i].key) {
            judge_pool(graph, &pool);
            pool.n = 0;
        }
    }
    free(item);
    free(pool.own);
    free(pool.unit);
    return result;
}

int muster_graph_learn(struct muster_graph *graph)
{
    if (make_seats(graph) || learn_edges(graph)) {
        return -1;
    }
    set_own(graph);
    return muster_graph_waits(graph) || set_ready(graph) || set_usual(graph) ||
                   muster_graph_stages(graph)
               ? -1
               : 0;
}

void muster_graph_free(struct muster_graph *graph)
{
    free(graph->unit);
    free(graph->turn);
    free(graph->of_op);
    free(graph->of_turn);
    free(graph->first_partner);
    free(graph->partner);
    free(graph->order);
    free(graph->seat);
    free(graph->position);
    free(graph->role);
    free(graph->program);
    free(graph->waited_ns);
    free(graph->stages);
    memset(graph, 0, sizeof *graph);
}
