/*
 * A generated job as its processes leave it in /dev/shm while they run: a segment each, whose ring
 * goes round as operations retire. Time is the job's, so that a run of minutes takes seconds. What
 * cannot be had, memory or /dev/shm, ends the program.
 */
#ifndef MUSTER_BENCH_VERDICTS_LIVE_JOB_H
#define MUSTER_BENCH_VERDICTS_LIVE_JOB_H

#include "recording.h"

#define LIVE_BEGIN_NS 1e9 /* on each clock, the job begins then */

struct live_retired {
    struct muster_op op;
    double at_ns;
};

/* What one process writes. */
struct live_process {
    struct muster_segment *segment; /* NULL: not recorded */
    struct live_retired *retired;
    size_t n, room, shown;
    uint32_t uid[GROUPS];
    struct muster_seg_net net[MUSTER_SEG_NETS]; /* of the whole run */
    unsigned nets;
    double unix_ns; /* to be added to its host's clock */
    int fd;
    char path[64];
};

struct live_job {
    const struct job *job;
    struct live_process process[JOB_RANKS_MAX];
};

/* Plays the job with all its faults. */
struct live_job *live_job_new(const struct job *job, struct recorded *recorded);
void live_job_free(struct live_job *live);

/* A directory of its own, whose name is written to `dir`. */
void live_job_directory(char *dir, size_t size);
/* The process's segment in that directory; rank: its own. */
void live_process_open(struct live_process *process, const char *dir, unsigned rank);
void live_process_close(struct live_process *process);
/* What has retired until now goes into the ring, at most so much that none is overwritten unread.
 * False: there is more. */
bool live_process_show(struct live_process *process, double now_ns);
/* Its totals of links, of which this share of the run has passed: they grow evenly. */
void live_process_show_nets(const struct live_process *process, double share);

#endif
