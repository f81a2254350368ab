/* Where ranks compute while their communicator works, and the others were ready before it was free.
 * Who fell behind once comes late to what follows as well: that is no lateness of its own. And
 * nothing is seen there of what the others needed: what a culprit took longer is held against what
 * they needed in the turns where it was. */
#include "base/sort.h"
#include "diagnose/straggler/e_process.h"
#include "diagnose/straggler/job_graph.h"

enum {
    READY = 8,      /* who began in so many parts less after its communicator's last was ready */
    SEEN_LEAST = 5, /* own times of others: fewer tell nothing of a position */
};

/* ---- how far behind ---- */

/* How long after its communicator's last was over the unit began. */
static int64_t gap_of(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return muster_unit_knows(graph, unit, MUSTER_EDGE_OWN)
               ? muster_unit_own(graph, unit, MUSTER_EDGE_OWN)
               : MUSTER_NO_OWN;
}

/* Lower medians over a turn, of what is known. */
static int64_t middle(int64_t *value, size_t n)
{
    muster_sort_i64(value, n);
    return n ? value[(n - 1) / 2] : MUSTER_NO_OWN;
}

/* The others of its turn were ready before their communicator was free, the unit was not. */
static bool is_behind(int64_t gap_ns, int64_t usual_ns)
{
    return gap_ns != MUSTER_NO_OWN && usual_ns != MUSTER_NO_OWN &&
           (usual_ns < MUSTER_GAP_NS || gap_ns / READY > usual_ns);
}

/* What is usual in a turn; lower medians. */
struct usual {
    int64_t gap_ns, length_ns;
};

static struct usual usual_of(const struct muster_graph *graph, const struct muster_turn *turn,
                             int64_t *scratch)
{
    struct usual usual;
    size_t n = 0;
    for (uint32_t i = 0; i < turn->units; i++) {
        int64_t gap_ns = gap_of(graph, &graph->unit[graph->of_turn[turn->first + i]]);
        if (gap_ns != MUSTER_NO_OWN)
            scratch[n++] = gap_ns;
    }
    usual.gap_ns = middle(scratch, n);
    for (uint32_t i = 0; i < turn->units; i++)
        scratch[i] = muster_unit_length_ns(graph, &graph->unit[graph->of_turn[turn->first + i]]);
    usual.length_ns = middle(scratch, turn->units);
    return usual;
}

/* How far behind each unit's GPU was known to be with it, and how much later it came than that
 * explains; shortened, but that what is not known is 0: pages that nobody wrote take no memory. */
struct leads {
    struct muster_graph *graph;
    int32_t *lead;
};

static int32_t put_lead(struct muster_graph *graph, int64_t ns)
{
    return muster_shorten_ns(&graph->long_ns, ns) ^ MUSTER_NO_SHORT;
}

/* Who comes late to what the others were ready for is as far behind as it was, or more. */
static void follow(struct leads *leads, uint32_t u, const struct usual *usual)
{
    struct muster_graph *graph = leads->graph;
    const struct muster_unit *unit = &graph->unit[u];
    int64_t gap_ns = gap_of(graph, unit);
    int64_t lead_ns = usual->length_ns - muster_unit_length_ns(graph, unit);
    if (gap_ns == MUSTER_NO_OWN)
        return;
    if (is_behind(gap_ns, usual->gap_ns)) {
        int64_t before_ns =
            muster_ns_of_short(&graph->long_ns, leads->lead[unit->own] ^ MUSTER_NO_SHORT);
        if (before_ns == MUSTER_NO_OWN)
            return;
        graph->behind[u] = put_lead(graph, gap_ns - usual->gap_ns - before_ns);
        lead_ns = before_ns > lead_ns ? before_ns : lead_ns;
    }
    leads->lead[u] = put_lead(graph, lead_ns);
}

static void lead_turn(struct leads *leads, const struct muster_turn *turn, int64_t *scratch)
{
    const struct muster_graph *graph = leads->graph;
    struct usual usual = usual_of(graph, turn, scratch);
    for (uint32_t i = 0; i < turn->units; i++)
        follow(leads, graph->of_turn[turn->first + i], &usual);
}

/* Communicators of which it was learned that their ranks compute while they work. NULL: none. */
static const bool *overlapped(const struct muster_graph *graph, struct muster_arena *memory)
{
    bool *is = muster_arena_array(memory, graph->view->comms + 1, sizeof *is), any = false;
    for (size_t t = 0; t < graph->turns && is; t++) {
        const struct muster_turn *turn = &graph->turn[t];
        const struct muster_unit *unit = &graph->unit[graph->of_turn[turn->first]];
        bool begins = muster_edge_begins(graph->position[graph->seat[unit->seat].position].edge);
        is[turn->comm] |= begins;
        any |= begins;
    }
    return any ? is : NULL;
}

/* Of units that are overlapped the position's edge is a begin's. */
static bool any_overlapped(const struct muster_graph *graph)
{
    bool any = false;
    for (size_t p = 0; p < graph->positions && !any; p++)
        any = muster_edge_begins(graph->position[p].edge);
    return any;
}

