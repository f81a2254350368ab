/*
 * Who is late and what hangs in a whole job, over all its hosts: the functions that evaluate a run
 * (diagnose.h, hang.h), on what the join holds. What is not heard is not evaluated: below nine
 * tenths of the ranks nobody is called late, and of a communicator that is not heard whole nobody
 * is reported to hang it. Beside all that is held the latest of it is looked at: what somebody
 * costs since he is late is little beside minutes in which he was not. One thread.
 */
#ifndef MUSTER_FLEET_EVALUATOR_H
#define MUSTER_FLEET_EVALUATOR_H

#include "diagnose/finding_changes.h"
#include "fleet/join.h"
#include "fleet/rank_costs.h"

struct muster_evaluator;

/* `hang_ns`: how long nothing may move. NULL: no memory. */
struct muster_evaluator *muster_evaluator_new(uint64_t hang_ns);
void muster_evaluator_free(struct muster_evaluator *evaluator);

/* From how many processes on those who show are looked at closely, between looks at all (near.h):
 * 2,048, if not set otherwise. Of smaller jobs the latest ten to twenty seconds are. */
void muster_evaluator_near_from(struct muster_evaluator *evaluator, size_t processes);

/* Looks at the job if it is time to; `emit` is called for each finding that is new, and for hangs
 * that are over. It takes at most half of its thread's time,
 * but while somebody is suspected. False: no memory. */
bool muster_evaluator_look(struct muster_evaluator *evaluator, struct muster_join *join,
                           uint64_t now_ns, muster_watch_emit *emit, void *arg);

/* What holds now: hangs until they are over, others until they were not found three times in a row.
 */
void muster_evaluator_findings(const struct muster_evaluator *evaluator, muster_watch_emit *take,
                               void *arg);

/* What each process cost the others, as of the last evaluation. */
const struct muster_rank_costs *muster_evaluator_costs(const struct muster_evaluator *evaluator);

/* How many evaluations were not made, or findings not emitted, for want of ranks that are heard. */
uint64_t muster_evaluator_silenced(const struct muster_evaluator *evaluator);

#endif
