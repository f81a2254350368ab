/*
 * A segment file as a private copy whose every bound, enumerator and string is good. Files are
 * read with pread, never mapped: whoever truncates one costs an error, not a SIGBUS.
 */
#ifndef MUSTER_SEGMENT_READ_H
#define MUSTER_SEGMENT_READ_H

#include <stddef.h>

#include "base/err.h"
#include "segment/layout.h"

/* Checks and copies an image. `name` stands in errors. The caller frees *segment. What is out of
 * range inside an entry becomes "unknown"; a wrong frame (magic, version, sizes) is an error. */
int muster_segment_parse(const char *name, const void *data, size_t bytes,
                         struct muster_segment **segment, struct muster_err *err);

/* Reads a segment whose process is gone, archived or not. */
int muster_segment_read(const char *path, struct muster_segment **segment, struct muster_err *err);

/* Reads a segment that is being written: entries of a torn state are those of an earlier or later
 * moment, never mixed; what changes without pause is left out (zero) and counted in *unstable. */
int muster_segment_read_live(const char *path, struct muster_segment **segment, unsigned *unstable,
                             struct muster_err *err);

/* Terminates and cleans the strings; fails where the identity cannot be worked with. */
int muster_identity_check(const char *name, struct muster_seg_identity *identity,
                          struct muster_err *err);

/* A regular file's first `max` bytes; the caller frees *data. */
int muster_file_load(const char *path, size_t max, void **data, size_t *bytes,
                     struct muster_err *err);

#endif
