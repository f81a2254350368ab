/*
 * A profiler plugin that does nothing: what NCCL's own side of a callback costs. It asks for
 * everything, or for the event bits in NULL_PLUGIN_MASK. NULL_PLUGIN_WITNESS names a file that it
 * makes when it is loaded. MUSTER_NULL_HANDLE is what its start calls return: NULL, or an address,
 * with which NCCL also makes the stop and state calls.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "nccl/profiler_abi.h"

#ifndef MUSTER_NULL_HANDLE
#define MUSTER_NULL_HANDLE NULL
#endif

enum { ALL_EVENTS = 0xfff };

static int place; /* an address to return */

static void leave_witness(void)
{
    const char *path = getenv("NULL_PLUGIN_WITNESS");
    int fd = path && *path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd >= 0)
        close(fd);
}

static int accept(void **context, int *mask)
{
    const char *wanted = getenv("NULL_PLUGIN_MASK");
    *context = &place;
    *mask = wanted && *wanted ? atoi(wanted) : ALL_EVENTS;
    leave_witness();
    return NCCL_SUCCESS;
}

static int init_v4(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nnodes,
                   int nranks, int rank, nccl_logger logger)
{
    (void)comm_name, (void)comm_hash, (void)nnodes, (void)nranks, (void)rank, (void)logger;
    return accept(context, mask);
}

static int init_v5(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nnodes,
                   int nranks, int rank, nccl_logger logger)
{
    (void)comm_id, (void)comm_name, (void)nnodes, (void)nranks, (void)rank, (void)logger;
    return accept(context, mask);
}

static int start(void *context, void **handle, const void *descriptor)
{
    (void)context, (void)descriptor;
    *handle = MUSTER_NULL_HANDLE;
    return NCCL_SUCCESS;
}

static int stop(void *handle)
{
    (void)handle;
    return NCCL_SUCCESS;
}

static int record(void *handle, int state, const void *args)
{
    (void)handle, (void)state, (void)args;
    return NCCL_SUCCESS;
}

static int finalize(void *context)
{
    (void)context;
    return NCCL_SUCCESS;
}

#define EXPORT __attribute__((visibility("default")))

extern const struct nccl_profiler_v4 ncclProfiler_v4;
extern const struct nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

EXPORT const struct nccl_profiler_v4 ncclProfiler_v4 = {"null", init_v4, start,
                                                        stop,   record,  finalize};
EXPORT const struct nccl_profiler_v5 ncclProfiler_v5 = {"null", init_v5, start,
                                                        stop,   record,  finalize};
EXPORT const struct nccl_profiler_v5 ncclProfiler_v6 = {"null", init_v5, start,
                                                        stop,   record,  finalize};
