/*
 * The format of call traces as one table, which the recorder writes by and the reader reads by
 * (docs/formats.md, "Call traces").
 */
#ifndef MUSTER_TRACE_TRACE_FORMAT_H
#define MUSTER_TRACE_TRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/event.h"

enum { MUSTER_TRACE_FORMAT = 1, MUSTER_TRACE_API_MAX = 7 };

enum muster_trace_type {
    MUSTER_TRACE_I32,
    MUSTER_TRACE_U8,
    MUSTER_TRACE_U64,  /* above INT64_MAX a string of digits: few JSON readers know such numbers */
    MUSTER_TRACE_BOOL, /* 0 or 1 */
    MUSTER_TRACE_TEXT, /* or null */
    MUSTER_TRACE_POINTER, /* "0x..." or "(nil)": an identity, never followed */
    MUSTER_TRACE_HASH,    /* 1 to 16 hex digits */
    MUSTER_TRACE_TAG,     /* as U64; left out where it is 0 */
};

struct muster_trace_field {
    const char *name;
    size_t offset; /* in struct muster_event */
    enum muster_trace_type type;
    unsigned first_api, last_api; /* the interface versions that pass it */
};

/* The fields of an event kind beyond those of every start, ended by a NULL name. */
const struct muster_trace_field *muster_trace_fields(unsigned kind);

/* Event kinds, as bits, that exist in an interface version. */
unsigned muster_trace_kinds(unsigned api);

#endif
