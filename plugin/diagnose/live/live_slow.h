/*
 * Late ranks and slow transfers while the job runs: what the rings of this host's processes hold,
 * a bounded window of it, judged by the functions that judge a recorded run. One thread, the live
 * diagnosis' own; what it costs is measured, and looks follow each other so slowly that it takes
 * less than 0.6 % of a processor (bench/live_cost.c).
 */
#ifndef MUSTER_DIAGNOSE_LIVE_LIVE_SLOW_H
#define MUSTER_DIAGNOSE_LIVE_LIVE_SLOW_H

#include "diagnose/finding.h"
#include "diagnose/live/live_peers.h"

struct muster_live_slow;

/* NULL: no memory. */
struct muster_live_slow *muster_live_slow_new(void);
void muster_live_slow_free(struct muster_live_slow *slow);

/* Takes what is new in the rings of the living `peers`, whose order and number only grow. Returns
 * after how many ns to come again, before the quickest ring has gone around if that is possible:
 * 100 ms to 1 s. */
uint64_t muster_live_slow_take(struct muster_live_slow *slow,
                               const struct muster_live_peers *peers);

/* Whether enough came since the last time, and it is not too early for what it costs; `waiting`: or
 * something that was found waits for another look. */
bool muster_live_slow_due(const struct muster_live_slow *slow, uint64_t now_ns, bool waiting);

/* Adds what holds now to zeroed findings. False: no memory. */
bool muster_live_slow_judge(struct muster_live_slow *slow, const struct muster_live_peers *peers,
                            uint64_t now_ns, struct muster_findings *findings);

/* Since when all of what was judged last is in the windows, since 1970; 0: since the beginning. */
uint64_t muster_live_slow_since_unix_ns(const struct muster_live_slow *slow);

/* The same for one who wants to see the view that is judged, too; it is gone afterwards. */
typedef void muster_live_slow_look(void *arg, const struct muster_view *view);
bool muster_live_slow_judge_and_look(struct muster_live_slow *slow,
                                     const struct muster_live_peers *peers, uint64_t now_ns,
                                     struct muster_findings *findings, muster_live_slow_look *look,
                                     void *arg);

#endif
