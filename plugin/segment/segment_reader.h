/*
 * A segment file as a private copy whose every bound, enumerator and string is good. Files are
 * read with pread, never mapped: whoever truncates one costs an error, not a SIGBUS.
 */
#ifndef MUSTER_SEGMENT_SEGMENT_READER_H
#define MUSTER_SEGMENT_SEGMENT_READER_H

#include <stddef.h>
#include <sys/types.h>

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

/* Only who writes it, or wrote it; of the rest nothing but the sizes is looked at. */
int muster_segment_read_identity(const char *path, struct muster_seg_identity *identity,
                                 struct muster_err *err);

/* Some parts of a living process's segment that somebody wants again and again, for a thousandth of
 * what muster_segment_read_live costs. */

/* For those that follow with a descriptor; -1: there is none. To be closed. */
int muster_segment_open(const char *path);

/* Operations from ordinal *next on that are still whole, into op[MUSTER_SEG_RING]; *next becomes
 * the ordinal behind the last. Returns how many; fewer than *next moved by: the ring was faster. */
size_t muster_segment_read_ring(const char *path, uint64_t *next, struct muster_op *op);
/* The same up to ordinal `to`, which stood in its header a moment ago. */
size_t muster_segment_ring_upto(int fd, uint64_t to, uint64_t *next, struct muster_op *op);

/* Header and tables (muster_seg_table) into a zeroed or formerly read *segment, whose other parts
 * are left as they are. Entries that never stand still keep what they held. What was never used is
 * not read (struct muster_seg_table). */
int muster_segment_read_tables(const char *path, struct muster_segment *segment,
                               struct muster_err *err);

/* The same without the rows, which are most of it and hold no single operations. */
int muster_segment_read_all_but_rows(const char *path, struct muster_segment *segment,
                                     struct muster_err *err);

/* The table of links alone, into net[MUSTER_SEG_NETS]; numbers as they stand, not yet checked.
 * False: it cannot be read. */
bool muster_segment_read_nets(int fd, struct muster_seg_net *net);

/* Slots in use and the policy, likewise. What retires meanwhile is left out. */
int muster_segment_read_flight(const char *path, struct muster_segment *segment,
                               struct muster_err *err);

/* Terminates and cleans the strings; fails where the identity cannot be worked with. */
int muster_identity_check(const char *name, struct muster_seg_identity *identity,
                          struct muster_err *err);

/* A regular file's descriptor, and its size now. -1: with err. */
int muster_file_open(const char *path, size_t *bytes, struct muster_err *err);
/* Up to `bytes` from `at` on; fewer if the file ends before. -1: errno is set. */
ssize_t muster_file_read(int fd, void *to, size_t bytes, off_t at);
/* A regular file's first `max` bytes; the caller frees *data. */
int muster_file_load(const char *path, size_t max, void **data, size_t *bytes,
                     struct muster_err *err);

#endif
