#include "cli/known_bad.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    int first, last;
    const char *class_id, *text;
} libraries[] = {
    {20402, 20402, "F68", "2.4.2 hangs at random with the LL protocol: upgrade"},
    {21900, 21999, "F69", "2.19 hangs at init with cuMem or NVLS on some systems: upgrade"},
    {22000, 22004, "F70", "2.20 does not use the smaller MTU of both ends: equal MTUs, or upgrade"},
    {22501, 22501, "F72", "2.25.1 asks for too much shared memory on RTX 50: upgrade to 2.26"},
    {22602, 22602, "F71",
     "2.26.2 hangs in send and receive with NCCL_CUMEM_ENABLE=0, and at init "
     "in PyTorch's non-blocking mode: upgrade"},
    {22400, 22604, "F29",
     "2.24.0 to 2.26.4 need CAP_SYS_NICE in containers for host memory: 2.26.5"},
    {22707, 22707, "F73",
     "2.27.7 gives an unreadable error for a missing interface: see "
     "net.interface"},
    {22800, 22802, "KernelCh",
     "before 2.28.3 kernel events are unsafe: muster records without GPU "
     "times"},
};

const char *muster_known_bad_nccl(int version, const char **class_id)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (version >= libraries[i].first && version <= libraries[i].last) {
            *class_id = libraries[i].class_id;
            return libraries[i].text;
        }
    return NULL;
}

const char *muster_known_bad_driver(const char *driver, const char *gpu, bool nvlink)
{
    bool consumer = strstr(gpu, "GeForce") || strstr(gpu, "RTX 30") || strstr(gpu, "RTX 40");
    if (!consumer || nvlink)
        return NULL;
    if (strncmp(driver, "545.23.08", 9) == 0 || strncmp(driver, "545.29.02", 9) == 0)
        return "this driver's P2P is broken on GeForce GPUs: 535.154.05 or 570 and later";
    if (strncmp(driver, "560.", 4) == 0)
        return "hangs were reported with driver 560 on GeForce GPUs: 570 and later";
    if (strstr(gpu, "RTX 4090") && strncmp(driver, "525.", 4) == 0)
        return "drivers of that time report P2P on RTX 4090 that does not work";
    return NULL;
}

const char *muster_known_too_new(int major, int nccl)
{
    if (nccl == 0 || major == 0)
        return NULL;
    if (major >= 12 && nccl < 22600)
        return "compute capability 12 (RTX 50) needs NCCL 2.26";
    if (major == 10 && nccl < 22500)
        return "compute capability 10 (Blackwell) needs NCCL 2.25";
    if (major == 9 && nccl < 21600)
        return "compute capability 9 (Hopper) needs NCCL 2.16";
    return NULL;
}

const char *muster_known_cuda_gap(int driver_cuda, int library_cuda)
{
    if (driver_cuda == 0 || library_cuda == 0 || library_cuda <= driver_cuda / 1000)
        return NULL;
    return "NCCL was built for a newer CUDA than the driver runs";
}
