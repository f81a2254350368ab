#include "allreduce/gpu_api.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/nccl_files.h"

struct symbol {
    const char *name;
    size_t offset; /* of the function pointer in its struct */
};

/* Names with _v2 are the 64-bit forms that cuda.h maps the plain names to. */
static const struct symbol cuda_symbols[] = {
    {"cuInit", offsetof(struct muster_cuda, init)},
    {"cuDeviceGetCount", offsetof(struct muster_cuda, device_count)},
    {"cuDeviceGet", offsetof(struct muster_cuda, device_get)},
    {"cuDeviceGetName", offsetof(struct muster_cuda, device_name)},
    {"cuDevicePrimaryCtxRetain", offsetof(struct muster_cuda, primary_retain)},
    {"cuCtxSetCurrent", offsetof(struct muster_cuda, context_set)},
    {"cuMemAlloc_v2", offsetof(struct muster_cuda, alloc)},
    {"cuMemFree_v2", offsetof(struct muster_cuda, free)},
    {"cuMemcpyDtoH_v2", offsetof(struct muster_cuda, to_host)},
    {"cuMemsetD32Async", offsetof(struct muster_cuda, fill32)},
    {"cuStreamCreate", offsetof(struct muster_cuda, stream_create)},
    {"cuStreamSynchronize", offsetof(struct muster_cuda, stream_wait)},
    {"cuStreamDestroy_v2", offsetof(struct muster_cuda, stream_destroy)},
    {"cuEventCreate", offsetof(struct muster_cuda, event_create)},
    {"cuEventRecord", offsetof(struct muster_cuda, event_record)},
    {"cuEventSynchronize", offsetof(struct muster_cuda, event_wait)},
    {"cuEventElapsedTime", offsetof(struct muster_cuda, event_elapsed)},
    {"cuEventDestroy_v2", offsetof(struct muster_cuda, event_destroy)},
    {"cuGetErrorName", offsetof(struct muster_cuda, error_name)},
    {NULL, 0},
};

static const struct symbol p2p_symbols[] = {
    {"cuDeviceCanAccessPeer", offsetof(struct muster_cuda_p2p, can_access)},
    {"cuCtxEnablePeerAccess", offsetof(struct muster_cuda_p2p, enable)},
    {"cuMemcpyPeerAsync", offsetof(struct muster_cuda_p2p, copy_peer)},
    {"cuDeviceGetPCIBusId", offsetof(struct muster_cuda_p2p, bus_id)},
    {"cuModuleLoadData", offsetof(struct muster_cuda_p2p, module_load)},
    {"cuModuleGetFunction", offsetof(struct muster_cuda_p2p, function)},
    {"cuLaunchKernel", offsetof(struct muster_cuda_p2p, launch)},
    {NULL, 0},
};

static const struct symbol nccl_symbols[] = {
    {"ncclGetVersion", offsetof(struct muster_nccl, version)},
    {"ncclGetUniqueId", offsetof(struct muster_nccl, unique_id)},
    {"ncclCommInitRank", offsetof(struct muster_nccl, comm_init)},
    {"ncclAllReduce", offsetof(struct muster_nccl, all_reduce)},
    {"ncclCommDestroy", offsetof(struct muster_nccl, comm_destroy)},
    {"ncclGetErrorString", offsetof(struct muster_nccl, error_text)},
    {NULL, 0},
};

static const char nccl_soname[] = "libnccl.so.2";

static int find_symbols(void *library, const char *name, const struct symbol *symbol, void *into,
                        struct muster_err *err)
{
    for (; symbol->name; symbol++) {
        void *found = dlsym(library, symbol->name);
        if (!found)
            return muster_fail(err, "%s has no %s", name, symbol->name);
        memcpy((char *)into + symbol->offset, &found, sizeof found);
    }
    return 0;
}

int muster_cuda_open(struct muster_cuda *cuda, struct muster_err *err)
{
    static const char name[] = MUSTER_CUDA_LIBRARY;
    struct muster_cuda found = {.library = dlopen(name, RTLD_NOW | RTLD_LOCAL)};
    if (!found.library)
        return muster_fail(err, "no CUDA driver: %s", dlerror());
    if (find_symbols(found.library, name, cuda_symbols, &found, err) ||
        muster_cuda_check(&found, found.init(0), "cuInit", err)) {
        dlclose(found.library);
        return -1;
    }
    *cuda = found;
    return 0;
}

int muster_cuda_p2p_open(const struct muster_cuda *cuda, struct muster_cuda_p2p *p2p,
                         struct muster_err *err)
{
    return find_symbols(cuda->library, MUSTER_CUDA_LIBRARY, p2p_symbols, p2p, err);
}

static void *open_matches(const char *pattern)
{
    glob_t found;
    void *library = NULL;
    if (glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && !library; i++)
        library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return library;
}

/* NCCL as a Python environment (a wheel or conda) below `prefix` keeps it. */
static void *open_below(const char *prefix)
{
    static const char *const places[] = {
        "lib/python3*/site-packages/nvidia/nccl/lib",
        "lib/python3*/dist-packages/nvidia/nccl/lib",
        "lib",
    };
    char pattern[PATH_MAX];
    void *library = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++) {
        int n = snprintf(pattern, sizeof pattern, "%s/%s/%s", prefix, places[i], nccl_soname);
        if (n > 0 && (size_t)n < sizeof pattern)
            library = open_matches(pattern);
    }
    return library;
}

static void *find_nccl(void)
{
    char python[PATH_MAX];
    const char *prefixes[] = {
        getenv("VIRTUAL_ENV"),
        getenv("CONDA_PREFIX"),
        muster_python_prefix(python, sizeof python) ? python : NULL,
        "/usr/local",
        "/usr",
    };
    void *library = dlopen(nccl_soname, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && !library; i++)
        if (prefixes[i] && *prefixes[i])
            library = open_below(prefixes[i]);
    return library;
}

int muster_nccl_open(struct muster_nccl *nccl, const char *path, struct muster_err *err)
{
    struct muster_nccl found = {.library =
                                    path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : find_nccl()};
    if (!found.library && path)
        return muster_fail(err, "cannot load NCCL: %s", dlerror());
    if (!found.library)
        return muster_fail(err,
                           "no NCCL: %s is neither on the loader's path nor in a Python "
                           "environment; --nccl names it",
                           nccl_soname);
    if (find_symbols(found.library, path ? path : nccl_soname, nccl_symbols, &found, err)) {
        dlclose(found.library);
        return -1;
    }
    *nccl = found;
    return 0;
}

int muster_cuda_check(const struct muster_cuda *cuda, int code, const char *what,
                      struct muster_err *err)
{
    const char *name = NULL;
    if (code == 0)
        return 0;
    cuda->error_name(code, &name);
    return muster_fail(err, "%s: CUDA error %d (%s)", what, code, name ? name : "unknown");
}

int muster_nccl_check(const struct muster_nccl *nccl, int code, const char *what,
                      struct muster_err *err)
{
    if (code == 0)
        return 0;
    return muster_fail(err, "%s: NCCL error %d (%s)", what, code, nccl->error_text(code));
}
