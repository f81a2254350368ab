/* The jobs that live on this host, distinguished by the run directory that their processes name. */
#ifndef MUSTER_RUN_LIVE_JOBS_H
#define MUSTER_RUN_LIVE_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "segment/layout.h"

struct muster_run;
struct muster_run_query;

struct muster_live_job {
    struct muster_seg_identity who; /* one of its processes that live */
    uint32_t uid;                   /* whose it is, by the kernel */
};

/* Whether two processes are of one job: same user, boot and run directory. */
bool muster_same_job(const struct muster_seg_identity *a, uint32_t a_uid,
                     const struct muster_seg_identity *b, uint32_t b_uid);

/* Those with a living process where the query looks: of this user, or as root of all. In the order
 * in which they began; the caller frees *job. Where memory runs out some are missing. */
size_t muster_live_jobs(const struct muster_run_query *query, struct muster_live_job **job);

/* Makes `query` one for all of the job: what lives, and its run directory, for a rank that died
 * stands there and not among the living. *dir is filled; it and the job outlive the query. */
void muster_live_query(const struct muster_live_job *job, const char **dir,
                       struct muster_run_query *query);

/* How many processes of a run live. */
size_t muster_run_alive(const struct muster_run *run);

/* Reports that nothing lives, and what the run, which was read with `live`, is instead: left by
 * jobs that were killed, or could not write their run directory. `command` reads it: "muster
 * report". Always -1. */
int muster_live_none(const struct muster_run *run, const char *command, struct muster_err *err);

#endif
