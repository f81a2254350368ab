/*
 * Host or GPU: of the time that a late rank needed by itself, how much had passed when its host
 * called. What the GPU did after a call that stood in its queue in time is the GPU's own. A host
 * that called late is the cause only where the GPU then began at once, unlike elsewhere or unlike
 * the others: hosts are also held up by their own GPU, once they are as far ahead as they may be.
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_CAUSE_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_CAUSE_H

#include "diagnose/finding.h"
#include "diagnose/straggler/job_graph.h"

/* Sums over the units of one suspect; zeroed to begin with. */
struct muster_cause_tally {
    uint32_t known;                     /* late units of which it is known when they were called */
    uint32_t called_late;               /* of these: by half the delay or more */
    double late_ns, host_ns, queued_ns; /* of these: delay, the host's part, stood in the queue */
    uint32_t elsewhere;                 /* its units that were not late */
    double elsewhere_queued_ns;
    uint32_t peers; /* units of others in the turns where it was late */
    double peers_queued_ns;
    uint32_t slower; /* late units whose call took longer since the call before than most others',
                        by half the delay */
    /* Late units with others of the same host that are no suspects: of these, after their median.
     */
    uint32_t compared, behind;
    bool stage; /* compared with ranks whose hosts do something else: nothing is usual */
};

/* group: of each GPU the suspect it belongs to. */
void muster_cause_add(struct muster_cause_tally *tally, const struct muster_graph *graph,
                      const uint8_t *group, const struct muster_unit *unit, bool late);
enum muster_finding_cause muster_cause_of(const struct muster_cause_tally *tally);

#endif
