#include "diagnose/straggler/straggler_cause.h"

#include <string.h>

#define HOSTS 0.7 /* of the delay, that the host called late by: it is the host's */
/* Less of it is the host's: the GPU's. A slow GPU whose host waits for it once a step has up to
 * half of it in that wait */
#define GPUS    0.55
#define AT_ONCE 0.5 /* of the delay: stood in the queue for less */
/* Than this share of the queue elsewhere, or of others': there hosts are ahead */
#define SHORTER 0.5
#define BEHIND  0.5 /* of the delays: its calls came after the others' on its host */

static bool is_known(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return muster_unit_queued(graph, unit) != MUSTER_QUEUED_UNKNOWN &&
           graph->view->gpu[muster_unit_gpu(graph, unit)].host_times;
}

static int64_t since_call_ns(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return muster_unit_knows(graph, unit, MUSTER_EDGE_CALL)
               ? muster_unit_own(graph, unit, MUSTER_EDGE_CALL)
               : MUSTER_NO_OWN;
}

/* Against the others of its turn: how long their calls stood in the queue, whether most of them
 * took less from call to call, and, on its host, whether most of them came earlier: by half the
 * delay. */
static void compare(struct muster_cause_tally *tally, const struct muster_graph *graph,
                    const uint8_t *group, const struct muster_unit *unit)
{
    const struct muster_view *view = graph->view;
    const struct muster_turn *turn = &graph->turn[unit->turn];
    uint32_t near = 0, earlier = 0, paced = 0, quicker = 0;
    int64_t since_ns = since_call_ns(graph, unit), excess_ns = muster_unit_excess_ns(graph, unit);
    uint32_t gpu = muster_unit_gpu(graph, unit);
    for (uint32_t i = 0; i < turn->units; i++) {
        const struct muster_unit *other = &graph->unit[graph->of_turn[turn->first + i]];
        uint32_t its_gpu = muster_unit_gpu(graph, other);
        muster_unit_ask_next(graph, other);
        if (group[its_gpu] == group[gpu] || !is_known(graph, other))
            continue;
        tally->peers++;
        tally->peers_queued_ns += (double)(muster_unit_queued(graph, other) * MUSTER_QUEUED_NS);
        int64_t its_ns = since_call_ns(graph, other);
        if (since_ns != MUSTER_NO_OWN && its_ns != MUSTER_NO_OWN) {
            paced++;
            quicker += 2 * (since_ns - its_ns) >= excess_ns;
        }
        if (strcmp(view->gpu[its_gpu].host, view->gpu[gpu].host) == 0) {
            int64_t behind_ns =
                (int64_t)(muster_unit_call_ns(graph, unit) - muster_unit_call_ns(graph, other));
            near++;
            earlier += 2 * behind_ns >= excess_ns;
        }
    }
    tally->slower += paced > 0 && 2 * quicker >= paced;
    tally->compared += near > 0;
    tally->behind += near > 0 && 2 * earlier >= near;
}

void muster_cause_add(struct muster_cause_tally *tally, const struct muster_graph *graph,
                      const uint8_t *group, const struct muster_unit *unit, bool late)
{
    double queued = (double)(muster_unit_queued(graph, unit) * MUSTER_QUEUED_NS);
    double excess = (double)muster_unit_excess_ns(graph, unit);
    int64_t host_ns = muster_unit_host_ns(graph, unit);
    if (!is_known(graph, unit))
        return;
    if (!late) {
        tally->elsewhere++;
        tally->elsewhere_queued_ns += queued;
    } else if (host_ns != MUSTER_NO_OWN) {
        double host = host_ns > 0 ? (double)host_ns : 0;
        tally->known++;
        tally->called_late += 2 * host >= excess;
        tally->late_ns += excess;
        tally->host_ns += host < excess ? host : excess;
        tally->queued_ns += queued < excess ? queued : excess;
        tally->stage |= unit->stage;
        compare(tally, graph, group, unit);
    }
}

/* Whether its GPU waited for the calls, as far as can be known: the soonest begin of all may have
 * stood in the queue, too. */
static bool at_once(const struct muster_cause_tally *tally)
{
    double own = tally->queued_ns / tally->known;
    double elsewhere = tally->elsewhere ? tally->elsewhere_queued_ns / tally->elsewhere : 0;
    double peers = tally->peers ? tally->peers_queued_ns / tally->peers : 0;
    bool slower = tally->slower >= BEHIND * tally->known;
    return tally->queued_ns < AT_ONCE * tally->late_ns &&
           (own < SHORTER * elsewhere || (slower && own < SHORTER * peers));
}

enum muster_finding_cause muster_cause_of(const struct muster_cause_tally *tally)
{
    if (!tally->known)
        return MUSTER_CAUSE_UNKNOWN;
    if (tally->host_ns < GPUS * tally->late_ns)
        return MUSTER_CAUSE_GPU;
    bool behind = tally->behind >= BEHIND * tally->compared;
    return at_once(tally) && behind && !tally->stage && tally->host_ns >= HOSTS * tally->late_ns
               ? MUSTER_CAUSE_HOST
               : MUSTER_CAUSE_UNKNOWN;
}
