/* A directory for the time of one bench. */
#ifndef MUSTER_BENCH_SCRATCH_H
#define MUSTER_BENCH_SCRATCH_H

#include <stddef.h>

#include "base/err.h"

/* Makes <below>/muster-bench-XXXXXX, 0700. */
int bench_scratch_make(char *path, size_t size, const char *below, struct muster_err *err);
/* Removes it with everything in it. */
void bench_scratch_remove(const char *path);

#endif
