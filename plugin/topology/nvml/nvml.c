#include "topology/nvml/nvml.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "topology/nvml/nvml_api.h"

enum {
    FIELD_NVLINK_SPEED_COMMON = 90, /* MB/s */
    FIELD_NVLINK_SPEED = 164,       /* MB/s of the link that the scope names */
};

#define GOT(function, ...) NVML_GOT(api, function, __VA_ARGS__)

static int whole(get_int get, void *device, int otherwise)
{
    int value;
    return get && get(device, &value) == NVML_SUCCESS ? value : otherwise;
}

static uint32_t read_speed(const struct muster_nvml_api *api, void *device, unsigned id,
                           unsigned scope)
{
    struct nvml_field field = {.id = id, .scope = scope};
    bool ok = GOT(fields, device, 1, &field) && field.result == NVML_SUCCESS;
    return ok && field.value.u32 < 1000000 ? field.value.u32 : 0;
}

static void read_links(const struct muster_nvml_api *api, void *device, struct muster_nvml_gpu *gpu)
{
    uint64_t begin_ns = muster_now_ns();
    for (unsigned i = 0; i < MUSTER_NVML_LINKS; i++)
        muster_nvml_link(api, device, i, &gpu->link[i]);
    gpu->links_ms = (uint32_t)((muster_now_ns() - begin_ns) / MUSTER_NS_PER_MS);
    muster_nvml_speed(api, device, gpu);
}

void muster_nvml_speed(const struct muster_nvml_api *api, void *device, struct muster_nvml_gpu *gpu)
{
    gpu->link_mbps = read_speed(api, device, FIELD_NVLINK_SPEED_COMMON, 0);
    for (unsigned i = 0; i < MUSTER_NVML_LINKS && gpu->link_mbps == 0; i++)
        if (gpu->link[i].state == MUSTER_NVLINK_ACTIVE)
            gpu->link_mbps = read_speed(api, device, FIELD_NVLINK_SPEED, i);
}

void muster_nvml_state(const struct muster_nvml_api *api, void *device, struct muster_nvml_gpu *gpu)
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

static void read_use(const struct muster_nvml_api *api, void *device, struct muster_nvml_gpu *gpu)
{
    struct nvml_memory memory;
    struct nvml_fabric fabric = {0};
    unsigned n = 0;
    int rc = api->processes ? api->processes(device, &n, NULL) : NVML_ABSENT;
    if (rc == NVML_SUCCESS || rc == NVML_INSUFFICIENT_SIZE)
        gpu->processes = (int)n;
    if (GOT(memory, device, &memory)) {
        gpu->memory_total = memory.total;
        gpu->memory_used = memory.used;
    }
    if (GOT(fabric, device, &fabric)) {
        gpu->fabric_state = fabric.state;
        gpu->fabric_status = fabric.status;
        for (size_t i = 0; i < sizeof fabric.cluster; i++)
            gpu->fabric_domain |= fabric.cluster[i] != 0;
    }
}

struct muster_nvml_gpu muster_nvml_unknown(void)
{
    return (struct muster_nvml_gpu){.pcie_replays = -1,
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
}

void muster_nvml_pcie(const struct muster_nvml_api *api, void *device, struct muster_nvml_gpu *gpu)
{
    gpu->pcie_generation = whole(api->generation, device, 0);
    gpu->pcie_max_generation = whole(api->max_generation, device, 0);
    gpu->pcie_width = whole(api->width, device, 0);
    gpu->pcie_max_width = whole(api->max_width, device, 0);
}

static void read_gpu(const struct muster_nvml_api *api, void *device, struct muster_nvml_gpu *gpu)
{
    struct nvml_pci pci = {0};
    *gpu = muster_nvml_unknown();
    char text[96] = "";
    if (GOT(pci, device, &pci))
        gpu->pci = muster_nvml_pci(&pci);
    if (GOT(name, device, text, sizeof text - 1))
        muster_text_copy(gpu->name, sizeof gpu->name, text);
    if (GOT(uuid, device, text, sizeof text - 1))
        muster_text_copy(gpu->uuid, sizeof gpu->uuid, text);
    if (!GOT(capability, device, &gpu->major, &gpu->minor))
        gpu->major = gpu->minor = 0;
    muster_nvml_pcie(api, device, gpu);
    gpu->pcie_replays = whole(api->replays, device, -1);
    gpu->virtualization = whole(api->virtualization, device, -1);
    gpu->persistence = whole(api->persistence, device, -1);
    gpu->compute_mode = whole(api->compute_mode, device, -1);
    read_links(api, device, gpu);
    muster_nvml_state(api, device, gpu);
    read_use(api, device, gpu);
}

uint8_t muster_nvml_p2p(int status)
{
    return status >= 0 && status <= 6 ? (uint8_t)(status + MUSTER_P2P_OK) : MUSTER_P2P_OTHER;
}

static void read_pairs(const struct muster_nvml_api *api, void *const *device,
                       struct muster_nvml *nvml)
{
    enum { WRITE = 1 };
    for (int a = 0; a < nvml->gpus; a++)
        for (int b = 0; b < nvml->gpus; b++) {
            int value;
            if (a == b || !device[a] || !device[b])
                continue;
            if (GOT(p2p, device[a], device[b], WRITE, &value))
                nvml->p2p[a][b] = muster_nvml_p2p(value);
            if (GOT(ancestor, device[a], device[b], &value) && value >= 0 && value <= 50)
                nvml->ancestor[a][b] = (uint8_t)value;
        }
}

int muster_nvml_read_all(const struct muster_nvml_api *api, struct muster_nvml *nvml,
                         struct muster_err *err)
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
        return muster_fail(err, "NVML cannot count GPUs: %s", muster_nvml_error(api, rc));
    nvml->gpus = n < MUSTER_MACHINE_GPUS ? (int)n : MUSTER_MACHINE_GPUS;
    for (int i = 0; i < nvml->gpus; i++) {
        if (api->handle((unsigned)i, &device[i])) {
            device[i] = NULL;
            nvml->gpu[i] = muster_nvml_unknown();
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
    struct muster_nvml_api api;
    memset(nvml, 0, sizeof *nvml);
    if (muster_nvml_api_open(&api, err))
        return -1;
    int rc = muster_nvml_read_all(&api, nvml, err);
    muster_nvml_api_close(&api);
    return rc;
}
