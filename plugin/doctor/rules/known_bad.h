/* Versions that are known to be bad, each with its source in docs/doctor.md. Pure. */
#ifndef MUSTER_CLI_KNOWN_BAD_H
#define MUSTER_CLI_KNOWN_BAD_H

#include <stdbool.h>

/* What is wrong with this NCCL in general; NULL: nothing known. *class_id gets the class. */
const char *muster_known_bad_nccl(int version, const char **class_id);
/* Drivers whose P2P is broken on GeForce boards without NVLink. NULL: none known. */
const char *muster_known_bad_driver(const char *driver, const char *gpu, bool nvlink);
/* GPUs newer than the library: compute capability against NCCL's version. */
const char *muster_known_too_new(int major, int nccl);
/* The newest CUDA major version that an NCCL library for it needs from the driver: 12 for +cuda12.x
 */
const char *muster_known_cuda_gap(int driver_cuda, int library_cuda);

#endif
