/*
 * Times in four bytes, exact: those of up to a second in either direction are themselves, those few
 * beyond stand in a table. Between the files of this folder; one thread.
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_SHORT_NS_H
#define MUSTER_DIAGNOSE_STRAGGLER_SHORT_NS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

#define MUSTER_NO_NS    INT64_MAX /* a time that is not known */
#define MUSTER_NO_SHORT INT32_MIN /* the same, shortened */
enum { MUSTER_SHORT_MOST = 1 << 30 };

/* Times that do not fit. To begin with: an arena, and zero. Where it has failed, or marked as
 * failed because they are too many, some times are wrong. */
struct muster_long_ns {
    struct muster_arena *memory;
    int64_t *ns;
    size_t n;
};

int32_t muster_shorten_long_ns(struct muster_long_ns *rest, int64_t ns);

/* The shortened time. */
static inline int32_t muster_shorten_ns(struct muster_long_ns *rest, int64_t ns)
{
    bool fits = ns > -MUSTER_SHORT_MOST && ns < MUSTER_SHORT_MOST;
    return fits ? (int32_t)ns : muster_shorten_long_ns(rest, ns);
}

static inline int64_t muster_ns_of_short(const struct muster_long_ns *rest, int32_t ns)
{
    if (ns == MUSTER_NO_SHORT)
        return MUSTER_NO_NS;
    if (ns < MUSTER_SHORT_MOST)
        return ns;
    return rest->ns ? rest->ns[ns - MUSTER_SHORT_MOST] : 0; /* NULL: memory was short */
}

#endif
