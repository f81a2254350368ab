/* How long each GPU waited for others: what it did by itself is net of that. */
#include "diagnose/straggler/job_graph.h"

bool muster_turn_is_whole(const struct muster_graph *graph, const struct muster_turn *turn)
{
    return turn->kind == MUSTER_TURN_PARTNERS || (turn->p2p && turn->units > 1) ||
           (!turn->p2p && turn->units == graph->view->comm[turn->comm].nranks);
}

/* Where not all that it may have waited for were seen, it waits no less than it did beyond its own
 * shortest time at that position. */
static int64_t wait_of(const struct muster_graph *graph, const struct muster_unit *unit)
{
    const struct muster_turn *turn = &graph->turn[unit->turn];
    int64_t transfer = (int64_t)turn->transfer_ns, length_ns = muster_unit_length_ns(graph, unit);
    bool alone = turn->kind == MUSTER_TURN_APART;
    int64_t least = graph->seat[unit->seat].least_ns;
    if (!muster_turn_is_whole(graph, turn) && (alone || least < transfer)) {
        transfer = least;
    }
    return length_ns > transfer ? length_ns - transfer : 0;
}

/* Whether an edge reaches over other operations, so that waits in these count. */
static bool any_reaches(const struct muster_graph *graph)
{
    for (size_t p = 0; p < graph->positions; p++) {
        uint8_t edge = graph->position[p].edge;
        if (edge != MUSTER_EDGE_LAST && edge != MUSTER_EDGE_CALL) {
            return true;
        }
    }
    return false;
}

void muster_graph_waits(struct muster_graph *graph)
{
    for (size_t s = 0; s < graph->seats; s++) {
        graph->seat[s].least_ns = INT64_MAX;
    }
    for (size_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        int64_t *least = &graph->seat[unit->seat].least_ns;
        int64_t ns = muster_unit_length_ns(graph, unit);
        struct muster_turn *turn = &graph->turn[unit->turn];
        *least = ns < *least ? ns : *least;
        turn->longest_ns = ns > turn->longest_ns ? ns : turn->longest_ns;
    }
    if (!any_reaches(graph)) {
        return;
    }
    graph->waited_ns = muster_arena_array(graph->making, graph->units + 1, sizeof *graph->waited_ns);
    if (!graph->waited_ns) {
        return;
    }
    int64_t sum = 0;
    for (size_t u = 0; u < graph->units; u++) {
        graph->waited_ns[u] = sum;
        int64_t wait = wait_of(graph, &graph->unit[u]);
        sum = wait < INT64_MAX - sum ? sum + wait : INT64_MAX;
    }
    graph->waited_ns[graph->units] = sum;
}

int64_t muster_graph_waited_ns(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    uint32_t before = muster_unit_before(graph, unit, unit->edge);
    uint32_t last = muster_unit_last(graph, unit);
    if (unit->edge == MUSTER_EDGE_LAST || unit->edge == MUSTER_EDGE_CALL ||
        last == MUSTER_NO_UNIT || last < before) {
        return 0;
    }
    return graph->waited_ns[last + 1] - graph->waited_ns[before + 1];
}

int64_t muster_graph_held_ns(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    const struct muster_turn *turn = &graph->turn[unit->turn];
    int64_t held = INT64_MAX;
    uint32_t last = muster_unit_last(graph, unit);
    bool apart = last != MUSTER_NO_UNIT && graph->turn[graph->unit[last].turn].p2p;
    if (turn->kind == MUSTER_TURN_ALL && apart && muster_turn_is_whole(graph, turn)) {
        held = turn->longest_ns - muster_unit_length_ns(graph, unit);
    } else if (turn->kind == MUSTER_TURN_PARTNERS) {
        held = 0;
        for (uint32_t i = graph->first_partner[u]; i < graph->first_partner[u + 1]; i++) {
            int64_t ns = wait_of(graph, &graph->unit[graph->partner[i]]);
            held = ns > held ? ns : held;
        }
    }
    return held;
}
