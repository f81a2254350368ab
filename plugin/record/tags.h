/*
 * The tags that a job's own code puts on operations (ncclCollConfig_t.userTag, interface v7): 64
 * bits of the caller's choice. A segment holds the first that come, with what was called under
 * each; an operation holds the number of its tag (segment/op.h).
 */
#ifndef MUSTER_RECORD_TAGS_H
#define MUSTER_RECORD_TAGS_H

#include <stdint.h>

#include "segment/layout.h"

/* Counts one call of `bytes` under `tag`; what MUSTER_OP_TAG of its flags is then: 1 to
 * MUSTER_SEG_TAGS, the last one for all tags that found no place; 0 for tag 0, which is none. From
 * any thread; never waits. */
unsigned muster_tags_count(struct muster_segment *segment, uint64_t tag, uint64_t bytes);

#endif
