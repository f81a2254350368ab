/*
 * What the process that loaded us can tell about itself: which NCCL calls, on which GPU, and
 * whether its shared memory is large enough for kernel timing. Only looks at what is loaded
 * already; set-up only, never in a training callback.
 */
#ifndef MUSTER_NCCL_PROCESS_H
#define MUSTER_NCCL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/recorder.h"

/* Version code (22809 for 2.28.9) of the NCCL that holds the address `caller`; 0: not known. */
uint32_t muster_process_nccl(const void *caller);

/* The calling thread's current device, which NCCL sets to the communicator's before it calls
 * init. Index -1 without CUDA. */
void muster_process_gpu(struct muster_gpu *gpu);

/* The driver's functions for completion marks; false without CUDA, or with a driver that lacks
 * one. */
bool muster_process_cuda(struct muster_mark_driver *cuda);

/* The first timed operation of a communicator makes NCCL connect its proxies through /dev/shm, 34
 * MiB a rank (measured on 2.28.3 and 2.28.9), and NCCL dies if there is no room (its issue 2326).
 * Whether /dev/shm has twice that free for all ranks of this host; false with the reason in
 * `why`. */
bool muster_process_shm_suffices(unsigned local_ranks, char *why, size_t size);

#endif
