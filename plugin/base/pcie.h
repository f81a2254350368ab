/* Words for what joins two GPUs: the class of the path and what the driver reports of peer access.
 * The numbers stand in segments and logs. */
#ifndef MUSTER_BASE_PCIE_H
#define MUSTER_BASE_PCIE_H

enum muster_p2p {
    MUSTER_P2P_UNKNOWN,
    MUSTER_P2P_OK,
    MUSTER_P2P_CHIPSET,
    MUSTER_P2P_GPU,
    MUSTER_P2P_IOH,
    MUSTER_P2P_REGKEY,
    MUSTER_P2P_NOT_SUPPORTED,
    MUSTER_P2P_OTHER,
    MUSTER_P2P_WORDS
};

/* From near to far. PIX: at most one PCIe switch; PXB: several; PHB: a host bridge; NODE: host
 * bridges of one NUMA node; SYS: between NUMA nodes. */
enum muster_path_class {
    MUSTER_PATH_SELF,
    MUSTER_PATH_NVLINK,
    MUSTER_PATH_PIX,
    MUSTER_PATH_PXB,
    MUSTER_PATH_PHB,
    MUSTER_PATH_NODE,
    MUSTER_PATH_SYS,
    MUSTER_PATH_UNKNOWN,
    MUSTER_PATH_CLASSES
};

/* "ok", "chipset not supported", ... */
const char *muster_p2p_name(int p2p);
/* "X", "NV", "PIX", ..., "?" */
const char *muster_path_class_name(unsigned class);

/* The farthest class that a level of NCCL's allows, as NCCL_P2P_LEVEL and its like name it: in
 * capitals, "LOC" (below all others, MUSTER_PATH_SELF) to "SYS". MUSTER_PATH_UNKNOWN: no level. */
enum muster_path_class muster_path_level(const char *word);

#endif
