/*
 * The part of the CUDA driver and of NCCL that the built-in all-reduce job calls, declared here and
 * found with dlopen, so that muster builds and starts without either. Functions return the
 * library's own result code, 0 for success.
 */
#ifndef MUSTER_ALLREDUCE_GPU_API_H
#define MUSTER_ALLREDUCE_GPU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef uint64_t muster_cuda_ptr; /* CUdeviceptr */

enum { MUSTER_CUDA_STREAM_NON_BLOCKING = 1 };

struct muster_cuda {
    void *library;
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int size, int device);
    int (*primary_retain)(void **context, int device);
    int (*context_set)(void *context);
    int (*alloc)(muster_cuda_ptr *ptr, size_t bytes);
    int (*free)(muster_cuda_ptr ptr);
    int (*to_host)(void *to, muster_cuda_ptr from, size_t bytes);
    int (*fill32)(muster_cuda_ptr to, uint32_t value, size_t words, void *stream);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_wait)(void *stream);
    int (*stream_destroy)(void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_wait)(void *event);
    int (*event_elapsed)(float *ms, void *begin, void *end);
    int (*event_destroy)(void *event);
    int (*error_name)(int code, const char **name);
};

/* What moves data between GPUs; muster_cuda_p2p_open fills it from an open driver. */
struct muster_cuda_p2p {
    int (*can_access)(int *can, int device, int peer);
    int (*enable)(void *context, unsigned flags); /* access from the current context */
    int (*copy_peer)(muster_cuda_ptr to, void *to_context, muster_cuda_ptr from, void *from_context,
                     size_t bytes, void *stream);
    int (*bus_id)(char *text, int size, int device);
    int (*module_load)(void **module, const void *ptx);
    int (*function)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **params, void **extra);
};

struct muster_nccl_id {
    char bytes[128];
};

enum { MUSTER_NCCL_FLOAT32 = 7, MUSTER_NCCL_SUM = 0 };

struct muster_nccl {
    void *library;
    int (*version)(int *code); /* 22809 for 2.28.9 */
    int (*unique_id)(struct muster_nccl_id *id);
    int (*comm_init)(void **comm, int nranks, struct muster_nccl_id id, int rank);
    int (*all_reduce)(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                      void *stream);
    int (*comm_destroy)(void *comm);
    const char *(*error_text)(int code);
};

#define MUSTER_CUDA_LIBRARY "libcuda.so.1"

/* Loads the driver and initialises it. Not before a fork: the driver does not survive one. */
int muster_cuda_open(struct muster_cuda *cuda, struct muster_err *err);

int muster_cuda_p2p_open(const struct muster_cuda *cuda, struct muster_cuda_p2p *p2p,
                         struct muster_err *err);

/* Loads NCCL: `path` if it is given, else libnccl.so.2 as the loader finds it, else out of the
 * Python environments around ($VIRTUAL_ENV, $CONDA_PREFIX, python3 on PATH, /usr, /usr/local). */
int muster_nccl_open(struct muster_nccl *nccl, const char *path, struct muster_err *err);

/* "what: CUDA error NAME" and the like; return -1. With code 0 they return 0. */
int muster_cuda_check(const struct muster_cuda *cuda, int code, const char *what,
                      struct muster_err *err);
int muster_nccl_check(const struct muster_nccl *nccl, int code, const char *what,
                      struct muster_err *err);

#endif
