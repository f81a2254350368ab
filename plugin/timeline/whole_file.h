/* A file that is there whole or not at all: written beside its place, then put there. */
#ifndef MUSTER_TIMELINE_WHOLE_FILE_H
#define MUSTER_TIMELINE_WHOLE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"

struct muster_whole_file {
    const char *path;                     /* the caller's, until the end */
    char part[PATH_MAX + sizeof ".part"]; /* longer ones cannot be opened */
    FILE *out;
};

/* Opens `out` for writing. -1: nothing is open. */
int muster_whole_begin(struct muster_whole_file *file, const char *path, struct muster_err *err);
/* With `good` the file takes its place, else it is gone. -1: it could not be written, and is gone;
 * without `good` 0. */
int muster_whole_end(struct muster_whole_file *file, bool good, struct muster_err *err);

/* A regular file's bytes with a zero behind them, at most `most`; the caller frees. NULL: it cannot
 * be read. */
char *muster_whole_read(const char *path, size_t most, size_t *bytes, struct muster_err *err);

#endif
