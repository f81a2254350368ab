/* Reading a file that is mostly holes. Between segment*.c only. */
#ifndef MUSTER_SEGMENT_SEGMENT_SPARSE_H
#define MUSTER_SEGMENT_SEGMENT_SPARSE_H

#include <sys/types.h>

#include "segment/segment_check.h"

/* Thousands are read, of a megabyte each, and most of it was never written: holes stay holes, and
 * are zero in `to` as well. Marks the parts that were read. Returns how much of `size` was there,
 * or -1 and errno. */
ssize_t muster_read_sparse(int fd, char *to, size_t size, struct muster_seg_parts *parts);

#endif
