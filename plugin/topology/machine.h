/*
 * What is known of one machine: its PCI tree, GPUs, NICs and NVLink. Filled by the readers (hwloc's
 * XML, sysfs, NVML), evaluated by paths.h and faults.h. Plain data; muster_machine_free gives it
 * back.
 */
#ifndef MUSTER_TOPOLOGY_MACHINE_H
#define MUSTER_TOPOLOGY_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/pcie.h"

enum {
    MUSTER_MACHINE_GPUS = 64,
    MUSTER_MACHINE_NICS = 128,
    MUSTER_MACHINE_NODES = 8192,
    MUSTER_MACHINE_NOTES = 16,
    MUSTER_MACHINE_DEPTH = 64,
};

struct muster_pci {
    uint32_t domain; /* VMD and the like use more than 16 bits */
    uint8_t bus, device, function;
};

enum muster_node_kind { MUSTER_NODE_HOST_BRIDGE, MUSTER_NODE_BRIDGE, MUSTER_NODE_DEVICE };

/* A PCIe link as one of its ends reports it: 0 where it reports nothing. */
struct muster_link_end {
    double gts, max_gts;       /* gigatransfers a second and lane: 2.5, 5, 8, 16, 32, 64 */
    unsigned width, max_width; /* lanes */
};

struct muster_node {
    int parent; /* index; -1: a host bridge */
    enum muster_node_kind kind;
    struct muster_pci pci;
    uint32_t class_code; /* 0x030200 */
    uint16_t vendor, device;
    uint64_t numa; /* of host bridges and devices: NUMA nodes nearby, one bit each; 0: unknown */
    uint64_t locality; /* of host bridges: number of the CPU object it hangs on; 0: unknown */
    double gbs;        /* link's bandwidth where that is all that is known (hwloc's XML); else 0 */
    struct muster_link_end end;
};

struct muster_gpu {
    int node; /* -1: not in the PCI tree */
    struct muster_pci pci;
    char name[64], uuid[48];
    int index;           /* NVML's; -1: unknown */
    int utilization;     /* percent; -1: unknown. 0 means idle: its PCIe link may be slowed down */
    int nvlinks;         /* active; -1: unknown */
    int nvlinks_present; /* -1: unknown */
    double nvlink_gbs;   /* of one link, one direction; 0: unknown */
    bool mig;
    int fabric; /* to switches: how many of nvlinks */
};

struct muster_nic {
    int node;
    char name[32];  /* network interface; "": none */
    char verbs[32]; /* RDMA device; "": none */
    unsigned mbps;  /* 0: unknown */
    bool up;
    bool fabric; /* RDMA, or at least 25 Gb/s: what a job's traffic should take */
};

struct muster_machine {
    struct muster_arena memory; /* of the machine itself, too */
    char source[128];           /* "hwloc 2.9.0", "/sys", "file.xml" */
    struct muster_node *node;
    int nodes;
    struct muster_gpu gpu[MUSTER_MACHINE_GPUS];
    int gpus;
    struct muster_nic nic[MUSTER_MACHINE_NICS];
    int nics;
    /* Direct or through switches, one direction; [a][b] */
    uint8_t nvlinks[MUSTER_MACHINE_GPUS][MUSTER_MACHINE_GPUS];
    double nvlink_gbs[MUSTER_MACHINE_GPUS][MUSTER_MACHINE_GPUS];
    uint8_t p2p[MUSTER_MACHINE_GPUS][MUSTER_MACHINE_GPUS]; /* enum muster_p2p */
    bool hidden;                                           /* the hypervisor hides the PCI tree */
    bool virtual_machine;
    char note[MUSTER_MACHINE_NOTES][160];
    int notes;
};

/* 0, or -1 out of memory. */
int muster_machine_new(struct muster_machine **machine, struct muster_err *err);
void muster_machine_free(struct muster_machine *machine);

/* Index of a node with everything but kind and parent zero; -1 with err. */
int muster_machine_add(struct muster_machine *machine, int parent, enum muster_node_kind kind,
                       struct muster_err *err);
/* -1: no such device. */
int muster_machine_find(const struct muster_machine *machine, struct muster_pci pci);
int muster_machine_find_gpu(const struct muster_machine *machine, struct muster_pci pci);
/* What the readers cannot see, noted once. */
__attribute__((format(printf, 2, 3))) void muster_machine_note(struct muster_machine *machine,
                                                               const char *fmt, ...);
/* Adds GPUs and NICs for nodes of these PCI classes and sorts both by address. A GPU is NVIDIA's
 * 0x0302 or 0x0300, a NIC 0x0200 or 0x0207. Keeps what is there. */
void muster_machine_find_devices(struct muster_machine *machine);

/* Bridges between the node and its host bridge, plus one. */
int muster_machine_depth(const struct muster_machine *machine, int node);
/* The host bridge above; -1 if the tree is broken. */
int muster_machine_root(const struct muster_machine *machine, int node);
uint64_t muster_machine_numa(const struct muster_machine *machine, int node);

/* "00000000:17:00.0" and shorter forms. */
bool muster_pci_parse(const char *text, struct muster_pci *pci);
void muster_pci_print(struct muster_pci pci, char *text, size_t size); /* >= 18 bytes */
int muster_pci_compare(struct muster_pci a, struct muster_pci b);

#endif
