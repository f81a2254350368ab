#include "doctor/rules/known_bad.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where jobs hang under a driver, an error has another cause. */
#define HANGS "p2p.kernel p2p.copy allreduce.small allreduce.large hang_stuck hang_absent"

enum board { WITHOUT_NVLINK, GEFORCE };

static const struct {
    struct muster_bad_driver bad;
    const char *version; /* how it begins */
    enum board board;
    const char *gpu; /* in its name */
} drivers[] = {
    {{"hangs were reported with driver 560 on GPUs without NVLink: 570 and later", NULL},
     "560.",
     WITHOUT_NVLINK,
     ""},
    {{"hangs were reported with driver 440.100, and not with 440.64 (pytorch#44171): 450 and later",
      HANGS},
     "440.100",
     WITHOUT_NVLINK,
     ""},
    {{"copies between GPUs hang with driver 367 (Paddle#246, nccl#39): 375 and later", HANGS},
     "367.",
     WITHOUT_NVLINK,
     ""},
    {{"this driver's P2P is broken on GeForce GPUs: 535.154.05 or 570 and later", NULL},
     "545.",
     GEFORCE,
     ""},
    {{"drivers of that time report P2P on RTX 4090 that does not work", NULL},
     "525.",
     GEFORCE,
     "RTX 4090"},
};

const struct muster_bad_driver *muster_known_bad_driver(const char *driver, const char *gpu,
                                                        bool nvlink)
{
    static const struct muster_bad_driver of_volta = {
        "drivers before 396.26 deadlock on V100 with CUDA 9 and later: a newer one", NULL};
    if (strstr(gpu, "V100") && atof(driver) > 0 && atof(driver) < 396.26)
        return &of_volta;
    bool geforce = strstr(gpu, "GeForce") || strstr(gpu, "RTX 30") || strstr(gpu, "RTX 40");
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        bool fits = !nvlink && (drivers[i].board == WITHOUT_NVLINK || geforce);
        if (fits && strstr(gpu, drivers[i].gpu) &&
            strncmp(driver, drivers[i].version, strlen(drivers[i].version)) == 0)
            return &drivers[i].bad;
    }
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

int muster_known_first_cuda(int major, int minor)
{
    if (major >= 10)
        return 12080;
    if (major == 9)
        return 11080;
    if (major >= 8)
        return 11000;
    if (major == 7)
        return minor >= 5 ? 10000 : 9000;
    return 0;
}

/* CUDA 11 brought the compatibility of minor versions. */
bool muster_known_cuda_minor_gap(int driver_cuda, int library_cuda)
{
    return driver_cuda >= 11000 && library_cuda > driver_cuda &&
           library_cuda / 1000 == driver_cuda / 1000;
}

const char *muster_known_cuda_gap(int driver_cuda, int library_cuda)
{
    if (driver_cuda == 0 || library_cuda <= driver_cuda ||
        muster_known_cuda_minor_gap(driver_cuda, library_cuda))
        return NULL;
    return "NCCL was built for a newer CUDA than the driver runs";
}

bool muster_known_vgpu(const char *name)
{
    const char *profile = strrchr(name, '-');
    size_t digits = profile ? strspn(profile + 1, "0123456789") : 0;
    const char *kind = digits ? profile + 1 + digits : "";
    return *kind && strchr("ABCQ", *kind) && (!kind[1] || (isdigit(kind[1]) && !kind[2]));
}
