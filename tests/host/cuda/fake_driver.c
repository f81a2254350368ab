#include "fake_driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES = 16, DISABLE_TIMING = 2, RELAXED = 2, NONE = 0, ACTIVE = 1 };

struct context {
    uint64_t id; /* 0: not made yet */
    unsigned device;
    int sticky;
};
struct stream {
    struct context *context;
    uint64_t id, ready_ns;
    bool alive, captured;
    struct stream *before; /* all that there were stay known: see struct event */
};
static struct stream *newest_stream;
/* Never freed: an event that is used after its end must be known. */
struct event {
    struct context *context;
    uint64_t id, done_ns; /* context's at creation; 0: never recorded */
    unsigned flags;
    bool alive;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context contexts[DEVICES];
static struct fake_driver_use used;
static unsigned captures;
static uint64_t last_id;
static struct {
    char function[48];
    int code;
    unsigned times;
} failing;
static _Thread_local struct context *current;
static _Thread_local int capture_mode; /* global, as every thread begins */

__attribute__((noreturn, format(printf, 1, 2))) static void crash(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fputs("made-up driver: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(FAKE_DRIVER_CRASH);
}

/* Whether this call fails as it was told to, or because its context is broken. */
static int fault(const char *function, const struct context *context)
{
    if (failing.times && !strcmp(failing.function, function)) {
        failing.times--;
        return failing.code;
    }
    return context ? context->sticky : FAKE_OK;
}

/* Calls that a capture of another thread does not stand unless this one is relaxed. */
static void not_while_capturing(const char *function)
{
    if (captures && capture_mode != RELAXED)
        crash("%s invalidates a capture in progress", function);
}

static struct event *event_of(void *handle, const char *function)
{
    struct event *event = handle;

    if (!event || !event->alive)
        crash("%s of an event that was destroyed", function);
    if (event->id != event->context->id)
        crash("%s of an event that died with its context", function);
    return event;
}

static struct stream *stream_of(void *handle, const char *function)
{
    struct stream *stream = handle;

    if (!stream->alive || stream->id != stream->context->id)
        crash("%s on a stream that is gone", function);
    return stream;
}

/* --- the driver's own calls ------------------------------------------------------------------ */

static int leave(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

int cuCtxGetCurrent(void **context);
EXPORT int cuCtxGetCurrent(void **context)
{
    *context = current;
    return FAKE_OK;
}

int cuCtxSetCurrent(void *context);
EXPORT int cuCtxSetCurrent(void *context)
{
    current = context;
    return FAKE_OK;
}

int cuCtxPushCurrent_v2(void *context);
EXPORT int cuCtxPushCurrent_v2(void *context)
{
    current = context; /* nobody here nests them */
    return FAKE_OK;
}

int cuCtxPopCurrent_v2(void **context);
EXPORT int cuCtxPopCurrent_v2(void **context)
{
    if (context)
        *context = current;
    current = NULL;
    return FAKE_OK;
}

int cuCtxGetId(void *context, unsigned long long *id);
EXPORT int cuCtxGetId(void *context, unsigned long long *id)
{
    struct context *of = context ? context : current;
    pthread_mutex_lock(&lock);
    int code = of ? fault(__func__, NULL) : FAKE_NO_CONTEXT;
    if (code == FAKE_OK)
        *id = of->id;
    return leave(code);
}

int cuCtxGetDevice(int *device);
EXPORT int cuCtxGetDevice(int *device)
{
    if (!current)
        return FAKE_NO_CONTEXT;
    *device = (int)current->device;
    return FAKE_OK;
}

int cuDeviceGetPCIBusId(char *to, int size, int device);
EXPORT int cuDeviceGetPCIBusId(char *to, int size, int device)
{
    snprintf(to, (size_t)size, "0000:%02x:00.0", 0x10 + device);
    return FAKE_OK;
}

int cuDeviceGetName(char *to, int size, int device);
EXPORT int cuDeviceGetName(char *to, int size, int device)
{
    snprintf(to, (size_t)size, "made-up GPU %d", device);
    return FAKE_OK;
}

int cuEventCreate(void **handle, unsigned flags);
EXPORT int cuEventCreate(void **handle, unsigned flags)
{
    if (!current)
        return FAKE_NO_CONTEXT;
    pthread_mutex_lock(&lock);
    int code = fault(__func__, current);
    struct event *event = code == FAKE_OK ? calloc(1, sizeof(*event)) : NULL;
    if (!event)
        return leave(code ? code : 2);
    *event = (struct event){.context = current, .id = current->id, .flags = flags, .alive = true};
    *handle = event;
    used.created++;
    used.events_alive++;
    return leave(FAKE_OK);
}

int cuEventDestroy_v2(void *handle);
EXPORT int cuEventDestroy_v2(void *handle)
{
    pthread_mutex_lock(&lock);
    event_of(handle, __func__)->alive = false;
    used.events_alive--;
    return leave(FAKE_OK);
}

/* The legacy stream is NULL and the current context's. */
int cuEventRecord(void *handle, void *where);
EXPORT int cuEventRecord(void *handle, void *where)
{
    pthread_mutex_lock(&lock);
    struct event *event = event_of(handle, __func__);
    struct stream *stream = where ? stream_of(where, __func__) : NULL;
    struct context *context = stream ? stream->context : current;
    int code = context == event->context ? fault(__func__, context) : FAKE_INVALID_HANDLE;
    if (code)
        return leave(code);
    if (stream && stream->captured)
        crash("%s: the event becomes part of a graph", __func__);
    if (!stream)
        not_while_capturing(__func__);
    uint64_t now = muster_now_ns();
    event->done_ns = stream && stream->ready_ns > now ? stream->ready_ns : now;
    used.recorded++;
    used.recorded_on[context->device]++;
    return leave(FAKE_OK);
}

int cuEventQuery(void *handle);
EXPORT int cuEventQuery(void *handle)
{
    pthread_mutex_lock(&lock);
    struct event *event = event_of(handle, __func__);
    not_while_capturing(__func__);
    used.queried++;
    int code = fault(__func__, event->context);
    if (code == FAKE_OK && event->done_ns > muster_now_ns())
        code = FAKE_NOT_READY;
    return leave(code);
}

/* In milliseconds, a float, in steps of half a microsecond. */
int cuEventElapsedTime_v2(float *ms, void *from, void *to);
EXPORT int cuEventElapsedTime_v2(float *ms, void *from, void *to)
{
    pthread_mutex_lock(&lock);
    struct event *a = event_of(from, __func__), *b = event_of(to, __func__);
    int code = fault(__func__, a->context);
    bool timed = !((a->flags | b->flags) & DISABLE_TIMING) && a->done_ns && b->done_ns;
    uint64_t now = muster_now_ns();
    used.elapsed++;
    if (code == FAKE_OK && (!timed || a->context != b->context))
        code = FAKE_INVALID_HANDLE;
    if (code == FAKE_OK && (a->done_ns > now || b->done_ns > now))
        code = FAKE_NOT_READY;
    if (code == FAKE_OK)
        *ms = (float)((double)((int64_t)(b->done_ns - a->done_ns) / 500) * 0.0005);
    return leave(code);
}

int cuEventElapsedTime(float *ms, void *from, void *to);
EXPORT int cuEventElapsedTime(float *ms, void *from, void *to)
{
    return cuEventElapsedTime_v2(ms, from, to);
}

int cuStreamIsCapturing(void *where, int *status);
EXPORT int cuStreamIsCapturing(void *where, int *status)
{
    pthread_mutex_lock(&lock);
    struct stream *stream = where ? stream_of(where, __func__) : NULL;
    int code = fault(__func__, stream ? stream->context : current);
    if (!stream && captures && code == FAKE_OK)
        code = FAKE_CAPTURE_IMPLICIT;
    *status = stream && stream->captured ? ACTIVE : NONE;
    return leave(code);
}

int cuStreamGetCtx(void *where, void **context);
EXPORT int cuStreamGetCtx(void *where, void **context)
{
    pthread_mutex_lock(&lock);
    *context = where ? stream_of(where, __func__)->context : current;
    return leave(FAKE_OK);
}

int cuThreadExchangeStreamCaptureMode(int *mode);
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
    int before = capture_mode;

    capture_mode = *mode;
    *mode = before;
    return FAKE_OK;
}

/* --- the job's side -------------------------------------------------------------------------- */

static void *use_device(unsigned device)
{
    pthread_mutex_lock(&lock);
    struct context *context = &contexts[device];
    if (context->id == 0)
        *context = (struct context){.id = ++last_id, .device = device};
    current = context;
    pthread_mutex_unlock(&lock);
    return context;
}

static void reset(unsigned device)
{
    pthread_mutex_lock(&lock);
    contexts[device] = (struct context){.id = ++last_id, .device = device};
    pthread_mutex_unlock(&lock);
}

static void assert_on(unsigned device)
{
    pthread_mutex_lock(&lock);
    contexts[device].sticky = FAKE_ASSERT;
    pthread_mutex_unlock(&lock);
}

static void *stream_create(unsigned device)
{
    struct context *context = use_device(device);
    struct stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        _exit(96);
    pthread_mutex_lock(&lock);
    *stream = (struct stream){
        .context = context, .id = context->id, .alive = true, .before = newest_stream};
    newest_stream = stream;
    pthread_mutex_unlock(&lock);
    return stream;
}

static void stream_destroy(void *stream)
{
    pthread_mutex_lock(&lock);
    stream_of(stream, __func__)->alive = false;
    pthread_mutex_unlock(&lock);
}

static void launch(void *where, uint64_t ns)
{
    pthread_mutex_lock(&lock);
    struct stream *stream = stream_of(where, __func__);
    uint64_t now = muster_now_ns();
    if (!stream->captured)
        stream->ready_ns = (stream->ready_ns > now ? stream->ready_ns : now) + ns;
    pthread_mutex_unlock(&lock);
}

static void stream_sync(void *where)
{
    pthread_mutex_lock(&lock);
    uint64_t until = stream_of(where, __func__)->ready_ns;
    pthread_mutex_unlock(&lock);
    for (uint64_t now = muster_now_ns(); now < until; now = muster_now_ns())
        nanosleep(&(struct timespec){.tv_nsec = (long)((until - now) % MUSTER_NS_PER_S)}, NULL);
}

static void capture(void *where, bool on)
{
    pthread_mutex_lock(&lock);
    stream_of(where, __func__)->captured = on;
    captures = on ? captures + 1 : captures - 1;
    pthread_mutex_unlock(&lock);
}

static void fail(const char *function, int code, unsigned times)
{
    pthread_mutex_lock(&lock);
    snprintf(failing.function, sizeof(failing.function), "%s", function);
    failing.code = code;
    failing.times = times;
    pthread_mutex_unlock(&lock);
}

static struct fake_driver_use use(void)
{
    pthread_mutex_lock(&lock);
    struct fake_driver_use copy = used;
    pthread_mutex_unlock(&lock);
    return copy;
}

EXPORT const struct fake_driver fake_driver = {use_device,     reset,  assert_on,   stream_create,
                                               stream_destroy, launch, stream_sync, capture,
                                               fail,           use};
