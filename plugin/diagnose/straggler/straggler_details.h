/* A late rank, and what its operations tell of it: when, where in the step, and whether its host or
 * its GPU was late. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_DETAILS_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_DETAILS_H

#include "diagnose/finding.h"
#include "diagnose/straggler/straggler_suspects.h"
#include "view/coverage.h"

/* ---- when: from when to when, and whether by a beat of the job's steps ---- */

struct muster_when_span {
    uint64_t since_unix_ns, until_unix_ns; /* both 0: never */
};

struct muster_when {
    struct muster_when_span span; /* but for a fiftieth of its lateness on either side */
    struct muster_when_span most; /* but for a tenth */
    /* Late at each so-manieth step where it is late most, and how long that is; 0: at no beat. */
    uint32_t every_steps;
    double every_s;
    double step_s; /* how long a step takes; 0: not known */
};

void muster_when_of(const struct muster_graph *graph, const struct muster_suspects *suspects,
                    size_t s, struct muster_when *when);

/* Whether n suspects are late one after the other: one culprit that moves. */
bool muster_when_moves(const struct muster_when *when, size_t n);

/* ---- where in the step, in a user's words ---- */

/* "before the first of 3 AllReduce of each step". A step begins where no gradients have been
 * reduced for longest afterwards; where all its operations are alike, after its longest pause. */
void muster_where_of(const struct muster_graph *graph, uint32_t seat, char *to, size_t size);

/* ---- host or GPU ----
 *
 * Of the time that a late rank needed by itself, how much had passed when its host
 * called. What the GPU did after a call that stood in its queue in time is the GPU's own. A host
 * that called late is the cause only where the GPU then began at once, unlike elsewhere or unlike
 * the others: hosts are also held up by their own GPU, once they are as far ahead as they may be.
 */

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
