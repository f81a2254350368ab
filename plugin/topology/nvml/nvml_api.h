/* NVML's functions by dlopen, with the types that they take (NVML's API reference). Between nvml*.c
 * and gpu_watch.c only. */
#ifndef MUSTER_TOPOLOGY_NVML_NVML_API_H
#define MUSTER_TOPOLOGY_NVML_NVML_API_H

#include "topology/nvml/nvml.h"

enum {
    NVML_SUCCESS = 0,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_ABSENT = -1, /* the library has no such function */
};

struct nvml_pci {
    char legacy[16];
    unsigned domain, bus, device, ids, subsystem;
    char bus_id[32];
};

struct nvml_field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, result;
    union {
        double real;
        unsigned u32;
        unsigned long long u64;
    } value;
};

struct nvml_fabric {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};

struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_utilization {
    unsigned gpu, memory;
};

struct nvml_process {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

struct nvml_event {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

typedef int (*get_int)(void *device, int *value);
typedef int (*get_text)(void *device, char *text, unsigned size);

struct muster_nvml_api {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_text)(int code);
    int (*driver_version)(char *text, unsigned size);
    int (*cuda_version)(int *version);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, void **device);
    get_text name, uuid;
    int (*pci)(void *device, struct nvml_pci *pci);
    int (*capability)(void *device, int *major, int *minor);
    get_int generation, max_generation, width, max_width, replays, virtualization, persistence,
        compute_mode;
    int (*link_state)(void *device, unsigned link, int *active);
    int (*link_version)(void *device, unsigned link, unsigned *version);
    int (*link_remote)(void *device, unsigned link, struct nvml_pci *pci);
    int (*link_remote_type)(void *device, unsigned link, int *type);
    int (*link_errors)(void *device, unsigned link, int counter, unsigned long long *value);
    int (*fields)(void *device, int n, struct nvml_field *field);
    int (*mig)(void *device, unsigned *current, unsigned *pending);
    int (*utilization)(void *device, struct nvml_utilization *utilization);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*clock)(void *device, int type, unsigned *mhz);
    int (*max_clock)(void *device, int type, unsigned *mhz);
    int (*power)(void *device, unsigned *mw);
    int (*power_limit)(void *device, unsigned *mw);
    int (*limits)(void *device, unsigned long long *reasons);
    int (*ecc)(void *device, int type, int counter, unsigned long long *value);
    int (*remapped)(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                    unsigned *failed);
    int (*processes)(void *device, unsigned *n, struct nvml_process *infos);
    int (*memory)(void *device, struct nvml_memory *memory);
    int (*fabric)(void *device, struct nvml_fabric *fabric);
    int (*p2p)(void *a, void *b, int index, int *status);
    int (*ancestor)(void *a, void *b, int *level);
    int (*set_create)(void **set);
    int (*set_register)(void *device, unsigned long long types, void *set);
    int (*set_wait)(void *set, struct nvml_event *event, unsigned ms);
};

/* Whether a call gave a value; one that the library lacks did not. */
#define NVML_GOT(api, function, ...)                                                               \
    ((api)->function && (api)->function(__VA_ARGS__) == NVML_SUCCESS)

/* Opens the library and starts it. On failure nothing is left open. */
int muster_nvml_api_open(struct muster_nvml_api *api, struct muster_err *err);
/* For those who look once; who goes on looking until the process ends leaves it open. */
void muster_nvml_api_close(struct muster_nvml_api *api);

/* A static string. */
const char *muster_nvml_error(const struct muster_nvml_api *api, int code);

/* Nothing is known: -1, or 0 where that means so. */
struct muster_nvml_gpu muster_nvml_unknown(void);
/* What changes while a GPU works: utilization, temperature, clocks, power, limits, ECC, rows. */
void muster_nvml_state(const struct muster_nvml_api *api, void *device,
                       struct muster_nvml_gpu *gpu);
/* PCIe generation and width. */
void muster_nvml_pcie(const struct muster_nvml_api *api, void *device, struct muster_nvml_gpu *gpu);
/* The speed of its links, whose states are known. */
void muster_nvml_speed(const struct muster_nvml_api *api, void *device,
                       struct muster_nvml_gpu *gpu);
/* NVML's P2P status as enum muster_p2p. */
uint8_t muster_nvml_p2p(int status);
/* muster_nvml_read with a library that is open. */
int muster_nvml_read_all(const struct muster_nvml_api *api, struct muster_nvml *nvml,
                         struct muster_err *err);
/* The address in a PCI record. */
struct muster_pci muster_nvml_pci(const struct nvml_pci *pci);
/* Version and remote end, and error counters, of an active link; all of that with the state. */
void muster_nvml_link_end(const struct muster_nvml_api *api, void *device, unsigned at,
                          struct muster_nvml_link *link);
void muster_nvml_link_errors(const struct muster_nvml_api *api, void *device, unsigned at,
                             struct muster_nvml_link *link);
void muster_nvml_link(const struct muster_nvml_api *api, void *device, unsigned at,
                      struct muster_nvml_link *link);

#endif
