#include "topology/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
    NVML_SUCCESS = 0,
    NVML_INSUFFICIENT_SIZE = 7,
    FIELD_NVLINK_SPEED_COMMON = 90, /* MB/s */
    FIELD_NVLINK_SPEED = 164,       /* MB/s of the link that the scope names */
    ABSENT = -1,                    /* the library has no such function */
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

typedef int (*get_int)(void *device, int *value);
typedef int (*get_text)(void *device, char *text, unsigned size);

struct api {
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
    get_int generation, max_generation, width, max_width, replays, virtualization;
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
    int (*processes)(void *device, unsigned *n, void *infos);
    int (*memory)(void *device, struct nvml_memory *memory);
    int (*fabric)(void *device, struct nvml_fabric *fabric);
    int (*p2p)(void *a, void *b, int index, int *status);
    int (*ancestor)(void *a, void *b, int *level);
};

#define SYMBOL(name, member)                                                                       \
    {                                                                                              \
        name, offsetof(struct api, member)                                                         \
    }
static const struct {
    const char *name;
    size_t offset;
} symbols[] = {
    SYMBOL("nvmlInit_v2", init), /* this and the next three must be there */
    SYMBOL("nvmlShutdown", shutdown),
    SYMBOL("nvmlDeviceGetCount_v2", count),
    SYMBOL("nvmlDeviceGetHandleByIndex_v2", handle),
    SYMBOL("nvmlErrorString", error_text),
    SYMBOL("nvmlSystemGetDriverVersion", driver_version),
    SYMBOL("nvmlSystemGetCudaDriverVersion_v2", cuda_version),
    SYMBOL("nvmlDeviceGetName", name),
    SYMBOL("nvmlDeviceGetUUID", uuid),
    SYMBOL("nvmlDeviceGetPciInfo_v3", pci),
    SYMBOL("nvmlDeviceGetCudaComputeCapability", capability),
    SYMBOL("nvmlDeviceGetCurrPcieLinkGeneration", generation),
    SYMBOL("nvmlDeviceGetMaxPcieLinkGeneration", max_generation),
    SYMBOL("nvmlDeviceGetCurrPcieLinkWidth", width),
    SYMBOL("nvmlDeviceGetMaxPcieLinkWidth", max_width),
    SYMBOL("nvmlDeviceGetPcieReplayCounter", replays),
    SYMBOL("nvmlDeviceGetVirtualizationMode", virtualization),
    SYMBOL("nvmlDeviceGetNvLinkState", link_state),
    SYMBOL("nvmlDeviceGetNvLinkVersion", link_version),
    SYMBOL("nvmlDeviceGetNvLinkRemotePciInfo_v2", link_remote),
    SYMBOL("nvmlDeviceGetNvLinkRemoteDeviceType", link_remote_type),
    SYMBOL("nvmlDeviceGetNvLinkErrorCounter", link_errors),
    SYMBOL("nvmlDeviceGetFieldValues", fields),
    SYMBOL("nvmlDeviceGetMigMode", mig),
    SYMBOL("nvmlDeviceGetUtilizationRates", utilization),
    SYMBOL("nvmlDeviceGetTemperature", temperature),
    SYMBOL("nvmlDeviceGetClockInfo", clock),
    SYMBOL("nvmlDeviceGetMaxClockInfo", max_clock),
    SYMBOL("nvmlDeviceGetPowerUsage", power),
    SYMBOL("nvmlDeviceGetEnforcedPowerLimit", power_limit),
    SYMBOL("nvmlDeviceGetCurrentClocksThrottleReasons", limits),
    SYMBOL("nvmlDeviceGetTotalEccErrors", ecc),
    SYMBOL("nvmlDeviceGetRemappedRows", remapped),
    SYMBOL("nvmlDeviceGetComputeRunningProcesses_v3", processes),
    SYMBOL("nvmlDeviceGetMemoryInfo", memory),
    SYMBOL("nvmlDeviceGetGpuFabricInfo", fabric),
    SYMBOL("nvmlDeviceGetP2PStatus", p2p),
    SYMBOL("nvmlDeviceGetTopologyCommonAncestor", ancestor),
};

enum { NEEDED = 4 };

static int open_library(struct api *api, struct muster_err *err)
{
    static const char name[] = "libnvidia-ml.so.1";
    memset(api, 0, sizeof *api);
    api->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!api->library)
        return muster_fail(err, "no NVML: %s", dlerror());
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(api->library, symbols[i].name);
        if (!found && i < NEEDED)
            return muster_fail(err, "%s has no %s", name, symbols[i].name);
        memcpy((char *)api + symbols[i].offset, &found, sizeof found);
    }
    return 0;
}

