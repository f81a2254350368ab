/*
 * Looking at GPUs again and again, by NVML, for as long as a process lives. Calls may take long or
 * never return: one thread of its own, which nobody waits for.
 */
#ifndef MUSTER_TOPOLOGY_NVML_GPU_WATCH_H
#define MUSTER_TOPOLOGY_NVML_GPU_WATCH_H

#include <stdint.h>

#include "base/err.h"
#include "topology/nvml/nvml.h"

struct muster_gpu_watch;

/* What NVML reports of one GPU now. -1 (limits too): nothing. */
struct muster_gpu_reading {
    int64_t limits; /* clock event reasons */
    int64_t power_mw, power_limit_mw;
    int64_t ecc_corrected, ecc_uncorrected, pcie_replays, nvlink_recoveries, nvlink_errors;
    int sm_mhz, sm_max_mhz, utilization, temperature;
    int others;  /* processes on it but this one */
    int nvlinks; /* active */
};

/* Opens NVML and reads of every GPU what identifies it, its use, and which NVLinks it has: links to
 * a switch by the first one, because each call may be a question to the GPU's own processor. It
 * stays open: the driver's library must not be closed under another thread of the job. */
int muster_gpu_watch_open(struct muster_gpu_watch **watch, struct muster_nvml *nvml,
                          struct muster_err *err);
/* Reads the same again. */
int muster_gpu_watch_read(struct muster_gpu_watch *watch, struct muster_nvml *nvml);
/* The GPU at an address, from 0; -1: NVML shows none there. Asks for its Xid events. */
int muster_gpu_watch_find(struct muster_gpu_watch *watch, struct muster_pci pci);
/* Adds what only a GPU of this process needs: PCIe link, MIG, peer access to the others. */
void muster_gpu_watch_own(struct muster_gpu_watch *watch, int gpu, struct muster_nvml *nvml);
/* NVLinks and their errors are read by every sixth look; in between they stand as they were. */
void muster_gpu_watch_poll(struct muster_gpu_watch *watch, int gpu,
                           struct muster_gpu_reading *look);
/* The number of an Xid event of the GPU that was not reported before; 0: none. */
unsigned muster_gpu_watch_xid(struct muster_gpu_watch *watch, int gpu);

#endif
