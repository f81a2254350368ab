/* NVML's entry points, as far as anything here calls them, over what the file says. Layouts are
 * NVML's own (its reference manual). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake_nvml.h"

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10 };

struct pci {
    char legacy[16];
    unsigned domain, bus, device, ids, subsystem;
    char bus_id[32];
};
struct field {
    unsigned id, scope;
    long long timestamp, latency;
    int type, result;
    unsigned long long value;
};
struct fabric {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
};
struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};
struct event {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};
struct memory {
    unsigned long long total, free, used;
};
struct utilization {
    unsigned gpu, memory;
};

static char handles[FAKE_GPUS];
static unsigned reported[FAKE_GPUS]; /* changes of the file whose Xid was told */

/* NULL: no handle of ours. */
static const struct fake_gpu *gpu_of(const void *device)
{
    const struct fake_nvml *nvml = fake_nvml();
    for (int i = 0; i < nvml->gpus; i++)
        if (device == &handles[i])
            return &nvml->gpu[i];
    return NULL;
}

/* What the file has the call do: never return, fail, or go on with 0. */
static int fault(const char *function, const struct fake_gpu *gpu)
{
    const struct fake_nvml *nvml = fake_nvml();
    for (unsigned i = 0; i < nvml->faults; i++) {
        const struct fake_fault *is = &nvml->fault[i];
        if (strcmp(is->function, function) != 0 ||
            (is->gpu != FAKE_ALL && (!gpu || is->gpu != gpu->index)))
            continue;
        while (is->hang)
            pause();
        usleep(is->ms * 1000);
        return is->code;
    }
    return OK;
}

/* A call about a GPU that writes one value. */
#define GETTER(function, type, expression)                                                         \
    int function(void *device, type *value);                                                       \
    EXPORT int function(void *device, type *value)                                                 \
    {                                                                                              \
        const struct fake_gpu *gpu = gpu_of(device);                                               \
        int code = fault(#function, gpu);                                                          \
        if (code || !gpu)                                                                          \
            return code ? code : INVALID;                                                          \
        *value = (type)(expression);                                                               \
        return OK;                                                                                 \
    }

GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, gpu->generation)
GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, gpu->max_generation)
GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, gpu->width)
GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, gpu->max_width)
GETTER(nvmlDeviceGetPcieReplayCounter, unsigned, gpu->replays)
GETTER(nvmlDeviceGetVirtualizationMode, int, gpu->virtualization)
GETTER(nvmlDeviceGetPersistenceMode, int, gpu->persistence)
GETTER(nvmlDeviceGetComputeMode, int, gpu->compute_mode)
GETTER(nvmlDeviceGetPowerUsage, unsigned, gpu->power)
GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned, gpu->power_limit)
GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, gpu->limits)
GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, gpu->limits)

/* A call about a GPU whose body follows; `gpu` is it. */
#define CALL(function, ...)                                                                        \
    static int do_##function(const struct fake_gpu *gpu, __VA_ARGS__);                             \
    int function(void *device, __VA_ARGS__);
#define ENTER(function, ...)                                                                       \
    const struct fake_gpu *gpu = gpu_of(device);                                                   \
    int code = fault(#function, gpu);                                                              \
    return code ? code : !gpu ? INVALID : do_##function(gpu, __VA_ARGS__)

CALL(nvmlDeviceGetName, char *text, unsigned size)
EXPORT int nvmlDeviceGetName(void *device, char *text, unsigned size)
{
    ENTER(nvmlDeviceGetName, text, size);
}
static int do_nvmlDeviceGetName(const struct fake_gpu *gpu, char *text, unsigned size)
{
    return (unsigned)snprintf(text, size, "%s", gpu->name) < size ? OK : TOO_SMALL;
}

CALL(nvmlDeviceGetUUID, char *text, unsigned size)
EXPORT int nvmlDeviceGetUUID(void *device, char *text, unsigned size)
{
    ENTER(nvmlDeviceGetUUID, text, size);
}
static int do_nvmlDeviceGetUUID(const struct fake_gpu *gpu, char *text, unsigned size)
{
    return (unsigned)snprintf(text, size, "%s", gpu->uuid) < size ? OK : TOO_SMALL;
}

static int fill_pci(const struct fake_gpu *gpu, struct pci *pci)
{
    *pci = (struct pci){.domain = gpu->domain, .bus = gpu->bus, .device = gpu->device};
    snprintf(pci->legacy, sizeof pci->legacy, "%04x:%02x:%02x.0", gpu->domain & 0xffff,
             gpu->bus & 0xff, gpu->device & 0x1f);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", gpu->domain, gpu->bus,
             gpu->device);
    return OK;
}

