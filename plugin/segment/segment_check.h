/* What readers of a segment do to what they copied: a wrong frame is refused, what is out of range
 * inside an entry becomes "unknown", text is terminated. */
#ifndef MUSTER_SEGMENT_SEGMENT_CHECK_H
#define MUSTER_SEGMENT_SEGMENT_CHECK_H

#include <stddef.h>

#include "base/err.h"
#include "segment/layout.h"

/* Magic, version and layout of an image of which `bytes` were read. */
int muster_check_frame(const char *name, const struct muster_segment *segment, size_t bytes,
                       struct muster_err *err);
void muster_check_entries(struct muster_segment *segment);
void muster_check_tables(struct muster_segment *segment); /* of them: those of muster_seg_table */
void muster_check_flight(struct muster_segment *segment); /* of them: slots and policy */
void muster_check_op(struct muster_op *op);

#endif
