/*
 * A text that is kept in the run directory once, whoever of the job's processes comes first: its
 * name holds its hash, so that they agree.
 */
#ifndef MUSTER_SEGMENT_ARTIFACT_H
#define MUSTER_SEGMENT_ARTIFACT_H

#include <stddef.h>

#include "base/err.h"

struct muster_artifact {
    char name[64]; /* of the file */
    size_t bytes;
    char text[];
};

/* A copy, the caller's to free; NULL without memory. */
struct muster_artifact *muster_artifact_new(const char *name, const char *text, size_t bytes);

/* Writes it as dir/name (0600) unless that is there; others never see half of it. Until then it is
 * dir/.name.part, which whoever comes next finishes or removes if this process is killed. */
int muster_artifact_write(const struct muster_artifact *artifact, const char *dir,
                          struct muster_err *err);

#endif
