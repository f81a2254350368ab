#include "standin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { TABLE_NAME, TABLE_INIT, TABLE_START, TABLE_STOP, TABLE_RECORD, TABLE_FINALIZE };

typedef void logger_fn(int level, unsigned long flags, const char *file, int line, const char *fmt,
                       ...);
typedef int init_v1_fn(void **context, int *mask);
typedef int init_v4_fn(void **context, int *mask, const char *name, uint64_t hash, int nnodes,
                       int nranks, int rank, logger_fn *logger);
typedef int init_v5_fn(void **context, uint64_t id, int *mask, const char *name, int nnodes,
                       int nranks, int rank, logger_fn *logger);
typedef int start_fn(void *context, void **handle, void *descriptor);
typedef int stop_fn(void *handle);
typedef int record_fn(void *handle, int state, void *args);
typedef int finalize_fn(void *context);

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uintptr_t garbage = 0x5eed000000001235u;

void standin_die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fputs("stand-in: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(STANDIN_BROKEN);
}

__attribute__((format(printf, 5, 6))) static void
log_nowhere(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
    char text[256];
    va_list args;

    (void)level, (void)flags, (void)file, (void)line;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
}

/* A function pointer out of the table; C has no cast for it. */
static void entry(const struct standin *nccl, unsigned slot, void *function)
{
    void *const *table = atomic_load(&nccl->table);

    memcpy(function, &table[slot], sizeof(void *));
}

void standin_open(struct standin *nccl, unsigned api, struct standin_ledger *ledger)
{
    memset(nccl, 0, sizeof(*nccl));
    nccl->gen = standin_generation(api);
    nccl->ledger = ledger;
    nccl->path = getenv("MUSTER_TEST_PLUGIN_PATH");
#ifdef MUSTER_TEST_PLUGIN
    if (!nccl->path)
        nccl->path = MUSTER_TEST_PLUGIN;
#endif
    const char *timing = getenv("MUSTER_TIMING");
    nccl->full = timing && !strcmp(timing, "channels");
    nccl->callbacks = standin_worker_create("cuda-callback");
}

void standin_close(struct standin *nccl)
{
    struct standin_comm *comm, *next, *left = NULL;

    standin_worker_destroy(nccl->callbacks);
    nccl->callbacks = NULL;
    for (comm = atomic_load(&nccl->comms); comm; comm = next) {
        next = comm->next;
        if (comm->destroyed) {
            if (comm->own_gpu)
                free(comm->gpu);
            standin_device_destroy(comm->device);
            free(comm);
        } else {
            comm->next = left;
            left = comm;
        }
    }
    atomic_store(&nccl->comms, left);
}

void standin_open_driver(struct standin *nccl)
{
    void *library = dlopen(MUSTER_TEST_DRIVER, RTLD_NOW | RTLD_GLOBAL);

    if (!library)
        standin_die("%s", dlerror());
    nccl->driver = dlsym(library, "fake_driver");
    if (!nccl->driver)
        standin_die("%s has no fake_driver", MUSTER_TEST_DRIVER);
}

void standin_rewrite_mask(struct standin *nccl, unsigned mask)
{
    __atomic_store_n(&nccl->mask, (int)mask, __ATOMIC_RELAXED);
}

void standin_load(struct standin *nccl)
{
    char symbol[32];

    pthread_mutex_lock(&load_lock);
    if (nccl->refs++ == 0) {
        nccl->library = dlopen(nccl->path, RTLD_NOW | RTLD_LOCAL);
        if (!nccl->library)
            standin_die("%s", dlerror());
        snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", nccl->gen->api);
        void *const *table = dlsym(nccl->library, symbol);
        if (!table)
            standin_die("%s has no %s", nccl->path, symbol);
        const char *name = table[TABLE_NAME];
        if (!name || !name[0])
            standin_die("%s has no name", symbol);
        atomic_store(&nccl->table, table);
    }
    pthread_mutex_unlock(&load_lock);
}

void standin_unload(struct standin *nccl)
{
    pthread_mutex_lock(&load_lock);
    if (nccl->refs > 0 && --nccl->refs == 0) {
        atomic_store(&nccl->table, NULL);
        dlclose(nccl->library);
        nccl->library = NULL;
    }
    pthread_mutex_unlock(&load_lock);
}

void standin_start(struct standin *nccl, void *context, void **handle,
                   const struct standin_event *event)
{
    if (!atomic_load(&nccl->table))
        return;
    void *before = (void *)atomic_fetch_add(&garbage, 0x1000);
    start_fn *start;

    entry(nccl, TABLE_START, &start);
    *handle = before;
    void *descriptor = standin_descriptor(nccl->gen->api, event);
    unsigned char shown[STANDIN_DESCRIPTOR_BYTES];
    size_t bytes = standin_descriptor_bytes(nccl->gen->api);
    memcpy(shown, descriptor, bytes);
    if (nccl->read_only)
        standin_descriptor_writable(false);
    if (start(context, handle, descriptor))
        standin_die("startEvent of type %#x failed", event->type);
    if (nccl->read_only)
        standin_descriptor_writable(true);
    if (memcmp(shown, descriptor, bytes) != 0)
        standin_die("startEvent of type %#x left its descriptor changed", event->type);
    if (*handle == before)
        standin_die("startEvent of type %#x left *eHandle as it was", event->type);
    standin_descriptor_spoil();
}

