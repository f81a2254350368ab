/*
 * Recording a call trace from a live job (MUSTER_TRACE). For debugging and bug reports: it takes a
 * lock and formats a line a call, on NCCL's thread, and logs so when it starts.
 */
#ifndef MUSTER_TRACE_TRACE_RECORD_H
#define MUSTER_TRACE_TRACE_RECORD_H

#include "base/err.h"
#include "base/event.h"

struct muster_trace_recorder;

struct muster_trace_who {
    uint32_t nccl;
    int32_t rank, world, local_rank;
    const char *host;
    const char *gpu;
};

/* Opens <dir>/rank-<rank>.jsonl (O_EXCL, 0600; rank unknown or taken: pid-<pid>.jsonl). The meta
 * line is written with the first init, when interface and ranks are known. */
int muster_trace_recorder_open(struct muster_trace_recorder **recorder, const char *dir,
                               const struct muster_trace_who *who, struct muster_err *err);
/* Flushes and closes; late calls are ignored. NULL is accepted. */
void muster_trace_recorder_close(struct muster_trace_recorder *recorder);

/* Context and handle are identities only, never followed. */
void muster_trace_init(struct muster_trace_recorder *recorder, const void *context,
                       const struct muster_event_init *init);
void muster_trace_start(struct muster_trace_recorder *recorder, const void *context,
                        const void *handle, const struct muster_event *event);
void muster_trace_state(struct muster_trace_recorder *recorder, const void *handle, unsigned state,
                        const struct muster_event_args *args);
void muster_trace_stop(struct muster_trace_recorder *recorder, const void *handle);
void muster_trace_fini(struct muster_trace_recorder *recorder, const void *context);

#endif
