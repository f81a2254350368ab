#include "topology/nvml/gpu_watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "topology/nvml/nvml_api.h"

enum { PROCESSES = 64, XIDS = 16, EVENT_XID = 8, LINKS_EVERY = 6 };

struct muster_gpu_watch {
    struct muster_nvml_api api;
    int gpus;
    void *device[MUSTER_MACHINE_GPUS];
    struct muster_pci pci[MUSTER_MACHINE_GPUS];
    uint32_t links[MUSTER_MACHINE_GPUS]; /* a bit for each that is there */
    unsigned xid[MUSTER_MACHINE_GPUS];   /* 0: none to report */
    struct links {
        int active;
        int64_t recoveries, errors;
    } seen[MUSTER_MACHINE_GPUS]; /* active -1: not looked yet */
    unsigned looks[MUSTER_MACHINE_GPUS];
    void *events; /* NULL: this driver reports none */
};

#define GOT(function, ...) NVML_GOT(&watch->api, function, __VA_ARGS__)

/* Links to GPUs are each to be asked for their end; if the first goes to a switch, all do. */
static void read_links(const struct muster_gpu_watch *watch, int at, struct muster_nvml_gpu *gpu)
{
    bool switched = false;
    for (unsigned i = 0; i < MUSTER_NVML_LINKS; i++) {
        struct muster_nvml_link *link = &gpu->link[i];
        int active;
        if (!GOT(link_state, watch->device[at], i, &active))
            continue;
        link->state = active ? MUSTER_NVLINK_ACTIVE : MUSTER_NVLINK_INACTIVE;
        if (active && !switched)
            muster_nvml_link_end(&watch->api, watch->device[at], i, link);
        else if (active)
            link->remote = MUSTER_NVLINK_TO_SWITCH;
        switched |= link->remote == MUSTER_NVLINK_TO_SWITCH;
    }
    if (gpu->link[0].state != MUSTER_NVLINK_ABSENT)
        muster_nvml_speed(&watch->api, watch->device[at], gpu);
}

static void read_gpu(const struct muster_gpu_watch *watch, int at, struct muster_nvml_gpu *gpu)
{
    struct nvml_utilization utilization;
    struct nvml_pci pci = {.domain = 0};
    char text[96] = "";
    *gpu = muster_nvml_unknown();
    if (!watch->device[at] || !GOT(pci, watch->device[at], &pci))
        return;
    gpu->pci = muster_nvml_pci(&pci);
    if (GOT(name, watch->device[at], text, sizeof text - 1))
        muster_text_copy(gpu->name, sizeof gpu->name, text);
    if (GOT(utilization, watch->device[at], &utilization))
        gpu->utilization = (int)utilization.gpu;
    read_links(watch, at, gpu);
}

int muster_gpu_watch_read(struct muster_gpu_watch *watch, struct muster_nvml *nvml)
{
    memset(nvml, 0, sizeof *nvml);
    if (!GOT(driver_version, nvml->driver, sizeof nvml->driver))
        nvml->driver[0] = '\0';
    nvml->driver[sizeof nvml->driver - 1] = '\0';
    nvml->gpus = watch->gpus;
    for (int i = 0; i < watch->gpus; i++) {
        read_gpu(watch, i, &nvml->gpu[i]);
        watch->pci[i] = nvml->gpu[i].pci;
        for (unsigned at = 0; at < MUSTER_NVML_LINKS; at++)
            if (nvml->gpu[i].link[at].state != MUSTER_NVLINK_ABSENT)
                watch->links[i] |= 1u << at;
    }
    return 0;
}

static int open_devices(struct muster_gpu_watch *watch, struct muster_err *err)
{
    unsigned n = 0;
    int rc = watch->api.count(&n);
    if (rc)
        return muster_fail(err, "NVML cannot count GPUs: %s", muster_nvml_error(&watch->api, rc));
    watch->gpus = n < MUSTER_MACHINE_GPUS ? (int)n : MUSTER_MACHINE_GPUS;
    for (int i = 0; i < watch->gpus; i++)
        if (!GOT(handle, (unsigned)i, &watch->device[i]))
            watch->device[i] = NULL;
    if (!GOT(set_create, &watch->events))
        watch->events = NULL;
    return 0;
}

int muster_gpu_watch_open(struct muster_gpu_watch **watch, struct muster_nvml *nvml,
                          struct muster_err *err)
{
    struct muster_gpu_watch *made = calloc(1, sizeof *made);
    if (!made)
        return muster_fail_memory(err, "looking at GPUs");
    if (muster_nvml_api_open(&made->api, err) || open_devices(made, err)) {
        free(made);
        return -1;
    }
    for (int i = 0; i < made->gpus; i++)
        made->seen[i] = (struct links){.active = -1, .recoveries = -1, .errors = -1};
    muster_gpu_watch_read(made, nvml);
    *watch = made;
    return 0;
}

void muster_gpu_watch_own(struct muster_gpu_watch *watch, int gpu, struct muster_nvml *nvml)
{
    enum { WRITE = 1 };
    unsigned current, pending;
    if (GOT(mig, watch->device[gpu], &current, &pending))
        nvml->gpu[gpu].mig = current != 0;
    muster_nvml_pcie(&watch->api, watch->device[gpu], &nvml->gpu[gpu]);
    for (int i = 0; i < watch->gpus; i++) {
        int status;
        if (i != gpu && watch->device[i] &&
            GOT(p2p, watch->device[gpu], watch->device[i], WRITE, &status))
            nvml->p2p[gpu][i] = muster_nvml_p2p(status);
    }
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

/* All or nothing: a driver that does not report a link now is no evidence against the link. */
static void scan_links(const struct muster_gpu_watch *watch, int gpu, struct links *seen)
{
    void *device = watch->device[gpu];
    struct links links = {.active = 0};
    for (unsigned at = 0; at < MUSTER_NVML_LINKS; at++) {
        int active;
        if (!(watch->links[gpu] & 1u << at))
            continue;
        if (!GOT(link_state, device, at, &active))
            return;
        if (!active)
            continue;
        struct muster_nvml_link link = {.state = MUSTER_NVLINK_ACTIVE};
        muster_nvml_link_errors(&watch->api, device, at, &link);
        links.active++;
        links.recoveries += (int64_t)link.recoveries;
        links.errors += (int64_t)link.corrected;
    }
    *seen = links;
}

void muster_gpu_watch_poll(struct muster_gpu_watch *watch, int gpu, struct muster_gpu_reading *look)
{
    struct muster_nvml_gpu now = muster_nvml_unknown();
    void *device = watch->device[gpu];
    int replays;
    muster_nvml_state(&watch->api, device, &now);
    *look = (struct muster_gpu_reading){
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
    if (watch->links[gpu] == 0)
        return;
    if (watch->looks[gpu]++ % LINKS_EVERY == 0)
        scan_links(watch, gpu, &watch->seen[gpu]);
    look->nvlinks = watch->seen[gpu].active;
    look->nvlink_recoveries = watch->seen[gpu].recoveries;
    look->nvlink_errors = watch->seen[gpu].errors;
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