void standin_record(struct standin *nccl, void *handle, unsigned state,
                    const struct standin_args *args)
{
    if (!atomic_load(&nccl->table))
        return;
    record_fn *record;

    entry(nccl, TABLE_RECORD, &record);
    if (record(handle, (int)state, args ? standin_state_args(nccl->gen->api, state, args) : NULL))
        standin_die("recordEventState of state %u failed", state);
    standin_descriptor_spoil();
}

void standin_stop(struct standin *nccl, void *handle)
{
    if (!atomic_load(&nccl->table))
        return;
    stop_fn *stop;

    entry(nccl, TABLE_STOP, &stop);
    if (stop(handle))
        standin_die("stopEvent failed");
}

void standin_finalize(struct standin *nccl, void *context)
{
    if (!atomic_load(&nccl->table))
        return;
    finalize_fn *finalize;

    entry(nccl, TABLE_FINALIZE, &finalize);
    if (finalize(context))
        standin_die("finalize failed");
}

static void call_init(struct standin_comm *comm)
{
    struct standin *nccl = comm->nccl;
    int *mask = &nccl->mask;
    char *name = comm->name ? strdup(comm->name) : NULL;
    int result;
    union {
        init_v1_fn *v1;
        init_v4_fn *v4;
        init_v5_fn *v5;
    } init;

    entry(nccl, TABLE_INIT, &init);
    comm->context = NULL;
    if (nccl->gen->api <= 3)
        result = init.v1(&comm->context, mask);
    else if (nccl->gen->api == 4)
        result = init.v4(&comm->context, mask, name, comm->hash, comm->nnodes, comm->nranks,
                         comm->rank, log_nowhere);
    else
        result = init.v5(&comm->context, comm->hash, mask, name, comm->nnodes, comm->nranks,
                         comm->rank, log_nowhere);
    if (name)
        memset(name, 'X', strlen(name));
    free(name);
    if (result || !comm->context)
        standin_die("init gave %d with context %p", result, comm->context);
}

static struct standin_gpu *gpu_create(void)
{
    static _Atomic uint64_t gpus;
    struct standin_gpu *gpu = calloc(1, sizeof(*gpu));

    if (!gpu)
        _exit(96);
    atomic_init(&gpu->clock_ns, 1767766829233827840u + atomic_fetch_add(&gpus, 1) * 523456);
    gpu->ahead_ns = atomic_load(&gpu->clock_ns) - muster_now_ns();
    return gpu;
}

static struct standin_proxy *proxy_get(const struct standin_comm_config *config)
{
    if (config->share_proxy) {
        config->share_proxy->proxy->users++;
        return config->share_proxy->proxy;
    }
    struct standin_proxy *proxy = calloc(1, sizeof(*proxy));
    if (!proxy)
        _exit(96);
    proxy->worker = standin_worker_create("nccl-proxy");
    proxy->users = 1;
    return proxy;
}

struct standin_comm *standin_comm_init(struct standin *nccl,
                                       const struct standin_comm_config *config)
{
    struct standin_comm *comm = calloc(1, sizeof(*comm));

    if (!comm)
        _exit(96);
    comm->nccl = nccl;
    comm->blocking = !config->nonblocking;
    comm->hash = config->hash;
    comm->name = config->name;
    comm->rank = config->rank;
    comm->nranks = config->nranks;
    comm->nnodes = config->nnodes ? config->nnodes : 1;
    comm->gpu = config->gpu ? config->gpu : gpu_create();
    comm->own_gpu = !config->gpu;
    comm->gpu_index = config->gpu_index;
    comm->stream = nccl->driver ? nccl->driver->stream_create(config->gpu_index) : comm;
    comm->device = nccl->exact_gpu ? standin_device_create() : NULL;
    standin_load(nccl);
    call_init(comm);
    comm->proxy = proxy_get(config);
    comm->next = atomic_load(&nccl->comms);
    while (!atomic_compare_exchange_weak(&nccl->comms, &comm->next, comm))
        ;
    return comm;
}

void standin_comm_sync(struct standin_comm *comm)
{
    standin_worker_destroy(comm->launcher);
    comm->launcher = NULL;
    standin_worker_drain(comm->nccl->callbacks);
    standin_worker_drain(comm->proxy->worker);
}

void standin_comm_init_again(struct standin_comm *comm)
{
    standin_comm_sync(comm);
    call_init(comm);
}

void standin_comm_destroy(struct standin_comm *comm)
{
    struct standin *nccl = comm->nccl;

    standin_worker_destroy(comm->launcher);
    standin_worker_drain(nccl->callbacks); /* the streams are synchronised first */
    if (--comm->proxy->users == 0) {
        standin_worker_destroy(comm->proxy->worker);
        free(comm->proxy);
    }
    /* From 2.31 on the thread that looks for stamps gives up here, and has spun until now. */
    if (!nccl->gen->profiler_thread && standin_device_waiting(comm))
        standin_die("ncclCommDestroy waits for %u stamps", standin_device_waiting(comm));
    if (comm->context || nccl->gen->finalize_null)
        standin_finalize(nccl, comm->context);
    standin_unload(nccl);
    comm->destroyed = true;
}

void standin_comm_init_failing(struct standin *nccl)
{
    struct standin_comm comm = {.nccl = nccl, .nnodes = 1, .nranks = 4};

    if (!nccl->gen->late_init) {
        standin_load(nccl);
        call_init(&comm);
    }
    if (comm.context || nccl->gen->finalize_null)
        standin_finalize(nccl, comm.context);
    standin_unload(nccl);
}
