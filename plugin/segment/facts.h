/*
 * What is known of the machine below a process: its GPUs, their paths to the other GPUs of the
 * host, the network interface, how the GPUs fare, and the variables that choose between paths.
 * Part of the segment's layout (segment/layout.h), and by these bytes in the log. Zeroed: nothing
 * is known. One writer, the sampler's thread; each struct that begins with `seq` is written in one
 * piece (segment/seqlock.h).
 */
#ifndef MUSTER_SEGMENT_FACTS_H
#define MUSTER_SEGMENT_FACTS_H

#include <stdint.h>

#include "base/pcie.h"

enum {
    MUSTER_FACT_GPUS = 8, /* of one process; further ones are not looked at */
    MUSTER_FACT_PEERS = 64,
    MUSTER_FACT_VALUE = 48,
    MUSTER_FACT_VARS = 16, /* room; used: MUSTER_VARS */
    MUSTER_FACT_LIMITS = 8,
};

/* Variables as the process had them with its first communicator. */
enum muster_fact_var {
    MUSTER_VAR_P2P_DISABLE,
    MUSTER_VAR_P2P_LEVEL,
    MUSTER_VAR_SHM_DISABLE,
    MUSTER_VAR_NET,
    MUSTER_VAR_NET_PLUGIN,
    MUSTER_VAR_NET_GDR_LEVEL,
    MUSTER_VAR_IB_DISABLE,
    MUSTER_VAR_IB_HCA,
    MUSTER_VAR_SOCKET_IFNAME,
    MUSTER_VAR_CUMEM_ENABLE,
    MUSTER_VAR_MAX_NCHANNELS,
    MUSTER_VAR_CROSS_NIC,
    MUSTER_VARS
};

enum muster_fact_state {
    MUSTER_FACTS_NONE,    /* nobody has looked */
    MUSTER_FACTS_READING, /* looking: the driver has not answered yet, or never will */
    MUSTER_FACTS_READ,
    MUSTER_FACTS_STATES
};

struct muster_fact_head {
    uint32_t seq;
    uint32_t state;     /* enum muster_fact_state */
    uint64_t read_ns;   /* monotonic; 0: not read */
    uint32_t variables; /* bit v: variable v is set */
    uint32_t nic_mbps;  /* 10^6 bits a second, by the driver; 0: unknown */
    uint8_t hidden;     /* the hypervisor hides the PCI tree */
    uint8_t virtual_machine;
    uint8_t gpus; /* of the host, visible here */
    uint8_t nics; /* interfaces that NCCL takes; nic is the first */
    uint8_t nic_up;
    uint8_t spare[3];
    char nic[32];       /* network interface; "": none */
    char nic_verbs[32]; /* its RDMA device; "": none */
    char driver[32];
    char no_nvml[96]; /* why NVML has nothing; "": it has */
    char value[MUSTER_FACT_VARS][MUSTER_FACT_VALUE];
    uint64_t spare2[4];
};

/* Another GPU of the host, as seen from one of the process. */
struct muster_fact_peer {
    uint32_t domain;
    uint8_t bus, device;
    uint8_t class;   /* enum muster_path_class */
    uint8_t nvlinks; /* active, on the path */
    uint8_t p2p;     /* enum muster_p2p */
    uint8_t low;     /* enum muster_fact_low: a PCIe link on the path */
    uint16_t spare;
    uint32_t limit_mbs; /* what the path allows, 10^6 bytes a second and direction; 0: unknown */
};

enum muster_fact_low {
    MUSTER_FACT_FULL,     /* no link is known to do less than both its ends can */
    MUSTER_FACT_LOW_IDLE, /* one runs slower, as those of idle GPUs do: no verdict */
    MUSTER_FACT_LOW,
    MUSTER_FACT_LOWS
};

