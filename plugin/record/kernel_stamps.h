/* The kernels of timed operations: one start and one stop per channel, on the GPU's own clock,
 * reported by NCCL's proxy thread long after the fact. */
#ifndef MUSTER_RECORD_KERNEL_STAMPS_H
#define MUSTER_RECORD_KERNEL_STAMPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/event.h"

struct muster_comm;
struct muster_recorder;
struct muster_seg_slot;

/*
 * Whose stamp it is. NCCL looks up an operation's stamps by the number of its work, as the host
 * counts works, in a ring of 64 that the GPU fills by its own count. So a stamp is another
 * operation's once the two counts have parted, for good, or once the GPU has run 64 works more.
 * What the GPU has run is known by the calls, each of which is one work of a channel at most, and
 * comes before its launch; what NCCL has shown may lag behind that. The works of a group run in any
 * order: all count from the group's first call on.
 */

/* An operation is called, on the calling thread, or replayed: what the GPU may run is one work
 * more. Returns how many there were before. */
uint32_t muster_kernel_work(struct muster_recorder *recorder, struct muster_comm *comm);

/* The slot's operation is shown. newest: with what its communicator launched last, as far as is
 * known; a send or receive that is shown later is not trusted, as its group is not known. */
void muster_kernel_shown(struct muster_recorder *recorder, struct muster_comm *comm,
                         struct muster_seg_slot *slot, bool newest);

/* A send or receive is shown, a collective is called. The host and the GPU count works apart from
 * it on if it is a send to oneself, from 2.31 on any send or receive, from 2.29 on a broadcast. */
void muster_kernel_numbered(struct muster_comm *comm, const struct muster_event_op *op, bool p2p);

void *muster_kernel_start(struct muster_recorder *recorder, const struct muster_event *event);
/* `stop`: GPU time. Implausible stamps are refused, counted by reason. */
void muster_kernel_stop(struct muster_recorder *recorder, const void *handle, uint64_t stop);

#endif
