/*
 * Call traces: what NCCL called a profiler plugin with, one JSON object a line (docs/formats.md).
 * Reading and playing belong to the command; recording (trace/trace_record.h) to the plugin.
 */
#ifndef MUSTER_TRACE_TRACE_H
#define MUSTER_TRACE_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/event.h"

struct muster_trace_meta {
    unsigned format; /* 1 */
    unsigned api;    /* 1 to 7 */
    uint32_t nccl;
    int32_t rank, nranks, local_rank;
    char host[128];
    char gpu[64];
    bool killed; /* end: killed */
};

enum muster_trace_op {
    MUSTER_TRACE_INIT,
    MUSTER_TRACE_START,
    MUSTER_TRACE_STATE,
    MUSTER_TRACE_STOP,
    MUSTER_TRACE_FINI
};

struct muster_trace_call {
    enum muster_trace_op op;
    uint64_t t_ns;
    int32_t tid;
    uint64_t ctx;    /* context id */
    uint64_t handle; /* handle id; 0 none */
    uint64_t parent; /* handle ids; event.parent and op.parent_group are not set */
    uint64_t parent_group;
    unsigned kind; /* enum muster_event_kind */
    unsigned state;
    struct muster_event_init init;
    struct muster_event event;
    struct muster_event_args args;
};

struct muster_trace {
    struct muster_arena memory; /* of all that follows */
    struct muster_trace_meta meta;
    struct muster_trace_call *call;
    size_t calls;
};

/* Reads a plain or .xz file. err: "file:line: ..." with what was expected. A last line cut short
 * is left out, and `truncated` set. */
int muster_trace_read(const char *path, struct muster_trace *trace, bool *truncated,
                      struct muster_err *err);
/* The same from memory (plain text), named `name` in errors. */
int muster_trace_parse(const char *name, const char *text, size_t bytes, struct muster_trace *trace,
                       bool *truncated, struct muster_err *err);
void muster_trace_free(struct muster_trace *trace);

#endif
