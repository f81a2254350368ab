#include "topology/gpu_watch.h"

#include <stdlib.h>
#include <string.h>

#include "topology/nvml_api.h"

enum { PROCESSES = 64, XIDS = 16, EVENT_XID = 8 };

struct muster_gpu_watch {
    struct muster_nvml_api api;
    int gpus;
    void *device[MUSTER_MACHINE_GPUS];
    struct muster_pci pci[MUSTER_MACHINE_GPUS];
    uint32_t links[MUSTER_MACHINE_GPUS]; /* a bit for each that is there */
    unsigned xid[MUSTER_MACHINE_GPUS];   /* 0: none to tell */
    void *events;                        /* NULL: this driver tells none */
};

#define GOT(function, ...) NVML_GOT(&watch->api, function, __VA_ARGS__)

static void take(struct muster_gpu_watch *watch, const struct muster_nvml *nvml)
{
    watch->gpus = nvml->gpus;
    for (int i = 0; i < nvml->gpus; i++) {
        const struct muster_nvml_gpu *gpu = &nvml->gpu[i];
        if (!GOT(handle, (unsigned)i, &watch->device[i]))
            watch->device[i] = NULL;
        watch->pci[i] = gpu->pci;
        for (unsigned at = 0; at < MUSTER_NVML_LINKS; at++)
            if (gpu->link[at].state != MUSTER_NVLINK_ABSENT)
                watch->links[i] |= 1u << at;
    }
    if (!GOT(set_create, &watch->events))
        watch->events = NULL;
}

int muster_gpu_watch_open(struct muster_gpu_watch **watch, struct muster_nvml *nvml,
                          struct muster_err *err)
{
    struct muster_gpu_watch *made = calloc(1, sizeof *made);
    if (!made)
        return muster_fail(err, "out of memory");
    memset(nvml, 0, sizeof *nvml);
    if (muster_nvml_api_open(&made->api, err)) {
        free(made);
        return -1;
    }
    if (muster_nvml_read_all(&made->api, nvml, err)) {
        free(made);
        return -1;
    }
    take(made, nvml);
    *watch = made;
    return 0;
}

int muster_gpu_watch_read(struct muster_gpu_watch *watch, struct muster_nvml *nvml)
{
    memset(nvml, 0, sizeof *nvml);
    return muster_nvml_read_all(&watch->api, nvml, NULL);
}

int muster_gpu_watch_find(struct muster_gpu_watch *watch, struct muster_pci pci)
{
    for (int i = 0; i < watch->gpus; i++) {
        if (!watch->device[i] || muster_pci_compare(watch->pci[i], pci) != 0)
            continue;
        if (watch->events)
            (void)GOT(set_register, watch->device[i], EVENT_XID, watch->events);
        return i;
    }
    return -1;
}

static int others_on(const struct muster_gpu_watch *watch, void *device)
{
    struct nvml_process process[PROCESSES];
    unsigned n = PROCESSES;
    if (!GOT(processes, device, &n, process))
        return -1;
    /* One of them is this process, by whatever number: the driver's are not a container's. */
    return n > 0 ? (int)n - 1 : 0;
}

static void look_at_links(const struct muster_gpu_watch *watch, int gpu,
                          struct muster_gpu_look *look)
{
    if (watch->links[gpu] == 0)
        return;
    look->nvlinks = 0;
    look->nvlink_recoveries = look->nvlink_errors = 0;
    for (unsigned at = 0; at < MUSTER_NVML_LINKS; at++) {
        struct muster_nvml_link link = {.state = MUSTER_NVLINK_ABSENT};
        if (!(watch->links[gpu] & 1u << at))
            continue;
        muster_nvml_link(&watch->api, watch->device[gpu], at, &link);
        look->nvlinks += link.state == MUSTER_NVLINK_ACTIVE;
        look->nvlink_recoveries += (int64_t)link.recoveries;
        look->nvlink_errors += (int64_t)link.corrected;
    }
}

void muster_gpu_watch_look(struct muster_gpu_watch *watch, int gpu, struct muster_gpu_look *look)
{
    struct muster_nvml_gpu now = muster_nvml_unknown();
    void *device = watch->device[gpu];
    int replays;
    muster_nvml_state(&watch->api, device, &now);
    *look = (struct muster_gpu_look){
        .limits = now.limits,
        .power_mw = now.power_mw,
        .power_limit_mw = now.power_limit_mw,
        .ecc_corrected = now.ecc_corrected,
        .ecc_uncorrected = now.ecc_uncorrected,
        .pcie_replays = GOT(replays, device, &replays) ? replays : -1,
        .nvlink_recoveries = -1,
        .nvlink_errors = -1,
        .sm_mhz = now.sm_mhz,
        .sm_max_mhz = now.sm_max_mhz,
        .utilization = now.utilization,
        .temperature = now.temperature,
        .others = others_on(watch, device),
        .nvlinks = -1,
    };
    look_at_links(watch, gpu, look);
}

/* Events of all GPUs come through one set. */
static void take_events(struct muster_gpu_watch *watch)
{
    struct nvml_event event = {.type = 0};
    for (int n = 0; n < XIDS && watch->events && GOT(set_wait, watch->events, &event, 0); n++)
        for (int i = 0; i < watch->gpus; i++)
            if (event.type == EVENT_XID && watch->device[i] == event.device)
                watch->xid[i] = (unsigned)event.data;
}

unsigned muster_gpu_watch_xid(struct muster_gpu_watch *watch, int gpu)
{
    take_events(watch);
    unsigned xid = watch->xid[gpu];
    watch->xid[gpu] = 0;
    return xid;
}
