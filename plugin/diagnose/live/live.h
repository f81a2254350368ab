/*
 * Diagnosis inside a job, by a thread of every process. On each host one leads: the living process
 * with the lowest pid that is not stopped. It looks once a second at the segments of its run, with
 * pread like any reader. Each other one looks at its own memory and at the heartbeat of one that
 * goes before it; at more only if it may have to end its process and its own ranks wait. Reading is
 * cheap (what is in use of the tables of calls) until nothing has moved for the threshold; then
 * everything is read and evaluated. What all of it costs: bench/scan_cost.c.
 */
#ifndef MUSTER_DIAGNOSE_LIVE_LIVE_H
#define MUSTER_DIAGNOSE_LIVE_LIVE_H

#include <stdatomic.h>

#include "base/err.h"
#include "config/settings.h"
#include "segment/segment_file.h"

struct muster_live_options {
    const struct muster_segment_file *file; /* of this process; both live until its end */
    const struct muster_settings *settings;
    const _Atomic bool *closed; /* the thread ends once it is set */
};

struct muster_live;

/* Starts the thread, "muster-diag", which is never joined. Nothing to do without a segment that
 * others can see, or if `on:` names no action for any kind. */
int muster_live_start(const struct muster_live_options *options, struct muster_err *err);

/* For tests: the same without a thread, and one look at a time. */
struct muster_live *muster_live_new(const struct muster_live_options *options);
void muster_live_scan(struct muster_live *live, uint64_t now_ns);
void muster_live_free(struct muster_live *live);

#endif
