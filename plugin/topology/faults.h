/*
 * What in a machine falls short of what it can be: PCIe links below what both ends can, NVLinks
 * that other GPUs of this host have, NICs that one socket lacks. Pure.
 */
#ifndef MUSTER_TOPOLOGY_FAULTS_H
#define MUSTER_TOPOLOGY_FAULTS_H

#include "topology/machine.h"

enum { MUSTER_FAULTS = 128 };

enum muster_fault_kind {
    MUSTER_FAULT_WIDTH,  /* fewer lanes than both ends of the link can */
    MUSTER_FAULT_SPEED,  /* slower than both ends can, and no idle GPU */
    MUSTER_FAULT_IDLE,   /* the same at a GPU that is idle, or of unknown use: no fault, reported */
    MUSTER_FAULT_NVLINK, /* fewer active links than the other GPUs of this model */
    MUSTER_FAULT_NIC,    /* GPUs of one NUMA node have fewer fabric NICs than those of another */
};

struct muster_fault {
    enum muster_fault_kind kind;
    int node; /* lower end of the link, or the lone NUMA node's number for NIC; -1 */
    int gpu;  /* NVLINK, IDLE; -1 */
    char text[192];
};

struct muster_faults {
    struct muster_fault at[MUSTER_FAULTS];
    int n;
    int dropped; /* more than fit */
};

void muster_faults_find(const struct muster_machine *machine, struct muster_faults *faults);

/* Active NVLinks of most GPUs of this one's model; of two counts equally frequent the larger. */
int muster_faults_usual_links(const struct muster_machine *machine, int gpu);

/* Whether a fault lies between two GPUs, on the way that their traffic takes. */
bool muster_fault_between(const struct muster_machine *machine, const struct muster_fault *fault,
                          int a, int b);

#endif
