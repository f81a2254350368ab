/*
 * The run of a host's processes, refreshed: what each second looks at, reads only what is new, and
 * keeps a bounded window of operations (run/refresh.h). One thread, the live diagnosis' own; what
 * it costs is measured (bench/live_cost, bench/scan_cost).
 */
#ifndef MUSTER_DIAGNOSE_LIVE_LIVE_RUN_H
#define MUSTER_DIAGNOSE_LIVE_LIVE_RUN_H

#include "diagnose/finding.h"
#include "diagnose/live/live_peers.h"

struct muster_live_run;

/* NULL: no memory. */
struct muster_live_run *muster_live_run_new(void);
void muster_live_run_free(struct muster_live_run *live);

/* For who looks at several jobs: how many processes they have together, so that windows become no
 * larger than those of one job with as many. */
void muster_live_run_share(struct muster_live_run *live, size_t host);

/* Takes what is new in the rings of the living `peers`, whose order and number only grow. Returns
 * after how many ns to come again, before the quickest ring has gone around if that is possible:
 * 100 ms to 1 s. */
uint64_t muster_live_run_take(struct muster_live_run *live, const struct muster_live_peers *peers);

/* How many operations with GPU times were ever taken; *processes: of how many. */
uint64_t muster_live_run_timed(const struct muster_live_run *live, size_t *processes);

/* The run as far as it is in the windows, with tables as they are now; NULL: no memory. It is the
 * live run's, until its next call. */
const struct muster_run *muster_live_run_latest(struct muster_live_run *live,
                                                const struct muster_live_peers *peers);

/* The run as it stands, living or over: what is in flight, and what is in the rings. Where
 * `living`, of those that live alone. The same otherwise; to be ended. */
const struct muster_run *muster_live_run_standing(struct muster_live_run *live,
                                                  const struct muster_live_peers *peers,
                                                  bool living);
void muster_live_run_end_standing(struct muster_live_run *live);

/* Adds to zeroed findings what hangs in it, or, of a job that is over, who went `first`. False: no
 * memory. */
bool muster_live_run_hangs(struct muster_live_run *live, const struct muster_live_peers *peers,
                           uint64_t hang_ns, bool first, struct muster_findings *findings);

#endif
