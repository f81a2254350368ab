/*
 * What each fault of a job costs: the same job without it, with the same random numbers. Of several
 * faults the share of each is its Shapley value, so that of two which hide each other both are
 * charged.
 */
#ifndef MUSTER_BENCH_VERDICTS_TRUTH_H
#define MUSTER_BENCH_VERDICTS_TRUTH_H

#include "recording.h"

#define TRUTH_DUE_SHARE 0.01 /* of the run */
enum { TRUTH_DUE_HITS = 20 };

struct truth {
    double run_s;
    double cost_s[JOB_FAULTS_MAX];
    bool shows[JOB_FAULTS_MAX]; /* somebody's fault, seen, and in enough timed operations */
    bool due[JOB_FAULTS_MAX];   /* and costs enough: has to be named */
};

void truth_find(const struct job *job, const struct recorded *recorded, struct truth *truth);

static inline double truth_share(const struct truth *truth, unsigned fault)
{
    return truth->cost_s[fault] / truth->run_s;
}

/* Seconds that the run would have been shorter, had the rank had no noise of its own. */
double truth_noise_s(const struct job *job, const struct recorded *recorded, unsigned rank);

/* Bits of the faults that the rank is in. */
unsigned truth_culprit(const struct job *job, unsigned rank);

#endif
