/*
 * Who is late and what hangs in one job, as far as this host shows it: the functions that evaluate
 * inside a job (diagnose/live), fed from outside. It reads the job's segments and nothing else of
 * it, keeps a bounded window of operations, and takes as little of a processor as they do. One
 * thread.
 */
#ifndef MUSTER_AGENT_AGENT_JOB_H
#define MUSTER_AGENT_AGENT_JOB_H

#include "diagnose/finding_changes.h"
#include "diagnose/live/live_peers.h"
#include "view/joint_cost.h"

struct muster_agent_job;

/* `who`: one of its processes, whose run and host are those of the others. NULL: no memory. */
struct muster_agent_job *muster_agent_job_new(const struct muster_seg_identity *who, uint32_t uid,
                                              uint64_t hang_ns);
void muster_agent_job_free(struct muster_agent_job *job);
bool muster_agent_job_is(const struct muster_agent_job *job, const struct muster_seg_identity *who,
                         uint32_t uid);

/* Whether the last look found the segment at `path` to be one of the job's: it is read again by the
 * next one, and who asks whose it is need not. */
bool muster_agent_job_has(const struct muster_agent_job *job, const char *path, uint32_t uid);

/* From now on looks hand on what they read of each process. NULL: no more. */
void muster_agent_job_on_read(struct muster_agent_job *job, muster_live_saw *saw, void *arg);

/* How many processes the host has in all its jobs: what is kept of each follows it. */
void muster_agent_job_share(struct muster_agent_job *job, size_t host);

/* Takes what is new in the rings, if it is time to; returns when it is again. Monotonic. */
uint64_t muster_agent_job_take(struct muster_agent_job *job, uint64_t now_ns);

/* One look at all jobs of a host. */
struct muster_agent_look {
    uint64_t now_ns;
    bool at_once;      /* evaluates whatever there is, as there will be no other look */
    uint64_t *paid_ns; /* until when all jobs together have had their share of a processor for
                          comparing; kept from look to look, 0 at first. NULL: each has its own */
};

/* Looks at the job's segments, and evaluates what is due; `emit` is called for each finding that is
 * new. Returns how many of its processes live. */
size_t muster_agent_job_look(struct muster_agent_job *job, const struct muster_found *found,
                             size_t n, const struct muster_agent_look *look,
                             muster_watch_emit *emit, void *arg);
/* Whether it would have compared now, had the others left it something. */
bool muster_agent_job_waits(const struct muster_agent_job *job);

/* Its run directory, whose last part names it, and its user. */
const char *muster_agent_job_dir(const struct muster_agent_job *job);
uint32_t muster_agent_job_uid(const struct muster_agent_job *job);

/* Calls `take` with each finding that holds: hangs until they are over, late ranks and slow
 * transfers until they were not found three times in a row, others to the job's end. */
void muster_agent_job_findings(const struct muster_agent_job *job, muster_watch_emit *take,
                               void *arg);

/* Its processes, in an order that only grows, and what they lost beside others of this host. */
size_t muster_agent_job_peers(const struct muster_agent_job *job);
const struct muster_live_peer *muster_agent_job_peer(const struct muster_agent_job *job, size_t i,
                                                     struct muster_rank_cost *compared);

#endif
