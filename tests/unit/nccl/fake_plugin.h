/* Stands where plugin.c stands, behind the exported tables, and keeps what it was told last. */
#ifndef MUSTER_TESTS_UNIT_NCCL_FAKE_PLUGIN_H
#define MUSTER_TESTS_UNIT_NCCL_FAKE_PLUGIN_H

#include "nccl/profiler_hooks.h"

struct fake_plugin {
    unsigned inits, starts, states, stops, finis;
    struct muster_event_init init;
    const void *caller;
    int *mask;
    void *context;
    void **handle_at;
    void *handle;
    struct muster_event event;
    unsigned state;
    struct muster_event_args args;
};

extern struct fake_plugin fake;
extern char fake_context, fake_handle; /* what init and start hand out */

/* The tables as NCCL sees them: name, init, start, stop, record, finalize. */
typedef void (*fake_entry)(void);
extern const fake_entry ncclProfiler_v1[6], ncclProfiler_v2[6], ncclProfiler_v3[6],
    ncclProfiler_v4[6], ncclProfiler_v5[6], ncclProfiler_v6[6], ncclProfiler_v7[6];
const fake_entry *fake_table(unsigned api);

typedef int (*fake_start)(void *context, void **handle, void *descriptor);
typedef int (*fake_stop)(void *handle);
typedef int (*fake_record)(void *handle, int state, void *args);

/* `bytes` of garbage whose end is the end of accessible memory; unmap with fake_unguard. */
unsigned char *fake_guarded(size_t bytes);
void fake_unguard(unsigned char *at, size_t bytes);

#endif