CALL(nvmlDeviceGetPciInfo_v3, struct pci *pci)
EXPORT int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci)
{
    ENTER(nvmlDeviceGetPciInfo_v3, pci);
}
static int do_nvmlDeviceGetPciInfo_v3(const struct fake_gpu *gpu, struct pci *pci)
{
    return fill_pci(gpu, pci);
}

CALL(nvmlDeviceGetCudaComputeCapability, int *major, int *minor)
EXPORT int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor)
{
    ENTER(nvmlDeviceGetCudaComputeCapability, major, minor);
}
static int do_nvmlDeviceGetCudaComputeCapability(const struct fake_gpu *gpu, int *major, int *minor)
{
    *major = (int)gpu->capability[0];
    *minor = (int)gpu->capability[1];
    return OK;
}

/* A link that the GPU has; NULL: none. */
static const struct fake_link *link_of(const struct fake_gpu *gpu, unsigned link)
{
    bool there = link < FAKE_LINKS && gpu->link[link].state != FAKE_LINK_ABSENT;
    return there ? &gpu->link[link] : NULL;
}

CALL(nvmlDeviceGetNvLinkState, unsigned link, int *active)
EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active)
{
    ENTER(nvmlDeviceGetNvLinkState, link, active);
}
static int do_nvmlDeviceGetNvLinkState(const struct fake_gpu *gpu, unsigned link, int *active)
{
    const struct fake_link *is = link_of(gpu, link);
    if (!is)
        return link < FAKE_LINKS ? NOT_SUPPORTED : INVALID;
    *active = is->state == FAKE_LINK_UP;
    return OK;
}

CALL(nvmlDeviceGetNvLinkVersion, unsigned link, unsigned *version)
EXPORT int nvmlDeviceGetNvLinkVersion(void *device, unsigned link, unsigned *version)
{
    ENTER(nvmlDeviceGetNvLinkVersion, link, version);
}
static int do_nvmlDeviceGetNvLinkVersion(const struct fake_gpu *gpu, unsigned link,
                                         unsigned *version)
{
    if (!link_of(gpu, link))
        return NOT_SUPPORTED;
    *version = (unsigned)gpu->link_version;
    return OK;
}

CALL(nvmlDeviceGetNvLinkRemotePciInfo_v2, unsigned link, struct pci *pci)
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, struct pci *pci)
{
    ENTER(nvmlDeviceGetNvLinkRemotePciInfo_v2, link, pci);
}
static int do_nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct fake_gpu *gpu, unsigned link,
                                                  struct pci *pci)
{
    const struct fake_nvml *nvml = fake_nvml();
    const struct fake_link *is = link_of(gpu, link);
    if (!is)
        return NOT_SUPPORTED;
    if (is->to >= 0 && is->to < nvml->gpus)
        return fill_pci(&nvml->gpu[is->to], pci);
    *pci = (struct pci){.domain = 0, .bus = 0xf0, .bus_id = "00000000:F0:00.0"};
    return OK;
}

CALL(nvmlDeviceGetNvLinkRemoteDeviceType, unsigned link, int *type)
EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type)
{
    ENTER(nvmlDeviceGetNvLinkRemoteDeviceType, link, type);
}
static int do_nvmlDeviceGetNvLinkRemoteDeviceType(const struct fake_gpu *gpu, unsigned link,
                                                  int *type)
{
    enum { A_GPU = 0, A_SWITCH = 2 };
    const struct fake_link *is = link_of(gpu, link);
    if (!is)
        return NOT_SUPPORTED;
    *type = is->to >= 0 ? A_GPU : A_SWITCH;
    return OK;
}

CALL(nvmlDeviceGetNvLinkErrorCounter, unsigned link, int counter, unsigned long long *value)
EXPORT int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned link, int counter,
                                           unsigned long long *value)
{
    ENTER(nvmlDeviceGetNvLinkErrorCounter, link, counter, value);
}
static int do_nvmlDeviceGetNvLinkErrorCounter(const struct fake_gpu *gpu, unsigned link,
                                              int counter, unsigned long long *value)
{
    const struct fake_link *is = link_of(gpu, link);
    if (!is || counter < 0 || counter >= FAKE_COUNTERS)
        return NOT_SUPPORTED;
    *value = is->errors[counter];
    return OK;
}

CALL(nvmlDeviceGetFieldValues, int n, struct field *field)
EXPORT int nvmlDeviceGetFieldValues(void *device, int n, struct field *field)
{
    ENTER(nvmlDeviceGetFieldValues, n, field);
}
static int do_nvmlDeviceGetFieldValues(const struct fake_gpu *gpu, int n, struct field *field)
{
    enum { SPEED_COMMON = 90, SPEED = 164, UNSIGNED_INT = 1 };
    for (int i = 0; i < n; i++) {
        bool known = field[i].id == SPEED_COMMON || field[i].id == SPEED;
        field[i].result = known ? OK : NOT_SUPPORTED;
        field[i].type = UNSIGNED_INT;
        field[i].value = known ? (unsigned long long)gpu->link_mbps : 0;
    }
    return OK;
}

