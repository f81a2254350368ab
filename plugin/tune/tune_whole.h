/*
 * Whether a job gains by all the rules of `muster tune` together. A class's beat ends where the
 * next operation begins; ranks that end early begin the next one early and wait there, so a rule
 * may only move time to other classes. The sum over classes shows it. Pure: samples of pairs of
 * runs go in, a verdict and its words come out.
 */
#ifndef MUSTER_TUNE_TUNE_WHOLE_H
#define MUSTER_TUNE_TUNE_WHOLE_H

#include "tune/tune_stats.h"
#include "tune/tune_write.h"

enum { MUSTER_TUNE_WHOLES = 5 }; /* pairs, at most */

struct muster_tune_whole {
    double log_ratio[MUSTER_TUNE_WHOLES]; /* of the sum over all classes */
    unsigned n;
    double rest_log_ratio[MUSTER_TUNE_WHOLES]; /* of the sum over the classes without a rule */
    unsigned rests;
    size_t rules;
    bool failed; /* the command did, with the rules */
};

enum muster_tune_verdict {
    MUSTER_TUNE_UNKNOWN, /* too few pairs */
    MUSTER_TUNE_GAINS,   /* the interval is below 1 */
    MUSTER_TUNE_UNSEEN,  /* around 1 */
    MUSTER_TUNE_SLOWER,  /* above 1 */
    MUSTER_TUNE_MOVED,   /* around 1, and that of the classes without a rule above 1 */
    MUSTER_TUNE_BROKEN,
};

/* A pair of runs without and with exactly these rules. Sums operations times beat of the classes
 * that have one in both; the number of operations is that of the run without, in both. */
void muster_tune_whole_pair(struct muster_tune_whole *whole, const struct muster_tune_rule *rule,
                            size_t rules, const struct muster_tune_sample *without,
                            const struct muster_tune_sample *with);
/* *interval: of the sum over all classes. */
enum muster_tune_verdict muster_tune_whole_evaluate(const struct muster_tune_whole *whole,
                                                    struct muster_tune_interval *interval);
/* Whether rules with this verdict are kept. */
bool muster_tune_whole_keeps(enum muster_tune_verdict verdict);
/* "All rules together: 0.930 of the time, 95 % interval 0.910 to 0.950, over 5 pairs of runs." and
 * what follows from it; "": nothing more. */
void muster_tune_whole_format(const struct muster_tune_whole *whole, char figure[128],
                              char meaning[128]);

#endif
