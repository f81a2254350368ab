/* Who looks at the ranks of one host while a generated job runs, once a second: the leader among
 * them, or their host's agent. */
#ifndef MUSTER_BENCH_VERDICTS_LIVE_LEADER_H
#define MUSTER_BENCH_VERDICTS_LIVE_LEADER_H

#include "diagnose/finding_changes.h"
#include "diagnose/live/live_slow.h"
#include "live_job.h"

struct live_leader {
    struct muster_live_peers peers;
    struct muster_live_run *refreshed;
    struct muster_live_slow slow;
    struct muster_watch watch;
};

/* Of processes whose segments are open. */
void live_leader_open(struct live_leader *leader, struct live_process *const *process, size_t n);
void live_leader_close(struct live_leader *leader);
/* Takes what is new in the rings. */
void live_leader_take(struct live_leader *leader);
/* now_ns: by the job's clock. As an agent: what is not found any more is over. */
void live_leader_look(struct live_leader *leader, double now_ns, bool agent,
                      muster_watch_emit *emit, void *arg);
/* Late ranks that hold, for muster_findings_free. */
struct muster_findings live_leader_holds(struct live_leader *leader);

#endif
