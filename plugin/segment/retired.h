/*
 * Which of the operations that a log's states list as in flight stand in the same log as retired:
 * a state that was told while an operation was on its way to the log lists it all the same.
 */
#ifndef MUSTER_SEGMENT_RETIRED_H
#define MUSTER_SEGMENT_RETIRED_H

#include <stdbool.h>
#include <stddef.h>

#include "segment/log_read.h"

struct muster_retired {
    struct muster_retired_op *op; /* what any state lists, sorted; owned */
    size_t ops;
};

/* One pass over the log, however much it lists. False: no memory, nothing to free. The log has to
 * outlive *retired. */
bool muster_retired_find(struct muster_retired *retired, const struct muster_log *log);
/* Whether `pending`, which the state `seen` lists, was retired when that was told, or later. */
bool muster_retired_later(const struct muster_retired *retired, const struct muster_log_seen *seen,
                          const struct muster_op *pending);
void muster_retired_free(struct muster_retired *retired);

#endif
