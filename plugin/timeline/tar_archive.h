/* Our trace and others beside it in one tar archive, with the manifest by which Perfetto (58 on)
 * lays them on one axis. */
#ifndef MUSTER_TIMELINE_TAR_ARCHIVE_H
#define MUSTER_TIMELINE_TAR_ARCHIVE_H

#include <stdio.h>

#include "timeline/timeline_internal.h"

/* `trace`: our own. Reads each file, finds its place, writes all; what cannot be written shows in
 * `out`. -1: a file cannot be read, or is no such trace. */
int muster_archive_write(const struct muster_timeline *timeline, const char *trace, size_t bytes,
                         struct muster_timeline_beside *beside, size_t n, FILE *out,
                         struct muster_err *err);

#endif
