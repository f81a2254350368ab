/* `muster diagnose --follow`: a look each second at every job, and what is new or over in each. */
#ifndef MUSTER_CLI_DIAGNOSE_DIAGNOSE_FOLLOW_H
#define MUSTER_CLI_DIAGNOSE_DIAGNOSE_FOLLOW_H

#include <stdbool.h>

#include "cli/diagnose/diagnose_look.h"

/* Called for what is new or over. `job`: its run directory, once there are several jobs; else NULL.
 */
typedef void muster_follow_emit(void *arg, const char *job, const struct muster_finding *finding);

/* Until nothing lives any more. Directories, processes and jobs may come later. Returns whether
 * anything is unresolved. */
bool muster_follow(const struct muster_look_how *how, muster_follow_emit *emit, void *arg);

#endif
