/* What readers of a segment do to what they copied: a wrong frame is refused, what is out of range
 * inside an entry becomes "unknown", text is terminated. */
#ifndef MUSTER_SEGMENT_SEGMENT_CHECK_H
#define MUSTER_SEGMENT_SEGMENT_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "segment/layout.h"

/* Magic, version and layout of an image of which `bytes` were read. */
int muster_check_frame(const char *name, const struct muster_segment *segment, size_t bytes,
                       struct muster_err *err);

/* Which parts of an image something was read into: elsewhere it is zero, which nothing is wrong
 * with, and looking there would make pages of holes. */
enum {
    MUSTER_SEG_PART = 4096, /* bytes */
    MUSTER_SEG_PARTS = (sizeof(struct muster_segment) + MUSTER_SEG_PART - 1) / MUSTER_SEG_PART
};
struct muster_seg_parts {
    bool read[MUSTER_SEG_PARTS];
};

/* Notes that bytes [from, end) were read. */
void muster_seg_parts_note(struct muster_seg_parts *parts, size_t from, size_t end);

/* `parts` NULL: it was read as a whole. */
void muster_check_entries(struct muster_segment *segment, const struct muster_seg_parts *parts);
/* Of them those of muster_seg_table; slots and policy. */
void muster_check_tables(struct muster_segment *segment, const struct muster_seg_parts *parts);
void muster_check_flight(struct muster_segment *segment, const struct muster_seg_parts *parts);
void muster_check_op(struct muster_op *op);

#endif
