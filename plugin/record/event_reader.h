/*
 * The thread "muster-events": reads the CUDA events of record/launches.h as they end. It relaxes
 * its capture mode, so that what it asks breaks no other thread's capture, and asks nothing of a
 * context that was reset.
 *
 * Host times of completion are as good as the thread's pause: 0.1 ms, or a hundredth of how long
 * the launch was outstanding, up to 2 ms.
 */
#ifndef MUSTER_RECORD_EVENT_READER_H
#define MUSTER_RECORD_EVENT_READER_H

#include "record/launches.h"

struct muster_recorder;

/* Starts the thread. 0 or an errno. */
int muster_completion_start(struct muster_recorder *recorder);

/* Looks once at all launches; for the thread, and for tests. Returns how long to wait until the
 * next look, in nanoseconds. */
uint64_t muster_completion_poll(struct muster_launches *launches);

/* Waits until the thread has looked once more, 1 s at most. */
void muster_completion_settle(struct muster_launches *launches);

/* A communicator of the context ends. At the last one: waits like muster_completion_settle; what is
 * outstanding after that look is lost, and the driver is not asked about the context again, since
 * the application may destroy it now. */
void muster_completion_leave(struct muster_launches *launches, struct muster_gpu_context *gpu);

/* Counts the communicators that launched since the last call: each may leave its share of probes.
 */
void muster_completion_count_active(struct muster_recorder *recorder);

#endif
