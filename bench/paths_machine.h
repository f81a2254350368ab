/* Made-up machines with known faults, written as a /sys tree. Knows nothing of the reader. */
#ifndef MUSTER_BENCH_PATHS_MACHINE_H
#define MUSTER_BENCH_PATHS_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PATHS_FAULTS = 3,
    PATHS_GPUS = 16,
    PATHS_LINKS = 18,
};

enum paths_fault_kind { PATHS_WIDTH, PATHS_SPEED, PATHS_NVLINK, PATHS_NIC };

struct paths_fault {
    enum paths_fault_kind kind;
    char lower[24]; /* address at the lower end of the link; "" for NIC */
    int gpu;        /* NVLINK: in order of addresses */
    int node;       /* NIC: the NUMA node that lost one */
};

struct paths_machine {
    int gpus;
    char gpu_pci[PATHS_GPUS][24];
    bool busy[PATHS_GPUS];
    bool nvlink;
    int links[PATHS_GPUS]; /* active */
    struct paths_fault fault[PATHS_FAULTS];
    int faults;
};

/* Writes the tree below `root`, an empty directory. Equal seeds give equal machines. Returns 0, or
 * -1 where files cannot be written. */
int paths_machine_make(uint64_t seed, const char *root, struct paths_machine *machine);

#endif
