/* Who this process is: from the environment, the host and the kernel. */
#ifndef MUSTER_SEGMENT_IDENTITY_H
#define MUSTER_SEGMENT_IDENTITY_H

#include "segment/layout.h"
#include "segment/run_dir.h"

/* Fills everything that is known before the first communicator; run_dir stays empty (segment/
 * run_dir.h), rank is -1 with source `comm` where no launcher says it. Reads the environment; at
 * set-up only. */
void muster_identity_read(struct muster_seg_identity *identity);

#endif