CALL(nvmlDeviceGetMigMode, unsigned *current, unsigned *pending)
EXPORT int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending)
{
    ENTER(nvmlDeviceGetMigMode, current, pending);
}
static int do_nvmlDeviceGetMigMode(const struct fake_gpu *gpu, unsigned *current, unsigned *pending)
{
    *current = *pending = (unsigned)gpu->mig;
    return OK;
}

CALL(nvmlDeviceGetUtilizationRates, struct utilization *rates)
EXPORT int nvmlDeviceGetUtilizationRates(void *device, struct utilization *rates)
{
    ENTER(nvmlDeviceGetUtilizationRates, rates);
}
static int do_nvmlDeviceGetUtilizationRates(const struct fake_gpu *gpu, struct utilization *rates)
{
    *rates = (struct utilization){.gpu = (unsigned)gpu->utilization};
    return OK;
}

CALL(nvmlDeviceGetTemperature, int sensor, unsigned *celsius)
EXPORT int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    ENTER(nvmlDeviceGetTemperature, sensor, celsius);
}
static int do_nvmlDeviceGetTemperature(const struct fake_gpu *gpu, int sensor, unsigned *celsius)
{
    *celsius = (unsigned)gpu->temperature;
    return sensor == 0 ? OK : INVALID;
}

CALL(nvmlDeviceGetClockInfo, int type, unsigned *mhz)
EXPORT int nvmlDeviceGetClockInfo(void *device, int type, unsigned *mhz)
{
    ENTER(nvmlDeviceGetClockInfo, type, mhz);
}
static int do_nvmlDeviceGetClockInfo(const struct fake_gpu *gpu, int type, unsigned *mhz)
{
    (void)type;
    *mhz = (unsigned)gpu->clock;
    return OK;
}

CALL(nvmlDeviceGetMaxClockInfo, int type, unsigned *mhz)
EXPORT int nvmlDeviceGetMaxClockInfo(void *device, int type, unsigned *mhz)
{
    ENTER(nvmlDeviceGetMaxClockInfo, type, mhz);
}
static int do_nvmlDeviceGetMaxClockInfo(const struct fake_gpu *gpu, int type, unsigned *mhz)
{
    (void)type;
    *mhz = (unsigned)gpu->max_clock;
    return OK;
}

CALL(nvmlDeviceGetTotalEccErrors, int type, int counter, unsigned long long *value)
EXPORT int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter,
                                       unsigned long long *value)
{
    ENTER(nvmlDeviceGetTotalEccErrors, type, counter, value);
}
static int do_nvmlDeviceGetTotalEccErrors(const struct fake_gpu *gpu, int type, int counter,
                                          unsigned long long *value)
{
    (void)counter;
    *value = type ? gpu->ecc_uncorrected : gpu->ecc_corrected;
    return OK;
}

CALL(nvmlDeviceGetRemappedRows, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
     unsigned *failed)
EXPORT int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected,
                                     unsigned *pending, unsigned *failed)
{
    ENTER(nvmlDeviceGetRemappedRows, corrected, uncorrected, pending, failed);
}
static int do_nvmlDeviceGetRemappedRows(const struct fake_gpu *gpu, unsigned *corrected,
                                        unsigned *uncorrected, unsigned *pending, unsigned *failed)
{
    *corrected = *uncorrected = 0;
    *pending = (unsigned)gpu->remap_pending;
    *failed = (unsigned)gpu->remap_failed;
    return OK;
}

CALL(nvmlDeviceGetComputeRunningProcesses_v3, unsigned *n, struct process *processes)
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n,
                                                   struct process *processes)
{
    ENTER(nvmlDeviceGetComputeRunningProcesses_v3, n, processes);
}
static int do_nvmlDeviceGetComputeRunningProcesses_v3(const struct fake_gpu *gpu, unsigned *n,
                                                      struct process *processes)
{
    bool fits = *n >= gpu->processes && (processes || gpu->processes == 0);
    *n = gpu->processes;
    for (unsigned i = 0; fits && i < gpu->processes; i++)
        processes[i] = (struct process){.pid = gpu->process[i].pid, .bytes = gpu->process[i].bytes};
    return fits ? OK : TOO_SMALL;
}

CALL(nvmlDeviceGetMemoryInfo, struct memory *memory)
EXPORT int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
    ENTER(nvmlDeviceGetMemoryInfo, memory);
}
static int do_nvmlDeviceGetMemoryInfo(const struct fake_gpu *gpu, struct memory *memory)
{
    *memory = (struct memory){
        .total = gpu->memory[0], .free = gpu->memory[0] - gpu->memory[1], .used = gpu->memory[1]};
    return OK;
}

