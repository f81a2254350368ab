#include "diagnose/straggler/what_if.h"

#include <string.h>

/* Where a circle of edges had to be cut, what is followed is not known yet: it counts as 0. */
#define NOT_YET INT64_MIN

void muster_what_if_begin(struct muster_what_if *what_if, const struct muster_graph *graph,
                          struct muster_arena *memory)
{
    size_t units = graph->units + 1, turns = graph->turns + 1, positions = graph->positions + 1;
    what_if->graph = graph;
    what_if->begin_ns = muster_arena_array(memory, units, sizeof *what_if->begin_ns);
    what_if->over = muster_arena_array(memory, turns, sizeof *what_if->over);
    what_if->other_ns = muster_arena_array(memory, positions, sizeof *what_if->other_ns);
}

/* From the end of another unit to its begin, and from its call, as it was. */
static int64_t since_end_ns(const struct muster_graph *graph, const struct muster_unit *unit,
                            uint32_t before)
{
    return (int64_t)(muster_unit_begin_ns(graph, unit) -
                     muster_unit_end_ns(graph, &graph->unit[before]));
}

static int64_t since_call_ns(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return (int64_t)(muster_unit_begin_ns(graph, unit) - muster_unit_call_ns(graph, unit));
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t begin_of(const struct muster_what_if *what_if, uint32_t u)
{
    return what_if->begin_ns[u] == NOT_YET ? 0 : what_if->begin_ns[u];
}

static int64_t call_of(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_unit *unit = &what_if->graph->unit[u];
    return what_if->begin_ns[u] == NOT_YET
               ? 0
               : what_if->begin_ns[u] - since_call_ns(what_if->graph, unit);
}

/* What waits for its partners alone is over when all of them have come. */
static int64_t end_of_partners(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_graph *graph = what_if->graph;
    int64_t last = begin_of(what_if, u);
    for (uint32_t i = graph->first_partner[u]; i < graph->first_partner[u + 1]; i++) {
        last = most(last, begin_of(what_if, graph->partner[i]));
    }
    return last + (int64_t)graph->turn[graph->unit[u].turn].transfer_ns;
}

/* When a unit is over. */
static int64_t end_of(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_turn *turn = &graph->turn[graph->unit[u].turn];
    const struct muster_turn_end *over = &what_if->over[graph->unit[u].turn];
    uint32_t root = graph->of_turn[turn->first];
    if (turn->kind == MUSTER_TURN_PARTNERS) {
        return end_of_partners(what_if, u);
    }
    if (over->last_ns == NOT_YET) {
        return 0;
    }
    if (turn->kind == MUSTER_TURN_APART || (turn->kind == MUSTER_TURN_FROM_ROOT && u == root) ||
        (turn->kind == MUSTER_TURN_TO_ROOT && u != root)) {
        bool whole = muster_turn_is_whole(graph, turn);
        return begin_of(what_if, u) +
               (whole ? muster_unit_length_ns(graph, &graph->unit[u]) : over->transfer_ns);
    }
    if (turn->kind == MUSTER_TURN_FROM_ROOT) {
        return most(begin_of(what_if, u), begin_of(what_if, root)) + over->transfer_ns;
    }
    return over->last_ns + over->transfer_ns;
}

/* When its local edge lets the unit begin; a unit that follows nothing ends where the job begins.
 */
static int64_t local_ns(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    uint32_t before = muster_unit_before(graph, unit, unit->edge);
    if (before == MUSTER_NO_UNIT) {
        before = unit->own;
        return before == MUSTER_NO_UNIT
                   ? -muster_unit_length_ns(graph, unit)
                   : end_of(what_if, before) + since_end_ns(graph, unit, before);
    }
    if (!muster_unit_knows(graph, unit, unit->edge)) {
        return end_of(what_if, before); /* whom it waited for in between was not seen */
    }
    int64_t own = muster_unit_own(graph, unit, unit->edge);
    if (unit->edge == MUSTER_EDGE_CALL) {
        return call_of(what_if, before) + own + since_call_ns(graph, unit);
    }
    return own +
           (muster_edge_begins(unit->edge) ? begin_of(what_if, before) : end_of(what_if, before));
}

static void begin_unit(struct muster_what_if *what_if, uint32_t u, bool as_usual)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    const struct muster_seat *seat = &graph->seat[unit->seat];
    int64_t at = local_ns(what_if, u);
    uint32_t own = unit->own;
    int64_t more = muster_unit_excess_ns(graph, unit) - most(what_if->other_ns[seat->position], 0);
    more = as_usual && seat->log_e > 0 && more > 0 ? more : 0;
    at -= more;
    uint32_t last = muster_unit_last(graph, unit);
    int64_t waited_ns = muster_unit_waited_ns(graph, unit);
    if (waited_ns > 0 && last != MUSTER_NO_UNIT) {
        /* It waited for what ended last: it need not if that ends sooner. */
        int64_t gap = since_end_ns(graph, unit, last) - more;
        at = most(at - waited_ns, end_of(what_if, last) + gap);
    }
    if (own != MUSTER_NO_UNIT) {
        /* What was ready before its communicator was free: it needs as long as it usually does. */
        const struct muster_position *position = &graph->position[seat->position];
        int64_t gap = since_end_ns(graph, unit, own);
        if (unit->edge != position->edge && unit->edge == MUSTER_EDGE_OWN) {
            int64_t since = muster_unit_own(graph, unit, position->edge);
            int64_t ready = position->ready_ns < since ? position->ready_ns : since;
            uint32_t from = muster_unit_before(graph, unit, position->edge);
            at = most(at, ready + (muster_edge_begins(position->edge) ? begin_of(what_if, from)
                                                                      : end_of(what_if, from)));
        }
        at = most(at, end_of(what_if, own) + (gap < 0 ? gap : 0));
    }
    what_if->begin_ns[u] = at;
}

