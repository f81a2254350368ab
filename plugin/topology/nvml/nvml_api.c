#include "topology/nvml/nvml_api.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/library.h"

#define SYMBOL(name, member)                                                                       \
    {                                                                                              \
        name, offsetof(struct muster_nvml_api, member)                                             \
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
    SYMBOL("nvmlDeviceGetPersistenceMode", persistence),
    SYMBOL("nvmlDeviceGetComputeMode", compute_mode),
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
    SYMBOL("nvmlEventSetCreate", set_create),
    SYMBOL("nvmlDeviceRegisterEvents", set_register),
    SYMBOL("nvmlEventSetWait_v2", set_wait),
};

enum { NEEDED = 4 };

static int open_library(struct muster_nvml_api *api, struct muster_err *err)
{
    static const char name[] = MUSTER_NVML_LIBRARY;
    memset(api, 0, sizeof *api);
    api->library = muster_library_open(name, RTLD_NOW | RTLD_LOCAL);
    if (!api->library) {
        muster_fail(err, "no NVML: %s", dlerror());
        muster_library_forget();
        return -1;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = dlsym(api->library, symbols[i].name);
        if (!found && i < NEEDED) {
            muster_library_forget();
            return muster_fail(err, "%s has no %s", name, symbols[i].name);
        }
        memcpy((char *)api + symbols[i].offset, &found, sizeof found);
    }
    muster_library_forget(); /* of functions that older drivers lack */
    return 0;
}

const char *muster_nvml_error(const struct muster_nvml_api *api, int code)
{
    const char *text = api->error_text ? api->error_text(code) : NULL;
    return text ? text : "unknown error";
}

int muster_nvml_api_open(struct muster_nvml_api *api, struct muster_err *err)
{
    int rc = open_library(api, err);
    if (rc == 0 && (rc = api->init()) != 0)
        muster_fail(err, "NVML does not start: %s", muster_nvml_error(api, rc));
    if (rc && api->library)
        muster_library_close(api->library);
    return rc ? -1 : 0;
}

void muster_nvml_api_close(struct muster_nvml_api *api)
{
    api->shutdown();
    muster_library_close(api->library);
}

struct muster_pci muster_nvml_pci(const struct nvml_pci *pci)
{
    struct muster_pci out = {
        .domain = pci->domain, .bus = (uint8_t)pci->bus, .device = (uint8_t)(pci->device & 31)};
    return out;
}

void muster_nvml_link_end(const struct muster_nvml_api *api, void *device, unsigned at,
                          struct muster_nvml_link *link)
{
    enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2 };
    struct nvml_pci pci = {.domain = 0};
    unsigned version;
    int type = -1;
    if (NVML_GOT(api, link_version, device, at, &version))
        link->version = (uint8_t)version;
    if (NVML_GOT(api, link_remote, device, at, &pci))
        link->to = muster_nvml_pci(&pci);
    if (NVML_GOT(api, link_remote_type, device, at, &type) && type == REMOTE_GPU)
        link->remote = MUSTER_NVLINK_TO_GPU;
    if (type == REMOTE_SWITCH)
        link->remote = MUSTER_NVLINK_TO_SWITCH;
}

void muster_nvml_link_errors(const struct muster_nvml_api *api, void *device, unsigned at,
                             struct muster_nvml_link *link)
{
    enum { RECOVERY = 1, COUNTERS = 4 };
    for (int counter = 0; counter < COUNTERS; counter++) {
        unsigned long long value;
        if (!NVML_GOT(api, link_errors, device, at, counter, &value) || value >= UINT32_MAX)
            continue;
        if (counter == RECOVERY)
            link->recoveries += value;
        else
            link->corrected += value;
    }
}

void muster_nvml_link(const struct muster_nvml_api *api, void *device, unsigned at,
                      struct muster_nvml_link *link)
{
    int active = 0;
    if (!NVML_GOT(api, link_state, device, at, &active))
        return;
    link->state = active ? MUSTER_NVLINK_ACTIVE : MUSTER_NVLINK_INACTIVE;
    if (!active)
        return;
    muster_nvml_link_end(api, device, at, link);
    muster_nvml_link_errors(api, device, at, link);
}