/* Whether a call gave a value; one that the library lacks did not. */
#define GOT(function, ...) (api->function && api->function(__VA_ARGS__) == NVML_SUCCESS)

static int whole(const struct api *api, get_int get, void *device, int otherwise)
{
    int value;
    (void)api;
    return get && get(device, &value) == NVML_SUCCESS ? value : otherwise;
}

static struct muster_pci from_nvml(const struct nvml_pci *pci)
{
    struct muster_pci out = {
        .domain = pci->domain, .bus = (uint8_t)pci->bus, .device = (uint8_t)(pci->device & 31)};
    return out;
}

static void read_link(const struct api *api, void *device, unsigned at,
                      struct muster_nvml_link *link)
{
    enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2, RECOVERY = 1, COUNTERS = 4 };
    struct nvml_pci pci = {0};
    unsigned version;
    int active = 0, type = -1;
    if (!GOT(link_state, device, at, &active))
        return;
    link->state = active ? MUSTER_NVLINK_ACTIVE : MUSTER_NVLINK_INACTIVE;
    if (GOT(link_version, device, at, &version))
        link->version = (uint8_t)version;
    if (!active)
        return;
    if (GOT(link_remote, device, at, &pci))
        link->to = from_nvml(&pci);
    if (GOT(link_remote_type, device, at, &type) && type == REMOTE_GPU)
        link->remote = MUSTER_NVLINK_TO_GPU;
    if (type == REMOTE_SWITCH)
        link->remote = MUSTER_NVLINK_TO_SWITCH;
    for (int counter = 0; counter < COUNTERS; counter++) {
        unsigned long long value;
        if (!GOT(link_errors, device, at, counter, &value) || value >= UINT32_MAX)
            continue;
        if (counter == RECOVERY)
            link->recoveries += value;
        else
            link->corrected += value;
    }
}

static uint32_t read_speed(const struct api *api, void *device, unsigned id, unsigned scope)
{
    struct nvml_field field = {.id = id, .scope = scope};
    bool ok = GOT(fields, device, 1, &field) && field.result == NVML_SUCCESS;
    return ok && field.value.u32 < 1000000 ? field.value.u32 : 0;
}

static void read_links(const struct api *api, void *device, struct muster_nvml_gpu *gpu)
{
    for (unsigned i = 0; i < MUSTER_NVML_LINKS; i++)
        read_link(api, device, i, &gpu->link[i]);
    gpu->link_mbps = read_speed(api, device, FIELD_NVLINK_SPEED_COMMON, 0);
    for (unsigned i = 0; i < MUSTER_NVML_LINKS && gpu->link_mbps == 0; i++)
        if (gpu->link[i].state == MUSTER_NVLINK_ACTIVE)
            gpu->link_mbps = read_speed(api, device, FIELD_NVLINK_SPEED, i);
}

static void read_state(const struct api *api, void *device, struct muster_nvml_gpu *gpu)
{
    enum { CLOCK_SM = 1, VOLATILE = 0, CORRECTED = 0, UNCORRECTED = 1 };
    struct nvml_utilization utilization;
    unsigned a, b, pending, failed;
    unsigned long long value;
    if (GOT(mig, device, &a, &b))
        gpu->mig = a != 0;
    if (GOT(utilization, device, &utilization))
        gpu->utilization = (int)utilization.gpu;
    if (GOT(temperature, device, 0, &a))
        gpu->temperature = (int)a;
    if (GOT(clock, device, CLOCK_SM, &a))
        gpu->sm_mhz = (int)a;
    if (GOT(max_clock, device, CLOCK_SM, &a))
        gpu->sm_max_mhz = (int)a;
    if (GOT(power, device, &a))
        gpu->power_mw = a;
    if (GOT(power_limit, device, &a))
        gpu->power_limit_mw = a;
    if (GOT(limits, device, &value))
        gpu->limits = (int64_t)value;
    if (GOT(ecc, device, UNCORRECTED, VOLATILE, &value))
        gpu->ecc_uncorrected = (int64_t)value;
    if (GOT(ecc, device, CORRECTED, VOLATILE, &value))
        gpu->ecc_corrected = (int64_t)value;
    if (GOT(remapped, device, &a, &b, &pending, &failed)) {
        gpu->remap_pending = (int)pending;
        gpu->remap_failed = (int)failed;
    }
}

static void read_use(const struct api *api, void *device, struct muster_nvml_gpu *gpu)
{
    struct nvml_memory memory;
    struct nvml_fabric fabric = {0};
    unsigned n = 0;
    int rc = api->processes ? api->processes(device, &n, NULL) : ABSENT;
    if (rc == NVML_SUCCESS || rc == NVML_INSUFFICIENT_SIZE)
        gpu->processes = (int)n;
    if (GOT(memory, device, &memory)) {
        gpu->memory_total = memory.total;
        gpu->memory_used = memory.used;
    }
    if (GOT(fabric, device, &fabric)) {
        gpu->fabric_state = fabric.state;
        gpu->fabric_status = fabric.status;
    }
}