void muster_graph_leads(struct muster_graph *graph)
{
    if (!any_overlapped(graph))
        return;
    struct muster_arena scratch = {0};
    const bool *overlaps = overlapped(graph, &scratch);
    struct leads leads = {.graph = graph};
    size_t most = 0;
    for (size_t t = 0; t < graph->turns; t++)
        most = graph->turn[t].units > most ? graph->turn[t].units : most;
    int64_t *own = muster_arena_array(&scratch, most + 1, sizeof *own);
    if (overlaps) {
        leads.lead = muster_arena_array(&scratch, graph->units + 1, sizeof *leads.lead);
        graph->behind = muster_arena_array(graph->making, graph->units + 1, sizeof *graph->behind);
    }
    for (size_t t = 0; t < graph->ordered && leads.lead && graph->behind && own; t++) {
        const struct muster_turn *turn = &graph->turn[graph->order[t]];
        if (turn->kind == MUSTER_TURN_ALL && turn->units > 1 && overlaps[turn->comm])
            lead_turn(&leads, turn, own);
    }
    muster_arena_end(&scratch, graph->making);
}

/* ---- what a culprit took longer ---- */

/* Of a position: own times of GPUs that are no culprits. */
struct seen {
    double sum;
    uint32_t n, gpu; /* gpu: of the last */
    bool several;    /* GPUs */
};

/* Of a seat: what its GPU took longer than the others, on the mean. */
struct slower {
    double sum;
    uint32_t n;
};

static void mark_culprits(const struct muster_graph *graph, bool *culprit)
{
    for (size_t s = 0; s < graph->seats; s++)
        culprit[graph->seat[s].gpu] |= graph->seat[s].culprit;
}

static bool is_overlapped(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return muster_edge_begins(unit->edge) && muster_unit_own_ns(graph, unit) != MUSTER_NO_OWN;
}

/* Of one other GPU alone nobody knows whether it is usual. */
static bool is_known(const struct seen *seen)
{
    return seen->several && seen->n >= SEEN_LEAST;
}

static void note_seen(struct muster_graph *graph, const bool *culprit, struct seen *seen)
{
    for (size_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        const struct muster_seat *seat = &graph->seat[unit->seat];
        if (is_overlapped(graph, unit) && !culprit[seat->gpu]) {
            struct seen *own = &seen[seat->position];
            own->sum += (double)muster_unit_own_ns(graph, unit);
            own->several |= own->n++ > 0 && own->gpu != seat->gpu;
            own->gpu = seat->gpu;
        }
    }
    for (size_t p = 0; p < graph->positions; p++)
        if (is_known(&seen[p]))
            graph->position[p].ready_ns = (int64_t)(seen[p].sum / seen[p].n);
}

/* Beyond what the others needed; MUSTER_NO_OWN: not known, or evaluated beside them. */
static int64_t beyond(const struct muster_graph *graph, const bool *culprit,
                      const struct seen *seen, const struct muster_unit *unit)
{
    const struct muster_seat *seat = &graph->seat[unit->seat];
    if (unit->evaluated || !culprit[seat->gpu] || !is_overlapped(graph, unit) ||
        !is_known(&seen[seat->position])) {
        return MUSTER_NO_OWN;
    }
    return muster_unit_own_ns(graph, unit) - graph->position[seat->position].ready_ns;
}

void muster_graph_hidden(struct muster_graph *graph)
{
    struct muster_arena scratch = {0};
    if (!any_overlapped(graph))
        return;
    bool *culprit = muster_arena_array(&scratch, graph->view->gpus + 1, sizeof *culprit);
    struct seen *seen = muster_arena_array(&scratch, graph->positions + 1, sizeof *seen);
    struct slower *slower = muster_arena_array(&scratch, graph->seats + 1, sizeof *slower);
    if (!scratch.failed) {
        mark_culprits(graph, culprit);
        note_seen(graph, culprit, seen);
        for (size_t u = 0; u < graph->units; u++) {
            int64_t ns = beyond(graph, culprit, seen, &graph->unit[u]);
            slower[graph->unit[u].seat].sum += ns != MUSTER_NO_OWN ? (double)ns : 0;
            slower[graph->unit[u].seat].n += ns != MUSTER_NO_OWN;
        }
        for (size_t u = 0; u < graph->units; u++) {
            struct muster_unit *unit = &graph->unit[u];
            struct muster_seat *seat = &graph->seat[unit->seat];
            int64_t ns = beyond(graph, culprit, seen, unit);
            int64_t usual_ns = graph->position[seat->position].ready_ns;
            const struct slower *own = &slower[unit->seat];
            if (ns != MUSTER_NO_OWN && ns > 0 &&
                own->sum > (double)muster_seat_limit_ns(usual_ns) * own->n) {
                muster_unit_set_excess(graph, unit, ns, MUSTER_NO_OWN);
                seat->hidden = true;
            }
        }
    }
    muster_arena_end(&scratch, graph->memory);
}
