/*
 * The agent's other half: a thread that watches every job of this host and keeps what it found
 * where a scrape may read it. A scrape never waits for an evaluation.
 */
#ifndef MUSTER_AGENT_AGENT_WATCH_H
#define MUSTER_AGENT_AGENT_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "agent/agent_job.h"
#include "agent/agent_proc.h"
#include "agent/agent_sample.h"
#include "agent/finding_metrics.h"
#include "base/err.h"

/* What is known of a process beside its segment. */
struct muster_agent_known {
    uint32_t pid;
    uint64_t start_ticks;
    struct muster_agent_proc proc;
    struct muster_rank_cost compared;
};

/* Written by the thread, read under the lock. */
struct muster_agent_news {
    struct muster_finding_metrics findings;
    struct muster_agent_known *known;
    size_t knowns;
    uint64_t looked_unix_ns; /* the last look; 0: none yet */
    uint64_t cpu_ns;         /* that looking took */
};

struct muster_agent_watch;

struct muster_agent_watch_options {
    const char *segment_dir;
    bool all;         /* segments of all users */
    uint64_t hang_ns; /* how long nothing may move */
    FILE *log;        /* what is not understood is logged there; NULL: nowhere */
    /* After each look at a job: its late ranks that hold now, none once it is over; NULL: nobody
     * asks. */
    void (*report)(void *arg, uint32_t uid, const char *run_dir,
                   const struct muster_finding *finding, size_t findings);
    /* After each look at all: the segments that it found, which are the callee's then; NULL: nobody
     * asks. */
    void (*found)(void *arg, struct muster_found *found, size_t n);
    void *report_arg; /* of both */
};

/* NULL: no memory. Nothing runs yet. */
struct muster_agent_watch *muster_agent_watch_new(const struct muster_agent_watch_options *options);
/* One look in the caller's thread, at all there is: for those who print once. */
void muster_agent_watch_once(struct muster_agent_watch *watch);
int muster_agent_watch_start(struct muster_agent_watch *watch, struct muster_err *err);
/* Ends the thread, if there is one, and frees. */
void muster_agent_watch_free(struct muster_agent_watch *watch);

/* The news, which do not change until they are given back. */
const struct muster_agent_news *muster_agent_watch_lock(struct muster_agent_watch *watch);
void muster_agent_watch_unlock(struct muster_agent_watch *watch);

#endif
