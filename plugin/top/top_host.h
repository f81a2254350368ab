/*
 * The jobs that run on this host, for the screen: read from their segments, which are never
 * written; findings come from the functions that evaluate inside a job. A look reads the tables of
 * calls of every process, and of some the sums of operations by turns, so that 64 ranks cost less
 * than one percent of a processor at a look a second. One thread.
 */
#ifndef MUSTER_TOP_TOP_HOST_H
#define MUSTER_TOP_TOP_HOST_H

#include "top/top_source.h"

struct muster_top_host_options {
    const char *segment_dir;
    bool all;         /* segments of all users that may be read */
    uint64_t hang_ns; /* how long nothing may move */
    const char *run;  /* a run directory; NULL: whatever runs here */
    uint32_t pid;     /* the job of this process alone; 0: any */
};

struct muster_top_host;

/* The options' strings have to outlive it. NULL: no memory. */
struct muster_top_host *muster_top_host_new(const struct muster_top_host_options *options);
void muster_top_host_free(struct muster_top_host *host);

/* Looks at all there is. Returns how many jobs are known, those that have ended since included. */
size_t muster_top_host_look(struct muster_top_host *host);
/* Takes what is new in the rings, if it is time to; returns when it is again. Monotonic. */
uint64_t muster_top_host_take(struct muster_top_host *host);
/* What to show first: the job of the options' pid (SIZE_MAX: it is in none), else the one with the
 * most living processes. */
size_t muster_top_host_largest(const struct muster_top_host *host);
/* Job `job` as of the last look, in memory of the host's: until the next fill. */
void muster_top_host_fill(struct muster_top_host *host, size_t job, struct muster_top *top);
/* The host for a screen. */
struct muster_top_source muster_top_host_source(struct muster_top_host *host);

#endif