CALL(nvmlDeviceGetGpuFabricInfo, struct fabric *fabric)
EXPORT int nvmlDeviceGetGpuFabricInfo(void *device, struct fabric *fabric)
{
    ENTER(nvmlDeviceGetGpuFabricInfo, fabric);
}
static int do_nvmlDeviceGetGpuFabricInfo(const struct fake_gpu *gpu, struct fabric *fabric)
{
    *fabric = (struct fabric){.cluster = {(unsigned char)gpu->fabric[2]},
                              .state = (unsigned char)gpu->fabric[0],
                              .status = (int)gpu->fabric[1]};
    return OK;
}

/* ---- Pairs of GPUs ---- */

int nvmlDeviceGetP2PStatus(void *device, void *other, int index, int *status);
EXPORT int nvmlDeviceGetP2PStatus(void *device, void *other, int index, int *status)
{
    const struct fake_gpu *a = gpu_of(device), *b = gpu_of(other);
    int code = fault("nvmlDeviceGetP2PStatus", a);
    (void)index;
    if (code || !a || !b)
        return code ? code : INVALID;
    *status = fake_nvml()->p2p[a->index][b->index];
    return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, int *level);
EXPORT int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, int *level)
{
    const struct fake_gpu *a = gpu_of(device), *b = gpu_of(other);
    int code = fault("nvmlDeviceGetTopologyCommonAncestor", a);
    if (code || !a || !b)
        return code ? code : INVALID;
    *level = fake_nvml()->ancestor[a->index][b->index];
    return OK;
}

/* ---- The library ---- */

int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void)
{
    return fault("nvmlInit_v2", NULL);
}

int nvmlShutdown(void);
EXPORT int nvmlShutdown(void)
{
    return fault("nvmlShutdown", NULL);
}

const char *nvmlErrorString(int code);
EXPORT const char *nvmlErrorString(int code)
{
    static const char *const text[] = {
        [OK] = "Success",
        [INVALID] = "Invalid Argument",
        [NOT_SUPPORTED] = "Not Supported",
        [4] = "Insufficient Permissions",
        [NOT_FOUND] = "Not Found",
        [9] = "Driver Not Loaded",
        [TIMEOUT] = "Timeout",
        [13] = "Function Not Found",
        [15] = "GPU is lost",
        [18] = "Driver/library version mismatch",
    };
    bool known = code >= 0 && (size_t)code < sizeof text / sizeof *text && text[code];
    return known ? text[code] : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned size);
EXPORT int nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    int code = fault("nvmlSystemGetDriverVersion", NULL);
    if (!code)
        snprintf(text, size, "%s", fake_nvml()->driver);
    return code;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version);
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    int code = fault("nvmlSystemGetCudaDriverVersion_v2", NULL);
    if (!code)
        *version = (int)fake_nvml()->cuda;
    return code;
}

int nvmlDeviceGetCount_v2(unsigned *n);
EXPORT int nvmlDeviceGetCount_v2(unsigned *n)
{
    int code = fault("nvmlDeviceGetCount_v2", NULL);
    if (!code)
        *n = (unsigned)fake_nvml()->gpus;
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    const struct fake_nvml *nvml = fake_nvml();
    if (index >= (unsigned)nvml->gpus)
        return INVALID;
    *device = &handles[index];
    return fault("nvmlDeviceGetHandleByIndex_v2", &nvml->gpu[index]);
}

/* ---- Events ---- */

int nvmlEventSetCreate(void **set);
EXPORT int nvmlEventSetCreate(void **set)
{
    static bool registered[FAKE_GPUS];
    *set = registered;
    return fault("nvmlEventSetCreate", NULL);
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set);
EXPORT int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)
{
    const struct fake_gpu *gpu = gpu_of(device);
    int code = fault("nvmlDeviceRegisterEvents", gpu);
    (void)types;
    if (code || !gpu)
        return code ? code : INVALID;
    ((bool *)set)[gpu->index] = true;
    return OK;
}

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned ms);
EXPORT int nvmlEventSetWait_v2(void *set, struct event *event, unsigned ms)
{
    enum { XID = 8 };
    const struct fake_nvml *nvml = fake_nvml();
    int code = fault("nvmlEventSetWait_v2", NULL);
    (void)ms;
    for (int i = 0; i < nvml->gpus && !code; i++) {
        if (!((const bool *)set)[i] || !nvml->gpu[i].xid || reported[i] == nvml->changes)
            continue;
        reported[i] = nvml->changes;
        *event = (struct event){.device = &handles[i], .type = XID, .data = nvml->gpu[i].xid};
        return OK;
    }
    return code ? code : TIMEOUT;
}

int nvmlEventSetFree(void *set);
EXPORT int nvmlEventSetFree(void *set)
{
    memset(set, 0, FAKE_GPUS);
    return fault("nvmlEventSetFree", NULL);
}
