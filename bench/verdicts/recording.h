/*
 * What muster would have recorded of a simulated job: the GPUs' own clocks, the hosts' own clocks,
 * which operations were timed (docs/architecture.md: blocks of 64, levels that nest), whose
 * recordings are missing. The only file of the generator that knows muster's structures.
 */
#ifndef MUSTER_BENCH_VERDICTS_RECORDING_H
#define MUSTER_BENCH_VERDICTS_RECORDING_H

#include "job.h"
#include "segment/layout.h"

struct recording_sink {
    void *arg;
    /* Ranks that are seen, in order; then their communicators; then operations, of each rank in
     * the order of its calls; then network totals. */
    void (*rank)(void *arg, unsigned rank, const char *host, enum job_timing timing,
                 int64_t unix_ns);
    void (*member)(void *arg, unsigned rank, enum job_group group, uint64_t comm, unsigned local,
                   unsigned n, unsigned hosts);
    /* `over_ns`: when it was over, on the ideal clock. */
    void (*op)(void *arg, unsigned rank, enum job_group group, const struct muster_op *op,
               double over_ns);
    void (*net)(void *arg, unsigned rank, enum job_group group, const struct muster_seg_net *net);
};

struct recorded {
    double run_ns;
    uint64_t ops;
    unsigned hits[JOB_FAULTS_MAX]; /* timed launches right after what the fault added */
};

uint64_t recording_comm(const struct job *job, enum job_group group, unsigned first);
/* Plays the job with all its faults. */
void recording_make(const struct job *job, const struct recording_sink *sink,
                    struct recorded *recorded);

#endif
