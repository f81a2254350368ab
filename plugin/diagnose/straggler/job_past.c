/* Stages of a pipeline that no other rank is like, against what they need at other times. */
#include "base/sort.h"
#include "diagnose/straggler/job_graph.h"

#define TIMES 1.5 /* half as much again passes for what differs from step to step */
enum {
    QUARTER = 4,     /* so quick it is in one of four */
    UNITS_LEAST = 40 /* of a seat: fewer have no past */
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

static void find_usual(const struct muster_graph *graph, struct past *past)
{
    for (size_t s = 0; s < graph->seats; s++) {
        size_t n = past->first[s + 1] - past->first[s];
        int64_t *own = past->own + past->first[s];
        past->usual[s] = MUSTER_NO_OWN;
        if (n >= UNITS_LEAST) {
            muster_sort_i64(own, n);
            past->usual[s] = own[(n - 1) / QUARTER];
        }
    }
}

/* How much longer than at other times, no longer than anybody waited for it; 0 and less: not. */
static int64_t more_of(const struct muster_graph *graph, const struct past *past, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    int64_t usual = past->usual[unit->seat], own = muster_unit_own_ns(graph, unit);
    int64_t most = (int64_t)(TIMES * (double)usual);
    if (usual == MUSTER_NO_OWN || own <= most)
        return usual == MUSTER_NO_OWN ? INT64_MIN : own - most;
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
    if (memory->failed)
        return;
    gather(graph, &past);
    find_usual(graph, &past);
    weigh(graph, &past);
    for (uint32_t u = 0; u < graph->units; u++) {
        struct muster_unit *unit = &graph->unit[u];
        if (has_past(graph, unit) && graph->seat[unit->seat].past)
            muster_unit_set_excess(graph, unit, more_of(graph, &past, u),
                                   muster_unit_host(graph, unit));
    }
}
