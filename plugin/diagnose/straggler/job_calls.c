/* How long a host takes from call to call by itself: where it cannot have waited for its GPU. */
#include <math.h>

#include "diagnose/straggler/job_graph.h"
#include "diagnose/straggler/pace.h"

#define APART  1.5 /* times as long: not the other's pace */
#define EVENLY 0.8 /* of the changes by another measure: less speaks for this one */

enum {
    DEEP = 16,        /* units that may be in the queue at once; with more nothing is learned */
    CALLS_LEAST = 20, /* of a seat: fewer tell nothing */
};

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
static bool runs(const struct calls *calls)
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
        seat->runs = calls && runs(&calls[s]);
    }
}
