/* A directory for the time of one command. */
#ifndef MUSTER_LAUNCH_SCRATCH_H
#define MUSTER_LAUNCH_SCRATCH_H

#include <stddef.h>

#include "base/err.h"

/* Makes <below>/muster-XXXXXX, 0700. */
int muster_scratch_make(char *path, size_t size, const char *below, struct muster_err *err);
/* Removes it with everything in it. */
void muster_scratch_remove(const char *path);

#endif