/* Returns when its last unit is over. Ranks that were not seen, or not timed, come first. */
static int64_t end_turn(struct muster_what_if *what_if, uint32_t t)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_turn *turn = &graph->turn[t];
    const uint32_t *unit = &graph->of_turn[turn->first];
    struct muster_turn_end own = {INT64_MIN, (int64_t)turn->transfer_ns};
    int64_t over = INT64_MIN;
    bool whole = muster_turn_is_whole(graph, turn);
    for (uint32_t i = 0; i < turn->units; i++) {
        own.last_ns = most(own.last_ns, what_if->begin_ns[unit[i]]);
        int64_t shortest = graph->seat[graph->unit[unit[i]].seat].least_ns;
        own.transfer_ns = whole ? own.transfer_ns : least(own.transfer_ns, shortest);
    }
    what_if->over[t] = own;
    if (turn->kind == MUSTER_TURN_PARTNERS) {
        return own.last_ns + own.transfer_ns; /* its partners have turns of their own */
    }
    for (uint32_t i = 0; i < turn->units; i++) {
        over = most(over, end_of(what_if, unit[i]));
    }
    return over;
}

/* By turns another GPU of those that stay as they are. */
static void note_others(struct muster_what_if *what_if, const struct muster_turn *turn, uint32_t t,
                        const uint8_t *group, uint32_t usual)
{
    const struct muster_graph *graph = what_if->graph;
    for (uint32_t i = 0; i < turn->units; i++) {
        uint32_t u = graph->of_turn[turn->first + (i + t) % turn->units];
        const struct muster_unit *unit = &graph->unit[u];
        const struct muster_seat *seat = &graph->seat[unit->seat];
        uint8_t own = group[muster_unit_gpu(graph, unit)];
        if (unit->evaluated && !seat->culprit && !(own < 32 && (usual >> own & 1))) {
            what_if->other_ns[seat->position] = muster_unit_excess_ns(graph, unit);
            return;
        }
    }
}

int64_t muster_what_if_ns(struct muster_what_if *what_if, const uint8_t *group, uint32_t usual)
{
    const struct muster_graph *graph = what_if->graph;
    int64_t over = 0;
    for (size_t u = 0; u < graph->units; u++) {
        what_if->begin_ns[u] = NOT_YET;
    }
    for (size_t t = 0; t < graph->turns; t++) {
        what_if->over[t].last_ns = NOT_YET;
    }
    memset(what_if->other_ns, 0, graph->positions * sizeof *what_if->other_ns);
    for (size_t t = 0; t < graph->ordered; t++) {
        const struct muster_turn *turn = &graph->turn[graph->order[t]];
        for (uint32_t i = 0; i < turn->units; i++) {
            uint32_t u = graph->of_turn[turn->first + i];
            uint8_t own = group[muster_unit_gpu(graph, &graph->unit[u])];
            begin_unit(what_if, u, own < 32 && (usual >> own & 1));
        }
        note_others(what_if, turn, (uint32_t)t, group, usual);
        over = most(over, end_turn(what_if, graph->order[t]));
    }
    return over;
}

void muster_what_if_waits(const struct muster_what_if *what_if, double *of_gpu)
{
    const struct muster_graph *graph = what_if->graph;
    memset(of_gpu, 0, graph->view->gpus * sizeof *of_gpu);
    for (uint32_t u = 0; u < graph->units; u++) {
        const struct muster_turn *turn = &graph->turn[graph->unit[u].turn];
        int64_t ns = end_of(what_if, u) - begin_of(what_if, u);
        if (turn->kind != MUSTER_TURN_APART && ns > (int64_t)turn->transfer_ns) {
            of_gpu[muster_unit_gpu(graph, &graph->unit[u])] +=
                (double)(ns - (int64_t)turn->transfer_ns);
        }
    }
}