static void read_gpu(const struct api *api, void *device, struct muster_nvml_gpu *gpu)
{
    struct nvml_pci pci = {0};
    *gpu = (struct muster_nvml_gpu){.pcie_replays = -1,
                                    .mig = -1,
                                    .utilization = -1,
                                    .temperature = -1,
                                    .sm_mhz = -1,
                                    .sm_max_mhz = -1,
                                    .power_mw = -1,
                                    .power_limit_mw = -1,
                                    .limits = -1,
                                    .ecc_uncorrected = -1,
                                    .ecc_corrected = -1,
                                    .remap_pending = -1,
                                    .remap_failed = -1,
                                    .processes = -1,
                                    .fabric_state = -1};
    char text[96] = "";
    if (GOT(pci, device, &pci))
        gpu->pci = from_nvml(&pci);
    if (GOT(name, device, text, sizeof text))
        muster_text_copy(gpu->name, sizeof gpu->name, text);
    if (GOT(uuid, device, text, sizeof text))
        muster_text_copy(gpu->uuid, sizeof gpu->uuid, text);
    if (!GOT(capability, device, &gpu->major, &gpu->minor))
        gpu->major = gpu->minor = 0;
    gpu->pcie_generation = whole(api, api->generation, device, 0);
    gpu->pcie_max_generation = whole(api, api->max_generation, device, 0);
    gpu->pcie_width = whole(api, api->width, device, 0);
    gpu->pcie_max_width = whole(api, api->max_width, device, 0);
    gpu->pcie_replays = whole(api, api->replays, device, -1);
    gpu->virtualization = whole(api, api->virtualization, device, -1);
    read_links(api, device, gpu);
    read_state(api, device, gpu);
    read_use(api, device, gpu);
}

static uint8_t p2p_word(int status)
{
    return status >= 0 && status <= 6 ? (uint8_t)(status + MUSTER_P2P_OK) : MUSTER_P2P_OTHER;
}

static void read_pairs(const struct api *api, void *const *device, struct muster_nvml *nvml)
{
    enum { WRITE = 1 };
    for (int a = 0; a < nvml->gpus; a++)
        for (int b = 0; b < nvml->gpus; b++) {
            int value;
            if (a == b || !device[a] || !device[b])
                continue;
            if (GOT(p2p, device[a], device[b], WRITE, &value))
                nvml->p2p[a][b] = p2p_word(value);
            if (GOT(ancestor, device[a], device[b], &value) && value >= 0 && value <= 50)
                nvml->ancestor[a][b] = (uint8_t)value;
        }
}

static int read_all(const struct api *api, struct muster_nvml *nvml, struct muster_err *err)
{
    void *device[MUSTER_MACHINE_GPUS] = {NULL};
    unsigned n = 0;
    if (!GOT(driver_version, nvml->driver, sizeof nvml->driver))
        nvml->driver[0] = '\0';
    nvml->driver[sizeof nvml->driver - 1] = '\0';
    if (!GOT(cuda_version, &nvml->cuda))
        nvml->cuda = 0;
    int rc = api->count(&n);
    if (rc)
        return muster_fail(err, "NVML cannot count GPUs: %s",
                           api->error_text ? api->error_text(rc) : "unknown error");
    nvml->gpus = n < MUSTER_MACHINE_GPUS ? (int)n : MUSTER_MACHINE_GPUS;
    for (int i = 0; i < nvml->gpus; i++) {
        if (api->handle((unsigned)i, &device[i])) {
            device[i] = NULL;
            nvml->failures++;
            nvml->gpu[i] = (struct muster_nvml_gpu){.utilization = -1, .limits = -1};
            snprintf(nvml->gpu[i].name, sizeof nvml->gpu[i].name, "GPU %d does not answer", i);
            continue;
        }
        read_gpu(api, device[i], &nvml->gpu[i]);
    }
    read_pairs(api, device, nvml);
    return 0;
}

int muster_nvml_read(struct muster_nvml *nvml, struct muster_err *err)
{
    struct api loaded, *api = &loaded;
    memset(nvml, 0, sizeof *nvml);
    if (open_library(api, err)) {
        if (api->library)
            dlclose(api->library);
        return -1;
    }
    int rc = api->init();
    if (rc) {
        muster_fail(err, "NVML does not start: %s",
                    api->error_text ? api->error_text(rc) : "unknown error");
    } else {
        rc = read_all(api, nvml, err);
        api->shutdown();
    }
    dlclose(api->library);
    return rc ? -1 : 0;
}
