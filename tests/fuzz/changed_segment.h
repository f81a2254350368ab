/* A segment as a fuzz input changes it: shared by the targets that read segments. */
#ifndef MUSTER_TESTS_FUZZ_CHANGED_SEGMENT_H
#define MUSTER_TESTS_FUZZ_CHANGED_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "segment/layout.h"

/* A good segment with changes, each an offset of 3 bytes, a length of 1 and so many bytes; what
 * does not fit is left out. From aligned_alloc, and the caller's. */
struct muster_segment *muster_fuzz_changed_segment(const uint8_t *changes, size_t bytes);

#endif
