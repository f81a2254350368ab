/* As much of a CUDA driver as tells which GPU a process uses: FAKE_CUDA_PCI, and FAKE_CUDA_INDEX
 * (default 0). Built as libcuda.so.1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, INVALID = 1 };

int cuCtxGetDevice(int *device);
EXPORT int cuCtxGetDevice(int *device)
{
    const char *index = getenv("FAKE_CUDA_INDEX");
    *device = index ? atoi(index) : 0;
    return getenv("FAKE_CUDA_PCI") ? OK : INVALID;
}

int cuDeviceGetPCIBusId(char *to, int size, int device);
EXPORT int cuDeviceGetPCIBusId(char *to, int size, int device)
{
    const char *pci = getenv("FAKE_CUDA_PCI");
    (void)device;
    if (!pci || (int)strlen(pci) >= size)
        return INVALID;
    snprintf(to, (size_t)size, "%s", pci);
    return OK;
}

int cuDeviceGetName(char *to, int size, int device);
EXPORT int cuDeviceGetName(char *to, int size, int device)
{
    (void)device;
    snprintf(to, (size_t)size, "made-up GPU");
    return OK;
}
