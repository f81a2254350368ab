/*
 * A profiler plugin that records a pair of CUDA events around each launch of NCCL's kernels while
 * it is told to, and does nothing else: what a pair costs inside a job
 * (tests/gpu/guest/pair_price.py). PAIR_PLUGIN_SWITCH names a file of two 8-byte words, of all
 * ranks: the first, not 0, asks for pairs; the second counts those recorded. One GPU a process;
 * interfaces v5 and v6.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl/profiler_abi.h"

enum { KERNEL_LAUNCH = 1 << 11, EVENTS = 4096 };

struct pair_switch {
    _Atomic uint64_t asked, pairs;
};

static struct {
    struct pair_switch *file;
    int (*create)(void **, unsigned);
    int (*record)(void *, void *);
    void *event[EVENTS];
    unsigned next; /* one thread launches at a time: one communicator's, or PyTorch's lock */
    void *stream;  /* of the launch that has begun with an event; NULL: none */
} pair;

static int fail(const char *what)
{
    fprintf(stderr, "pair plugin: %s\n", what);
    return 1;
}

static int make_events(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *create = driver ? dlsym(driver, "cuEventCreate") : NULL;
    void *record = driver ? dlsym(driver, "cuEventRecord") : NULL;
    if (!create || !record)
        return fail("no CUDA driver");
    memcpy(&pair.create, &create, sizeof create);
    memcpy(&pair.record, &record, sizeof record);
    for (unsigned i = 0; i < EVENTS; i++)
        if (pair.create(&pair.event[i], 0) != 0)
            return fail("cuEventCreate failed");
    return 0;
}

static int init(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nnodes,
                int nranks, int rank, nccl_logger logger)
{
    (void)comm_id, (void)comm_name, (void)nnodes, (void)nranks, (void)rank, (void)logger;
    const char *path = getenv("PAIR_PLUGIN_SWITCH");
    *context = &pair;
    *mask = KERNEL_LAUNCH;
    if (pair.file)
        return NCCL_SUCCESS;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map = fd < 0 ? MAP_FAILED
                       : mmap(NULL, sizeof *pair.file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED)
        return fail("PAIR_PLUGIN_SWITCH names no file of 16 bytes");
    pair.file = map;
    return make_events();
}

static void put(void *stream)
{
    pair.record(pair.event[pair.next++ % EVENTS], stream);
}

static int start(void *context, void **handle, const void *descriptor)
{
    (void)context;
    const struct nccl_descr_v5 *event = descriptor;
    *handle = NULL;
    if (event->type != KERNEL_LAUNCH)
        return NCCL_SUCCESS;
    *handle = &pair;
    /* Relaxed, both: whoever asks waits for its steps, and reads the count when they are over. */
    pair.stream = atomic_load_explicit(&pair.file->asked, memory_order_relaxed)
                      ? event->kernel_launch.stream
                      : NULL;
    if (pair.stream)
        put(pair.stream);
    return NCCL_SUCCESS;
}

static int stop(void *handle)
{
    if (!handle || !pair.stream)
        return NCCL_SUCCESS;
    put(pair.stream);
    pair.stream = NULL;
    atomic_fetch_add_explicit(&pair.file->pairs, 1, memory_order_relaxed);
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

extern const struct nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

EXPORT const struct nccl_profiler_v5 ncclProfiler_v5 = {"pair", init,   start,
                                                        stop,   record, finalize};
EXPORT const struct nccl_profiler_v5 ncclProfiler_v6 = {"pair", init,   start,
                                                        stop,   record, finalize};
