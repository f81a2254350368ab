/*
 * What the process that loaded us shows of itself: on which GPU NCCL calls, and whether its shared
 * memory is large enough for kernel timing. Only looks at what is loaded already; set-up only,
 * never in a training callback.
 */
#ifndef MUSTER_PLUGIN_NCCL_PROCESS_H
#define MUSTER_PLUGIN_NCCL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/recorder.h"

/* The calling thread's current device, which NCCL sets to the communicator's before it calls
 * init. Index -1 without CUDA. */
void muster_process_gpu(struct muster_gpu *gpu);

/* The driver's functions for events; false without CUDA, or with a driver that lacks
 * one. */
bool muster_process_cuda(struct muster_cuda *cuda);

/* How the player of a recording passes on when the call that it plays came; NULL: it does not. */
muster_replay_clock *muster_process_replay_clock(void);

/* CPUs that the calling thread may use; 1 at least. */
unsigned muster_process_cpus(void);

/* The first operation of a communicator whose kernels NCCL stamps makes it connect its proxies
 * through /dev/shm, 35 MiB a rank (measured on 2.28.3 and 2.28.9), and NCCL dies if there is no
 * room (its issue 2326). Whether /dev/shm, and what the cgroup leaves of memory, have twice that
 * free for one communicator of all ranks of this host; false with the reason in `why`. */
bool muster_process_memory_suffices(unsigned local_ranks, char *why, size_t size);

#endif
