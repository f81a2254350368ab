/* A segment as a fuzz input changes it: shared by the targets that read segments. */
#ifndef MUSTER_TESTS_FUZZ_CHANGED_SEGMENT_H
#define MUSTER_TESTS_FUZZ_CHANGED_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "segment/layout.h"

/* A good segment with an input's changes: in memory and, if `fd` is not -1, in that file, which
 * nobody else writes. From one input to the next only what differs is written: a megabyte each time
 * was most of what an input cost. */
struct muster_fuzz_segment {
    int fd;
    uint8_t *now;  /* sizeof(struct muster_segment) */
    uint8_t *last; /* the input before */
    size_t last_bytes;
};

/* Each change is an offset of 3 bytes, a length of 1 and so many bytes; what does not fit is left
 * out. */
void muster_fuzz_change_segment(struct muster_fuzz_segment *segment, const uint8_t *changes,
                                size_t bytes);

#endif
