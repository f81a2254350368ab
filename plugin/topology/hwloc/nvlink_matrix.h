/* hwloc's NVLinkBandwidth: MB/s between GPUs and NVSwitches, taken value by value. */
#ifndef MUSTER_TOPOLOGY_HWLOC_NVLINK_MATRIX_H
#define MUSTER_TOPOLOGY_HWLOC_NVLINK_MATRIX_H

#include "topology/machine.h"

enum { MUSTER_NVLINK_OBJECTS = 256 };

struct muster_nvlink_matrix {
    int node[MUSTER_NVLINK_OBJECTS]; /* -1: an object that is not in the PCI tree */
    bool cpu[MUSTER_NVLINK_OBJECTS]; /* a package or NUMA node: links end there, too (POWER) */
    int nodes;
    uint32_t mbps[MUSTER_NVLINK_OBJECTS * MUSTER_NVLINK_OBJECTS]; /* row by row */
    int values;
};

/* false: too many. Nodes come before values. */
bool muster_nvlink_matrix_node(struct muster_nvlink_matrix *matrix, int node, bool cpu);
bool muster_nvlink_matrix_value(struct muster_nvlink_matrix *matrix, uint64_t mbps);

/* Into the machine's matrices. Links are counted by what one of that chip moves. Through switches a
 * GPU reaches another with the smaller sum of both. What does not fit (half a matrix, values out of
 * range) is noted and left out. */
void muster_nvlink_matrix_apply(const struct muster_nvlink_matrix *matrix,
                                struct muster_machine *machine);

#endif
