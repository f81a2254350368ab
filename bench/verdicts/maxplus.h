/*
 * What comes of a job: every host thread, compute stream and communication stream of every rank,
 * as sums and maxima of times. A collective ends for all when its transfer is over after the last
 * has come; a send when both sides have.
 */
#ifndef MUSTER_BENCH_VERDICTS_MAXPLUS_H
#define MUSTER_BENCH_VERDICTS_MAXPLUS_H

#include "job.h"

/* One launch of one rank, on the ideal clock that all share. */
struct launch {
    const struct action *action;
    const struct program *program;
    unsigned rank, step;
    double call_ns, begin_ns, end_ns;
    double transfer_ns; /* of end - begin: the rest is waiting for others */
    double late_ns;     /* what faults added on this rank since its last launch */
};

typedef void launch_sink(void *arg, const struct launch *launch);

/* With the faults whose bits are in `faults`, for so many steps. Launches of a rank come in the
 * order of its calls; sink NULL: nobody is told. Returns the length of the run. */
double simulate(const struct job *job, unsigned faults, unsigned steps, launch_sink *sink,
                void *arg);

/* Whether transfers of the communicator go over the link that the fault slows. */
bool simulate_is_slow(const struct job *job, const struct fault *fault, enum job_group group,
                      unsigned first);
/* Whether that of the rank's launch does: of sends, whether one of them does. */
bool simulate_slows(const struct job *job, const struct fault *fault, const struct action *action,
                    unsigned rank);

#endif
