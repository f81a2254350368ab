/*
 * `muster agent`: what the processes of this host record, for Prometheus. Reads their segments and
 * /proc, writes nothing, and knows nothing that it has not read since: it may be ended and started
 * again at any time.
 */
#ifndef MUSTER_AGENT_AGENT_H
#define MUSTER_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/exposition.h"
#include "base/err.h"
#include "diagnose/finding.h"
#include "segment/reap.h"

struct muster_agent_options {
    const char *segment_dir;
    bool all; /* segments of all users */
    uint64_t hang_ns;
    /* Adds families to the page; called by the server's thread. NULL: none. */
    void (*more)(void *arg, struct muster_exposition *to);
    void *more_arg;
    /* Takes late ranks of a job that hold, after each look, in a thread of its own. NULL: nobody.
     */
    void (*report)(void *arg, uint32_t uid, const char *run_dir,
                   const struct muster_finding *finding, size_t findings);
    /* Takes the segments that each look found, to be freed by muster_found_free. NULL: nobody. */
    void (*found)(void *arg, struct muster_found *found, size_t n);
    void *report_arg; /* of both */
};

/* Prints the metrics as they are now; on standard error, which segments are of another format. */
int muster_agent_once(const struct muster_agent_options *options, bool open_metrics, FILE *out,
                      struct muster_err *err);

/* SIGINT and SIGTERM are left to muster_agent_serve by all threads that are made from now on. */
void muster_agent_block_signals(void);

/* Serves them at `listen` until SIGINT or SIGTERM; logs where, and which segments are of
 * another format, on `log`, unless that is NULL. `web`:
 * a web configuration file, or NULL. */
int muster_agent_serve(const struct muster_agent_options *options, const char *listen,
                       const char *web, FILE *log, struct muster_err *err);

#endif
