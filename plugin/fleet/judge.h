/*
 * Who is late and what hangs in a whole job, over all its hosts: the functions that judge a run
 * (diagnose.h, hang.h), on what the join holds. What is not heard is not judged: below nine tenths
 * of the ranks nobody is called late, and of a communicator that is not heard whole nobody is said
 * to hang it. One thread.
 */
#ifndef MUSTER_FLEET_JUDGE_H
#define MUSTER_FLEET_JUDGE_H

#include "diagnose/watch.h"
#include "fleet/rank_costs.h"
#include "fleet/join.h"

struct muster_judge;

/* `hang_ns`: how long nothing may move. NULL: no memory. */
struct muster_judge *muster_judge_new(uint64_t hang_ns);
void muster_judge_free(struct muster_judge *judge);

/* Looks at the job if it is time to; `tell` is called for each finding that is new, and for hangs
 * that are over. It takes at most half of its thread's time. False: no memory. */
bool muster_judge_look(struct muster_judge *judge, struct muster_join *join, uint64_t now_ns,
                       muster_watch_emit *tell, void *arg);

/* What holds now: hangs until they are over, others until they were not found three times in a row. */
void muster_judge_findings(const struct muster_judge *judge, muster_watch_emit *take, void *arg);

/* What each process cost the others, as of the last judgement. */
const struct muster_rank_costs *muster_judge_costs(const struct muster_judge *judge);

/* How many judgements were not made, or findings not told, for want of ranks that are heard. */
uint64_t muster_judge_silenced(const struct muster_judge *judge);

#endif
