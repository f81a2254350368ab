/*
 * The driver functions behind events, as libcuda.so.1: they do nothing, so that what is
 * measured is the plugin's own part. MARK_DRIVER=PATH passes them on to that driver instead: the
 * default stream of its first GPU, which is idle.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT uint64_t bench_marks_recorded(void);
EXPORT int cuCtxGetCurrent(void **context);
EXPORT int cuCtxSetCurrent(void *context);
EXPORT int cuEventCreate(void **event, unsigned flags);
EXPORT int cuEventRecord(void *event, void *stream);
EXPORT int cuEventQuery(void *event);
EXPORT int cuEventElapsedTime(float *ms, void *from, void *to);
EXPORT int cuCtxGetId(void *context, unsigned long long *id);
EXPORT int cuStreamIsCapturing(void *stream, int *status);
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode);

static struct {
    void *context; /* NULL: nothing is passed on */
    int (*set_current)(void *context);
    int (*create)(void **event, unsigned flags);
    int (*record)(void *event, void *stream);
    int (*query)(void *event);
    int (*elapsed)(float *ms, void *from, void *to);
    int (*id)(void *context, unsigned long long *id);
    int (*capturing)(void *stream, int *status);
    int (*exchange)(int *mode);
} real;

static _Thread_local uint64_t recorded;
static _Thread_local int current;

static int find(void *library, const char *name, void *to)
{
    void *function = dlsym(library, name);
    memcpy(to, &function, sizeof function);
    return function != NULL;
}

__attribute__((constructor)) static void open_real(void)
{
    const char *path = getenv("MARK_DRIVER");
    void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*init)(unsigned);
    int (*retain)(void **, int);
    void *context = NULL;
    if (library && find(library, "cuInit", &init) &&
        find(library, "cuDevicePrimaryCtxRetain", &retain) &&
        find(library, "cuCtxSetCurrent", &real.set_current) &&
        find(library, "cuEventCreate", &real.create) &&
        find(library, "cuEventRecord", &real.record) &&
        find(library, "cuEventQuery", &real.query) &&
        find(library, "cuEventElapsedTime", &real.elapsed) &&
        find(library, "cuCtxGetId", &real.id) &&
        find(library, "cuStreamIsCapturing", &real.capturing) &&
        find(library, "cuThreadExchangeStreamCaptureMode", &real.exchange) && init(0) == 0 &&
        retain(&context, 0) == 0)
        real.context = context;
    else if (path && *path)
        abort(); /* figures of another driver than the one named would be worse */
}

uint64_t bench_marks_recorded(void)
{
    return recorded;
}

int cuCtxGetCurrent(void **context)
{
    static char place;
    *context = real.context ? real.context : &place;
    return real.context ? real.set_current(real.context) : 0;
}

int cuCtxSetCurrent(void *context)
{
    return real.context ? real.set_current(context) : 0;
}

int cuEventCreate(void **event, unsigned flags)
{
    static char place;
    *event = &place;
    return real.context ? real.create(event, flags) : 0;
}

int cuEventRecord(void *event, void *stream)
{
    recorded++;
    return real.context ? real.record(event, stream) : 0;
}

int cuEventQuery(void *event)
{
    return real.context ? real.query(event) : 0;
}

int cuEventElapsedTime(float *ms, void *from, void *to)
{
    *ms = 0.01F;
    return real.context ? real.elapsed(ms, from, to) : 0;
}

int cuCtxGetId(void *context, unsigned long long *id)
{
    *id = 1;
    return real.context ? real.id(context, id) : 0;
}

int cuStreamIsCapturing(void *stream, int *status)
{
    if (!real.context) {
        *status = 0;
        return 0;
    }
    if (!current) { /* NCCL's thread would have it */
        real.set_current(real.context);
        current = 1;
    }
    return real.capturing(stream, status);
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
    return real.context ? real.exchange(mode) : 0;
}
