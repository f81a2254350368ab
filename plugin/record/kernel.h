/* The kernels of timed operations: one start and one stop per channel, on the GPU's own clock,
 * reported by NCCL's proxy thread long after the fact. */
#ifndef MUSTER_RECORD_KERNEL_H
#define MUSTER_RECORD_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/event.h"

struct muster_comm;
struct muster_recorder;

/* In a slot's `armed`: its operation was shown after one that NCCL's two counters of works, on the
 * host and on the GPU, take differently. From there on NCCL hands out the stamps of other operations:
 * none of the communicator's is trusted any more. */
#define MUSTER_UNTRUSTED UINT32_MAX

/* A send or receive is about to be shown, a collective was called: what is shown from now on is
 * untrusted if it is such an operation: a send to oneself, from 2.31 on any send or receive, from 2.29
 * on a broadcast. */
void muster_kernel_numbered(struct muster_comm *comm, const struct muster_event_op *op, bool p2p);

void *muster_kernel_start(struct muster_recorder *recorder, const struct muster_event *event);
/* `stop`: GPU time. Implausible stamps are refused, counted by reason. */
void muster_kernel_stop(struct muster_recorder *recorder, const void *handle, uint64_t stop);

#endif
