/*
 * The policy that a job is started with: `--policy FILE`, which travels in the environment, else
 * what MUSTER_POLICY_INLINE or the configuration holds. Only with a policy is the tuner loaded.
 */
#ifndef MUSTER_LAUNCH_JOB_POLICY_H
#define MUSTER_LAUNCH_JOB_POLICY_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "launch/job_environment.h"
#include "launch/locate.h"
#include "run/run.h"

/* One file is profiler and tuner. NCCL takes a file name as it is, so none of its own is needed;
 * the link libnccl-tuner-muster.so serves those who write NCCL_TUNER_PLUGIN=muster. */
#define MUSTER_TUNER_LIBRARY MUSTER_PROFILER_LIBRARY

/* Adds NCCL_TUNER_PLUGIN and, for FILE, MUSTER_POLICY_INLINE; prints on stderr what is wrong with a
 * policy. `config`: NULL, or what the configuration is going to be. -1: FILE cannot be read, has
 * errors, does not fit the environment, or is not what MUSTER_POLICY_SHA256 names. Errors in a
 * policy that is there anyway are printed, and then the job runs without the tuner. */
int muster_steer_add(struct muster_environment *environment, const char *file, const char *config,
                     struct muster_err *err);

/* Likewise for a text in memory that is known to be right; it must outlive the environment. */
int muster_steer_add_text(struct muster_environment *environment, const char *text,
                          struct muster_err *err);

/* Processes of the run that had a policy and whose NCCL loaded no tuner. */
unsigned muster_steer_missed(const struct muster_run *run);

#endif
