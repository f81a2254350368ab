/*
 * Calling a profiler plugin as NCCL would: the reverse of the exports. For replays and benches.
 */
#ifndef MUSTER_REPLAY_REPLAY_DRIVER_H
#define MUSTER_REPLAY_REPLAY_DRIVER_H

#include "base/err.h"
#include "base/event.h"

struct muster_driver {
    void *library;
    const void *table; /* ncclProfiler_v<api> */
    const char *name;  /* the plugin's own */
    unsigned api;
};

/* Loads `path` and finds its table of interface version `api` (0: the newest from v7 down that it
 * has, at most `max_api`; 0 no limit). */
int muster_driver_open(struct muster_driver *driver, const char *path, unsigned api,
                       unsigned max_api, struct muster_err *err);

/* These return the plugin's result (0: success). `mask` outlives the driver's contexts. An event
 * that the driver's interface does not have is not delivered: *handle is NULL, the result 0. State
 * args are NULL where NCCL passes NULL, whatever `args` is. */
int muster_driver_init(const struct muster_driver *driver, void **context, int *mask,
                       const struct muster_event_init *init);
int muster_driver_start(const struct muster_driver *driver, void *context, void **handle,
                        const struct muster_event *event);
int muster_driver_state(const struct muster_driver *driver, void *handle, unsigned state,
                        const struct muster_event_args *args);
int muster_driver_stop(const struct muster_driver *driver, void *handle);
int muster_driver_fini(const struct muster_driver *driver, void *context);

#endif
