/* The kernels of timed operations: one start and one stop per channel, on the GPU's own clock,
 * reported by NCCL's proxy thread long after the fact. */
#ifndef MUSTER_RECORD_KERNEL_H
#define MUSTER_RECORD_KERNEL_H

#include "record/event.h"

struct muster_recorder;

void *muster_kernel_start(struct muster_recorder *recorder, const struct muster_event *event);
/* `stop`: GPU time. Implausible stamps are refused, counted by reason. */
void muster_kernel_stop(struct muster_recorder *recorder, const void *handle, uint64_t stop);

#endif
