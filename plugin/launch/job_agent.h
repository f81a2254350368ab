/*
 * `muster agent` for as long as a job: started before it, as this very program, and ended after it.
 * Whatever becomes of the agent is nothing to the job.
 */
#ifndef MUSTER_LAUNCH_JOB_AGENT_H
#define MUSTER_LAUNCH_JOB_AGENT_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* What it is given; NULL: the agent's own default. */
struct muster_job_agent_options {
    const char *listen, *nats, *nats_credentials, *nats_ca;
    bool quiet;
};

/* Keys of the terminal do not reach it; it ends with this process. 0 and *pid once it runs. */
int muster_job_agent_start(const struct muster_job_agent_options *options, pid_t *pid,
                           struct muster_err *err);
/* It publishes what the job did last, for three seconds at most, and is gone afterwards. */
void muster_job_agent_end(pid_t pid);

#endif
