/* What the made-up NVML answers, read from a file: FORMAT.md. */
#ifndef MUSTER_TESTS_HOST_NVML_FAKE_NVML_H
#define MUSTER_TESTS_HOST_NVML_FAKE_NVML_H

#include <stdbool.h>
#include <stdint.h>

enum {
    FAKE_GPUS = 64,
    FAKE_LINKS = 18,
    FAKE_COUNTERS = 5,
    FAKE_PROCESSES = 16,
    FAKE_FAULTS = 32,
    FAKE_ALL = -1
};

enum fake_link_state { FAKE_LINK_UP, FAKE_LINK_DOWN, FAKE_LINK_ABSENT };

struct fake_link {
    enum fake_link_state state;
    int to; /* a GPU; -1: a switch */
    uint64_t errors[FAKE_COUNTERS];
};

struct fake_gpu {
    int index;
    unsigned domain, bus, device;
    char uuid[64], name[64];
    long capability[2];
    long generation, max_generation, width, max_width, replays;
    long link_version, link_mbps;
    struct fake_link link[FAKE_LINKS];
    uint64_t limits;
    long clock, max_clock, power, power_limit, utilization, temperature;
    uint64_t ecc_corrected, ecc_uncorrected;
    long remap_pending, remap_failed;
    struct {
        unsigned pid;
        uint64_t bytes;
    } process[FAKE_PROCESSES];
    unsigned processes;
    uint64_t memory[2];
    long mig, virtualization, persistence, compute_mode, fabric[3];
    unsigned xid; /* 0: none */
};

struct fake_fault {
    int gpu; /* FAKE_ALL: whatever it is asked about */
    char function[64];
    int code;
    bool hang;
    unsigned ms; /* before it answers */
};

struct fake_nvml {
    char driver[32];
    long cuda;
    int gpus;
    struct fake_gpu gpu[FAKE_GPUS];
    uint8_t p2p[FAKE_GPUS][FAKE_GPUS], ancestor[FAKE_GPUS][FAKE_GPUS];
    struct fake_fault fault[FAKE_FAULTS];
    unsigned faults;
    unsigned changes; /* of the file */
};

/* As the file says now. Ends the process with a line if it cannot be read. */
const struct fake_nvml *fake_nvml(void);

#endif
