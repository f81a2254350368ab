/* The directory of a run: docs/reference/configuration.md. */
#ifndef MUSTER_SEGMENT_RUN_DIR_H
#define MUSTER_SEGMENT_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Whether this process belongs to a Slurm job, but to none of the steps that srun starts: a batch
 * script or the shell of salloc. Slurm gives it a rank and a number of tasks that are not its own,
 * and whatever it starts inherits them. */
bool muster_is_before_srun(void);

/* The number of the step that srun started this process in, SLURM_STEP_ID; NULL: there is none. */
const char *muster_slurm_step(void);

/* Whether what this process starts will choose the same directory, without knowing a communicator:
 * `configured` is set, or a job id is. Not in front of srun, which adds the step's number. */
bool muster_run_dir_known(const char *configured);

/* Writes the absolute path: `configured` if it is not empty, else ./muster-<job id>, else
 * ./muster-<first 8 hex digits of comm_id>. Makes no directory. err: the path is too long, or
 * there is no working directory. */
int muster_run_dir_choose(char *path, size_t size, const char *configured, uint64_t comm_id,
                          struct muster_err *err);

/* Where a process records that cannot write to `run_dir`: the same name below TMPDIR if that is an
 * absolute path, else below /tmp. err: the path is too long. */
int muster_run_dir_fallback(char *path, size_t size, const char *run_dir, struct muster_err *err);

#endif