struct muster_fact_gpu {
    uint32_t seq;
    uint8_t named; /* pci is set */
    uint8_t known; /* the driver or the PCI tree knows it */
    uint8_t peers;
    uint8_t mig;
    char pci[16];                                         /* "0000:1b:00.0" */
    uint8_t generation, max_generation, width, max_width; /* PCIe; 0: unknown */
    uint8_t nvlinks;                                      /* active */
    uint8_t nvlinks_present;
    uint8_t nvlinks_usual; /* of its model on this host */
    uint8_t nic_class;     /* enum muster_path_class to head.nic */
    uint32_t nvlink_mbs;   /* of one link and direction; 0: unknown */
    uint8_t near_class;    /* to its nearest NICs of the fabric */
    uint8_t host_low;      /* enum muster_fact_low: a PCIe link between it and the CPU */
    uint8_t spare[2];
    char near[32]; /* one of those NICs; "": none known */
    char low[160]; /* the PCIe link that does less than it can, in words; "": none */
    struct muster_fact_peer peer[MUSTER_FACT_PEERS];
};

/* One look at a GPU. -1: it does not report it (limits: UINT64_MAX). Counters are the driver's,
 * since it was loaded. */
struct muster_fact_reading {
    uint64_t at_ns;  /* monotonic */
    uint64_t limits; /* clock event reasons, as NVML numbers them */
    int64_t ecc_corrected, ecc_uncorrected;
    int64_t pcie_replays;
    int64_t nvlink_recoveries, nvlink_errors;
    int32_t power_mw, power_limit_mw;
    int32_t sm_mhz, sm_max_mhz;
    int32_t utilization, temperature;
    int32_t others;  /* processes of others on it */
    int32_t nvlinks; /* active */
};

/* Why clocks are held back, as far as it is more than idleness or a wish. */
enum muster_fact_limit {
    MUSTER_LIMIT_POWER_CAP,
    MUSTER_LIMIT_HW_SLOWDOWN,
    MUSTER_LIMIT_SW_THERMAL,
    MUSTER_LIMIT_HW_THERMAL,
    MUSTER_LIMIT_POWER_BRAKE,
    MUSTER_LIMITS
};

/* How a GPU fared, over all looks. */
struct muster_fact_use {
    uint32_t seq;
    uint32_t samples;
    uint32_t limited[MUSTER_FACT_LIMITS]; /* of samples; by enum muster_fact_limit */
    uint32_t limited_any;
    uint32_t waiting; /* full utilization at less than 40 % of the power limit: it waits */
    uint32_t busy;    /* full utilization */
    uint32_t shared;  /* with processes of others on it */
    uint32_t xid;     /* the newest; 0: none seen */
    uint32_t xids;
    int32_t max_temperature;
    int32_t min_sm_mhz, max_sm_mhz; /* while busy; 0: never seen */
    uint32_t spare;
    uint64_t sum_power_mw; /* over `powered` samples */
    uint64_t sum_sm_mhz;   /* over `clocked` samples, those while busy */
    uint32_t powered, clocked;
    struct muster_fact_reading first, last;
};

struct muster_facts {
    struct muster_fact_head head;
    struct muster_fact_gpu gpu[MUSTER_FACT_GPUS];
    struct muster_fact_use use[MUSTER_FACT_GPUS];
};

_Static_assert(sizeof(struct muster_fact_peer) == 16, "shared layout");
_Static_assert(sizeof(struct muster_fact_reading) == 88, "shared layout");
_Static_assert(sizeof(struct muster_fact_head) == 1024, "shared layout");
_Static_assert(sizeof(struct muster_fact_gpu) == 1256, "shared layout");
_Static_assert(sizeof(struct muster_fact_use) == 280, "shared layout");

/* "NCCL_P2P_DISABLE"; NULL for numbers that name none. */
const char *muster_fact_var_name(unsigned variable);
/* "power cap", ... */
const char *muster_fact_limit_name(unsigned limit);

/* What readers do to facts that they copied: text is terminated, what is out of range becomes
 * unknown. */
void muster_facts_check(struct muster_facts *facts);

#endif
