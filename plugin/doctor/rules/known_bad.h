/* Versions that are known to be bad. Pure. */
#ifndef MUSTER_DOCTOR_RULES_KNOWN_BAD_H
#define MUSTER_DOCTOR_RULES_KNOWN_BAD_H

#include <stdbool.h>

struct muster_bad_driver {
    const char *advice;
    const char *explains; /* of version.driver's rows in causes_table.c; NULL: all */
};
/* Drivers whose P2P is broken on boards without NVLink, or that deadlock on V100 (Detectron#219).
 * NULL: none known. */
const struct muster_bad_driver *muster_known_bad_driver(const char *driver, const char *gpu,
                                                        bool nvlink);
/* GPUs newer than the library: compute capability against NCCL's version. */
const char *muster_known_too_new(int major, int nccl);
/* The CUDA, as 11080, that is the first to compile what GPUs of a compute capability run, by the
 * PTX's table of releases; 0: any that NCCL 2 was built for. */
int muster_known_first_cuda(int major, int minor);
/* NCCL's "+cuda13.0" (13000) against the newest CUDA that the driver runs (12080): of one major
 * version from 11 on, any driver will do. 0: unknown. NULL: no gap. */
const char *muster_known_cuda_gap(int driver_cuda, int library_cuda);
/* Newer than the driver's, but of its major version, which mostly works. */
bool muster_known_cuda_minor_gap(int driver_cuda, int library_cuda);
/* Whether a GPU's name is that of a vGPU's profile: "GRID V100DX-32Q", "NVIDIA A100-1-5C". */
bool muster_known_vgpu(const char *name);

#endif
