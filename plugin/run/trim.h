/* What a reader's copy of a segment takes once its operations were taken out of it. */
#ifndef MUSTER_RUN_TRIM_H
#define MUSTER_RUN_TRIM_H

#include "segment/layout.h"

/* Empties the ring and the slots without an operation in flight, and gives back the pages that hold
 * nothing: some 50 KB are left of 1 MB. `segment`: of the caller's own private memory. */
void muster_run_trim(struct muster_segment *segment);

#endif
