/* A segment as bytes: how a fresh one looks, and how one is put into a run directory. */
#ifndef MUSTER_SEGMENT_IMAGE_H
#define MUSTER_SEGMENT_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "segment/layout.h"

/* Fills the header of zero-filled memory. The magic comes last, with release order: whoever reads
 * it (magic first, or a whole copy) sees the rest. */
void muster_segment_init(struct muster_segment *segment,
                         const struct muster_seg_identity *identity);

/* A fresh one in memory of its own; NULL without memory. The caller frees it. */
struct muster_segment *muster_segment_new(const struct muster_seg_identity *identity);

/* Whether the process may make a file this large (ulimit -f): one byte more is a signal that ends
 * it. */
bool muster_file_size_allowed(uint64_t bytes);

/* Writes all bytes at `offset`, through short writes and EINTR. Returns 0 or an errno value. */
int muster_pwrite_all(int fd, const void *data, size_t bytes, uint64_t offset);

/* Writes the image to <dir>/<stem>.seg (0600): under a temporary name first, then renamed over
 * what stood there. Blocks of zeros become holes. The directory must exist. */
int muster_segment_store(const char *dir, const char *stem, const void *image, size_t bytes,
                         struct muster_err *err);

/* Makes `dir` and what is missing above it (0700). Returns 0 or an errno value. */
int muster_make_dir(const char *dir);

/* Fails if something stands at `dir` that is no directory of this user; nothing at all is fine.
 * For places that others can write to. */
int muster_check_owner(const char *dir, struct muster_err *err);

#endif
