/*
 * A trace of torch.profiler beside ours: which rank wrote it, and how its clock lies on the axis.
 * Both show NCCL's kernels, so the same operation is found in both by the process group's
 * description, which is the communicator's name, its sequence number and its number of elements;
 * the median of what the begins differ by is the offset. Pure.
 */
#ifndef MUSTER_TIMELINE_TORCH_H
#define MUSTER_TIMELINE_TORCH_H

#include <stdint.h>

#include "timeline/timeline_internal.h"

/* At most that much is read of one file: a trace of so many bytes takes some ten times that. */
#define MUSTER_TORCH_BYTES_MOST (1ull << 30)

enum { MUSTER_TORCH_LEAST = 3 }; /* operations found in both that an offset rests on */

/* `json`: the trace's bytes, named `name` in errors. Fills all of *beside but its path; without
 * enough in common `matched` is how little. -1: not such a trace, or no memory. */
int muster_torch_lay(const struct muster_timeline *timeline, const char *name, const char *json,
                     size_t bytes, struct muster_timeline_beside *beside, struct muster_err *err);

#endif
