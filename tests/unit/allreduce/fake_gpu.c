/*
 * A CUDA driver and an NCCL without GPUs, for testing the all-reduce job's control. Built once as
 * libcuda.so.1 and once as libnccl.so.2. Device memory is host memory, everything is done at once,
 * and the sum over ranks is made up: rank r holds r + 1.
 *   FAKE_GPUS=N             devices (default 2)
 *   FAKE_RANK=R             the rank that FAKE_FAULT is for
 *   FAKE_FAULT=die|exit|late-exit|hang|wrong|error
 *   FAKE_LARGE=wrong        every rank's sums of more than 1 MiB
 *   FAKE_INIT=CODE          what cuInit returns
 *   FAKE_HOSTS=1            a communicator is made only of ranks on hosts of their own
 *   FAKE_ALONE=FILE         an all-reduce fails beside one of another job that names this file
 *   FAKE_MS=MS              time between any two events
 * fake_p2p.c adds what moves data between devices.
 */
#include "fake_gpu.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetName(char *name, int size, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(uint64_t *ptr, size_t bytes);
int cuMemFree_v2(uint64_t ptr);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
int cuMemsetD32Async(uint64_t to, uint32_t value, size_t words, void *stream);
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamSynchronize(void *stream);
int cuStreamDestroy_v2(void *stream);
int cuEventCreate(void **event, unsigned flags);
int cuEventRecord(void *event, void *stream);
int cuEventSynchronize(void *event);
int cuEventElapsedTime(float *ms, void *begin, void *end);
int cuEventDestroy_v2(void *event);
int cuGetErrorName(int code, const char **name);

struct fake_id {
    char bytes[128];
};
int ncclGetVersion(int *code);
int ncclGetUniqueId(struct fake_id *id);
int ncclCommInitRank(void **comm, int nranks, struct fake_id id, int rank);
int ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                  void *stream);
int ncclCommDestroy(void *comm);
const char *ncclGetErrorString(int code);

bool fake_stuck;

static bool fault(const char *what)
{
    const char *rank = getenv("RANK"), *culprit = getenv("FAKE_RANK"), *is = getenv("FAKE_FAULT");
    return rank && culprit && is && strcmp(rank, culprit) == 0 && strcmp(is, what) == 0;
}

EXPORT int cuInit(unsigned flags)
{
    const char *code = getenv("FAKE_INIT");
    return flags ? 1 : code ? atoi(code) : 0;
}

EXPORT int cuDeviceGetCount(int *count)
{
    const char *n = getenv("FAKE_GPUS");
    *count = n ? atoi(n) : 2;
    return 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return 0;
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    snprintf(name, (size_t)size, "fake %d", device);
    return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    *context = (void *)(intptr_t)(device + 1);
    return 0;
}

static _Thread_local int current = -1;

EXPORT int cuCtxSetCurrent(void *context)
{
    current = (int)(intptr_t)context - 1;
    return context ? 0 : 201;
}

int fake_current(void)
{
    return current;
}

static struct {
    uint64_t at;
    int device;
} memory[256];

int fake_owner(uint64_t ptr)
{
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i].at == ptr)
            return memory[i].device;
    return -1;
}

EXPORT int cuMemAlloc_v2(uint64_t *ptr, size_t bytes)
{
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i].at == 0) {
            *ptr = memory[i].at = (uintptr_t)malloc(bytes);
            memory[i].device = current;
            return *ptr ? 0 : 2;
        }
    return 2;
}

EXPORT int cuMemFree_v2(uint64_t ptr)
{
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i].at == ptr)
            memory[i].at = 0;
    free((void *)(uintptr_t)ptr);
    return 0;
}

EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

EXPORT int cuMemsetD32Async(uint64_t to, uint32_t value, size_t words, void *stream)
{
    uint32_t *word = (uint32_t *)(uintptr_t)to;
    for (size_t i = 0; i < words; i++)
        word[i] = value;
    return stream ? 0 : 400;
}

EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
    *stream = (void *)(intptr_t)(flags + 1);
    return 0;
}

EXPORT int cuStreamSynchronize(void *stream)
{
    while (fake_stuck)
        pause();
    return stream ? 0 : 400;
}

EXPORT int cuStreamDestroy_v2(void *stream)
{
    return stream ? 0 : 400;
}

