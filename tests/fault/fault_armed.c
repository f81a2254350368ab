/*
 * Puts itself between the stand-in and the plugin's table, so that what the plugin does on NCCL's
 * threads counts for the plan, and what the stand-in does for itself does not.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "fault_plan.h"

typedef void logger_fn(int level, unsigned long flags, const char *file, int line, const char *fmt,
                       ...);

enum { TABLE_NAME, TABLE_INIT, TABLE_START, TABLE_STOP, TABLE_RECORD, TABLE_FINALIZE, TABLE_SIZE };

static struct {
    int (*init_v1)(void **, int *);
    int (*init_v4)(void **, int *, const char *, uint64_t, int, int, int, logger_fn *);
    int (*init_v5)(void **, uint64_t, int *, const char *, int, int, int, logger_fn *);
    int (*start)(void *, void **, void *);
    int (*stop)(void *);
    int (*record)(void *, int, void *);
    int (*finalize)(void *);
} real;

static void *armed[TABLE_SIZE];

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);

static int left(int result)
{
    fault_leave();
    return result;
}

static int init_v1(void **context, int *mask)
{
    fault_enter();
    return left(real.init_v1(context, mask));
}

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int nnodes,
                   int nranks, int rank, logger_fn *logger)
{
    fault_enter();
    return left(real.init_v4(context, mask, name, hash, nnodes, nranks, rank, logger));
}

static int init_v5(void **context, uint64_t id, int *mask, const char *name, int nnodes, int nranks,
                   int rank, logger_fn *logger)
{
    fault_enter();
    return left(real.init_v5(context, id, mask, name, nnodes, nranks, rank, logger));
}

static int start(void *context, void **handle, void *descriptor)
{
    fault_enter();
    return left(real.start(context, handle, descriptor));
}

static int stop(void *handle)
{
    fault_enter();
    return left(real.stop(handle));
}

static int record(void *handle, int state, void *args)
{
    fault_enter();
    return left(real.record(handle, state, args));
}

static int finalize(void *context)
{
    fault_enter();
    return left(real.finalize(context));
}

/* Function pointers through memory: C has no cast for them. */
static void swap(void *table, unsigned slot, const void *own, void *place, void *const *plugin)
{
    memcpy((char *)table + slot * sizeof(void *), own, sizeof(void *));
    memcpy(place, &plugin[slot], sizeof(void *));
}

void *__wrap_dlsym(void *library, const char *name)
{
    void *const *plugin = __real_dlsym(library, name);
    if (!plugin || strncmp(name, "ncclProfiler_v", 14) != 0)
        return (void *)(uintptr_t)plugin;
    int api = name[14] - '0';
    int (*v1)(void **, int *) = init_v1;
    int (*v4)(void **, int *, const char *, uint64_t, int, int, int, logger_fn *) = init_v4;
    int (*v5)(void **, uint64_t, int *, const char *, int, int, int, logger_fn *) = init_v5;
    int (*own_start)(void *, void **, void *) = start;
    int (*own_stop)(void *) = stop;
    int (*own_record)(void *, int, void *) = record;
    int (*own_finalize)(void *) = finalize;

    armed[TABLE_NAME] = plugin[TABLE_NAME];
    if (api <= 3)
        swap(armed, TABLE_INIT, &v1, &real.init_v1, plugin);
    else if (api == 4)
        swap(armed, TABLE_INIT, &v4, &real.init_v4, plugin);
    else
        swap(armed, TABLE_INIT, &v5, &real.init_v5, plugin);
    swap(armed, TABLE_START, &own_start, &real.start, plugin);
    swap(armed, TABLE_STOP, &own_stop, &real.stop, plugin);
    swap(armed, TABLE_RECORD, &own_record, &real.record, plugin);
    swap(armed, TABLE_FINALIZE, &own_finalize, &real.finalize, plugin);
    return armed;
}
