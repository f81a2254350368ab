/*
 * What the driver's management library reports, as plain data: libnvidia-ml.so.1 by dlopen,
 * functions declared here. Its calls may fail, be absent or never return: read it in a process that
 * can be given up, and take fields of -1 (or 0 where noted) as "not reported".
 */
#ifndef MUSTER_TOPOLOGY_NVML_NVML_H
#define MUSTER_TOPOLOGY_NVML_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "topology/machine.h"

#define MUSTER_NVML_LIBRARY "libnvidia-ml.so.1"

enum { MUSTER_NVML_LINKS = 18 };

enum muster_nvlink_state { MUSTER_NVLINK_ABSENT, MUSTER_NVLINK_INACTIVE, MUSTER_NVLINK_ACTIVE };
enum muster_nvlink_remote {
    MUSTER_NVLINK_TO_UNKNOWN,
    MUSTER_NVLINK_TO_GPU,
    MUSTER_NVLINK_TO_SWITCH
};

struct muster_nvml_link {
    uint8_t state, remote;
    uint8_t version;
    struct muster_pci to;
    uint64_t recoveries; /* the link had to be retrained */
    uint64_t corrected;  /* replays and CRC errors: some are normal. Since the driver was loaded */
};

struct muster_nvml_gpu {
    struct muster_pci pci;
    char name[64], uuid[48];
    int major, minor; /* compute capability; 0: unknown */
    int pcie_generation, pcie_max_generation, pcie_width, pcie_max_width; /* 0: unknown */
    int64_t pcie_replays;
    struct muster_nvml_link link[MUSTER_NVML_LINKS];
    uint32_t links_ms;  /* that the driver took to report its links */
    uint32_t link_mbps; /* of one link, one direction, in 10^6 bytes; 0: unknown */
    int mig;            /* 0, 1; -1 */
    int utilization, temperature;
    int sm_mhz, sm_max_mhz;
    int64_t power_mw, power_limit_mw;
    int64_t limits; /* clock event reasons, a bit mask; -1 */
    int64_t ecc_uncorrected, ecc_corrected;
    int remap_pending, remap_failed; /* rows; -1 */
    int processes;
    uint64_t memory_total, memory_used; /* 0: unknown */
    int fabric_state;                   /* 0 none, 1 not started, 2 in progress, 3 completed; -1 */
    int fabric_status;                  /* NVML's result code of it */
    int fabric_domain;                  /* 1: it has a name: NVLink may reach other hosts (MNNVL) */
    int virtualization;                 /* 0 none, 1 passthrough, 2 vGPU; -1 */
    int persistence;                    /* 0, 1; -1 */
    int compute_mode;                   /* 0 any process, 2 none, 3 one process; -1 */
};

struct muster_nvml {
    char driver[32];
    int cuda; /* 13000: the newest CUDA that the driver can run; 0: unknown */
    int gpus;
    struct muster_nvml_gpu gpu[MUSTER_MACHINE_GPUS];
    uint8_t p2p[MUSTER_MACHINE_GPUS][MUSTER_MACHINE_GPUS];      /* enum muster_p2p, of writes */
    uint8_t ancestor[MUSTER_MACHINE_GPUS][MUSTER_MACHINE_GPUS]; /* 10..50; 0: unknown */
};

/* Clock event reasons that mean a GPU is held back by more than idleness or a wish. */
enum {
    MUSTER_CLOCK_APPLICATIONS = 0x2, /* a wish: worth a word where a rank is late */
    MUSTER_CLOCK_SW_POWER_CAP = 0x4,
    MUSTER_CLOCK_HW_SLOWDOWN = 0x8,
    MUSTER_CLOCK_SW_THERMAL = 0x20,
    MUSTER_CLOCK_HW_THERMAL = 0x40,
    MUSTER_CLOCK_POWER_BRAKE = 0x80,
};

/* err: no library, no driver, or why it refused. */
int muster_nvml_read(struct muster_nvml *nvml, struct muster_err *err);

/* GB/s of one link and direction by its version, where the driver reports none. 0: unknown. */
double muster_nvlink_gbs(unsigned version);

/* Adds what NVML knows: GPUs that the PCI tree lacks, names, links, P2P states. */
void muster_nvml_annotate(struct muster_machine *machine, const struct muster_nvml *nvml);

#endif
