/*
 * The plugin as all interface versions see it: one process-wide recorder, made with the first
 * communicator. Every entry accepts NULL, a stale or a foreign handle, and never fails NCCL.
 * NCCL's threads call start, state and stop concurrently; init and fini too.
 */
#ifndef MUSTER_NCCL_PROFILER_HOOKS_H
#define MUSTER_NCCL_PROFILER_HOOKS_H

#include "base/event.h"
#include "config/settings.h"
#include "nccl/profiler_abi.h"

/* `caller`: an address inside the NCCL library that calls (to find its version). Always sets
 * *context to something other than NULL, and *mask to the events wanted by all communicators. */
void muster_plugin_init(void **context, int *mask, const struct muster_event_init *init,
                        const void *caller);
/* Sets *handle first, to NULL if nothing is recorded. */
void muster_plugin_start(void *context, void **handle, const struct muster_event *event);
void muster_plugin_state(void *handle, unsigned state, const struct muster_event_args *args);
void muster_plugin_stop(void *handle);
void muster_plugin_fini(void *context);

/* A table's start. */
typedef int (*nccl_start)(void *context, void **handle, const void *descriptor);

/* What NCCL's calls go to where another profiler is called beside muster, in place of the functions
 * above: it calls nccl_profiler_own_record and `own`, with contexts and handles of muster's. */
struct nccl_profiler_beside {
    void (*init)(void **context, int *mask, const struct muster_event_init *init,
                 nccl_logger logger, const void *caller);
    /* `kind`: enum muster_event_kind, -1 for what is none. `own` is muster's part of the call; its
     * `handle` is not NULL. */
    void (*start)(unsigned api, int kind, void *context, void **handle, const void *descriptor,
                  nccl_start own);
    void (*stop)(void *handle);
    void (*record)(unsigned api, void *handle, int state, const void *args);
    void (*finalize)(void *context);
};

/* NULL: nobody else. Asked in each init; the answer is always the same. */
const struct nccl_profiler_beside *muster_plugin_beside(void);

/* muster's own table of that version, past whoever is beside it. */
void nccl_profiler_own_record(unsigned api, void *handle, int state, const void *args);
/* Whether an exported table is this library's own. */
bool nccl_profiler_is_own(const void *table);

/* Read once, whichever of profiler and tuner NCCL initialises first. */
const struct muster_settings *muster_plugin_settings(void);

#endif