EXPORT int cuEventCreate(void **event, unsigned flags)
{
    *event = calloc(1, sizeof(struct timespec) + flags);
    return *event ? 0 : 2;
}

EXPORT int cuEventRecord(void *event, void *stream)
{
    (void)stream;
    return clock_gettime(CLOCK_MONOTONIC, event);
}

EXPORT int cuEventSynchronize(void *event)
{
    return event ? 0 : 400;
}

EXPORT int cuEventElapsedTime(float *ms, void *begin, void *end)
{
    const struct timespec *a = begin, *b = end;
    const char *fixed = getenv("FAKE_MS");
    if (a->tv_sec == 0 || b->tv_sec == 0)
        return 600; /* not recorded */
    if (fixed) {
        *ms = strtof(fixed, NULL);
        return 0;
    }
    *ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6);
    return 0;
}

EXPORT int cuEventDestroy_v2(void *event)
{
    free(event);
    return 0;
}

EXPORT int cuGetErrorName(int code, const char **name)
{
    *name = code ? "FAKE_ERROR" : "FAKE_SUCCESS";
    return 0;
}

struct fake_comm {
    int nranks, rank;
};

EXPORT int ncclGetVersion(int *code)
{
    const char *version = getenv("FAKE_NCCL");
    *code = version ? atoi(version) : 22809;
    return 0;
}

EXPORT int ncclGetUniqueId(struct fake_id *id)
{
    memset(id, 0x5a, sizeof *id);
    return 0;
}

static bool on_host_of_its_own(int rank)
{
    const char *host = getenv("NCCL_HOSTID");
    char own[24];
    snprintf(own, sizeof own, "host%d", rank);
    return !getenv("FAKE_HOSTS") || (host && strcmp(host, own) == 0);
}

EXPORT int ncclCommInitRank(void **comm, int nranks, struct fake_id id, int rank)
{
    struct fake_id expected;
    struct fake_comm *made = malloc(sizeof *made);
    memset(&expected, 0x5a, sizeof expected);
    if (!made || memcmp(&id, &expected, sizeof id) != 0 || !on_host_of_its_own(rank)) {
        free(made);
        return 4;
    }
    *made = (struct fake_comm){nranks, rank};
    *comm = made;
    return 0;
}

static float sum(const struct fake_comm *comm, float own)
{
    return own / (float)(comm->rank + 1) * (float)(comm->nranks * (comm->nranks + 1)) / 2;
}

/* A job's ranks have its process for a parent. */
static bool disturbed(const char *path)
{
    const pid_t self = getppid();
    pid_t last = self;
    const int fd = open(path, O_RDWR);
    const bool written = fd >= 0 && pwrite(fd, &self, sizeof self, 0) == (ssize_t)sizeof self;
    usleep(200);
    const bool read_back = written && pread(fd, &last, sizeof last, 0) == (ssize_t)sizeof last;
    if (fd >= 0)
        close(fd);
    return !read_back || last != self;
}

EXPORT int ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int op, void *comm,
                         void *stream)
{
    const struct fake_comm *c = comm;
    const float *from = send;
    float *to = recv;
    (void)stream;
    const char *alone = getenv("FAKE_ALONE");
    if (fault("error") || dtype != 7 || op != 0)
        return 5;
    if (alone && disturbed(alone))
        return 6;
    if (fault("die"))
        kill(getpid(), SIGKILL);
    if (fault("exit"))
        _exit(3);
    while (fault("hang"))
        pause();
    bool again = to[0] == sum(c, from[0]) && to[count / 2] == sum(c, from[count / 2]);
    for (size_t i = 0; i < count && !again; i++) /* large sums are made again and again */
        to[i] = sum(c, from[i]);
    const char *large = getenv("FAKE_LARGE");
    if (fault("wrong") || (large && strcmp(large, "wrong") == 0 && count > 1 << 18))
        to[count - 1] = sum(c, from[count - 1]) + 1;
    return 0;
}

static void exit_badly(void)
{
    _exit(5);
}

EXPORT int ncclCommDestroy(void *comm)
{
    free(comm);
    if (fault("late-exit"))
        atexit(exit_badly);
    return 0;
}

EXPORT const char *ncclGetErrorString(int code)
{
    return code == 5 ? "invalid usage" : "fake error";
}
