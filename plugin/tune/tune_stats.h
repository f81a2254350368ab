/* The arithmetic of `muster tune`. */
#ifndef MUSTER_TUNE_TUNE_STATS_H
#define MUSTER_TUNE_TUNE_STATS_H

#include <stddef.h>

/* A ratio of times and its 95 % interval. */
struct muster_tune_interval {
    double ratio, low, high; /* n < 2: 0 to infinity */
    unsigned n;
};

/* From logarithms of ratios of pairs of runs: their mean, and Student's t with n - 1 degrees of
 * freedom (run after run is taken as independent and nearly normal on the logarithmic scale). */
void muster_tune_interval(const double *log_ratio, unsigned n,
                          struct muster_tune_interval *interval);

/* Sorts; of an even number the mean of the two in the middle; 0 of none. */
double muster_tune_median(double *value, size_t n);

#endif
