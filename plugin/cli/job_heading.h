/* The line above what is printed of one of several jobs, of `muster diagnose` and `muster report`.
 */
#ifndef MUSTER_CLI_JOB_HEADING_H
#define MUSTER_CLI_JOB_HEADING_H

#include <stdio.h>

#include "base/terminal.h"
#include "run/run.h"

/* `at` counts from 0; from the second on an empty line stands before it. name: the job's run
 * directory, "": it has none. */
void muster_job_heading(const struct muster_run *run, const char *name, size_t at, size_t n,
                        const struct muster_terminal *terminal, FILE *out);

#endif
