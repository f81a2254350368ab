#include "diagnose/straggler/straggler_cause.h"

#define HOSTS    0.7  /* of the delay, that the host called late by: it is the host's */
#define GPUS     0.55 /* less of it is the host's: the GPU's. A slow GPU whose host waits for it once a
                         step has up to half of it in that wait */
#define AT_ONCE  0.5  /* of the delay: stood in the queue for less */
#define SHORTER  0.5  /* than this share of the queue elsewhere: there the host was ahead */

void muster_cause_add(struct muster_cause_tally *tally, const struct muster_graph *graph,
                      const struct muster_unit *unit, bool late)
{
    if (unit->queued == MUSTER_QUEUED_UNKNOWN || !graph->view->gpu[unit->gpu].host_times) {
        return;
    }
    double queued = (double)(unit->queued * MUSTER_QUEUED_NS), excess = (double)unit->excess_ns;
    if (!late) {
        tally->others++;
        tally->others_queued_ns += queued;
    } else if (unit->host_ns != MUSTER_NO_OWN) {
        double host = unit->host_ns > 0 ? (double)unit->host_ns : 0;
        tally->known++;
        tally->called_late += 2 * host >= excess;
        tally->late_ns += excess;
        tally->host_ns += host < excess ? host : excess;
        tally->queued_ns += queued < excess ? queued : excess;
        tally->stage |= unit->stage;
    }
}

enum muster_finding_cause muster_cause_of(const struct muster_cause_tally *tally)
{
    double elsewhere = tally->others ? tally->others_queued_ns / tally->others : 0;
    if (!tally->known) {
        return MUSTER_CAUSE_UNKNOWN;
    }
    if (tally->host_ns < GPUS * tally->late_ns) {
        return MUSTER_CAUSE_GPU;
    }
    bool at_once = tally->queued_ns < AT_ONCE * tally->late_ns &&
                   tally->queued_ns / tally->known < SHORTER * elsewhere;
    return at_once && !tally->stage && tally->host_ns >= HOSTS * tally->late_ns
               ? MUSTER_CAUSE_HOST
               : MUSTER_CAUSE_UNKNOWN;
}
