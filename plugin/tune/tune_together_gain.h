/*
 * Whether a job gains by all the rules of `muster tune` together. A class's beat ends where the
 * next operation begins; ranks that end early begin the next one early and wait there, so a rule
 * may only move time to other classes. The sum over classes shows it. Pure: samples of pairs of
 * runs go in, a verdict and its words come out.
 */
#ifndef MUSTER_TUNE_TUNE_TOGETHER_GAIN_H
#define MUSTER_TUNE_TUNE_TOGETHER_GAIN_H

#include "tune/tune_stats.h"
#include "tune/tune_write.h"

enum {
    MUSTER_TUNE_LINE = 192,
    MUSTER_TUNE_WHOLES = 5, /* pairs, at most */
    MUSTER_TUNE_PARTS = 256 /* classes that are looked at one by one */
};
/* No class may take more than that of its time because of the rules of others. */
#define MUSTER_TUNE_HARM 1.02

/* One class, with and without the rules. */
struct muster_tune_part {
    struct muster_tune_class class, after; /* after: struct muster_tune_point */
    double log_ratio[MUSTER_TUNE_WHOLES];
    unsigned n;
};

struct muster_tune_whole {
    double log_ratio[MUSTER_TUNE_WHOLES]; /* of the sum over all classes */
    unsigned n;
    double rest_log_ratio[MUSTER_TUNE_WHOLES]; /* of the sum over the classes without a rule */
    unsigned rests;
    struct muster_tune_part part[MUSTER_TUNE_PARTS];
    size_t parts;
    size_t rules;
    bool failed; /* the command did, with the rules */
};

enum muster_tune_verdict {
    MUSTER_TUNE_UNKNOWN, /* too few pairs */
    MUSTER_TUNE_GAINS,   /* the interval is below 1 */
    MUSTER_TUNE_UNSEEN,  /* around 1 */
    MUSTER_TUNE_SLOWER,  /* above 1 */
    MUSTER_TUNE_MOVED,   /* around 1, and that of the classes without a rule above 1 */
    MUSTER_TUNE_HARMS,   /* below or around 1, but some class takes longer */
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
/* The class that takes longest with the rules, compared with without: more than MUSTER_TUNE_HARM,
 * by an interval above 1. NULL: none. */
const struct muster_tune_part *muster_tune_whole_worst(const struct muster_tune_whole *whole,
                                                       struct muster_tune_interval *interval);
/* Which of the rules a class that takes longer is to be laid to: that of what runs before it, its
 * own, or the nearest before; where nothing ran before it, that which gains least. rules > 0. */
size_t muster_tune_whole_culprit(const struct muster_tune_whole *whole,
                                 const struct muster_tune_class *harmed,
                                 const struct muster_tune_rule *rule, size_t rules);
/* Whether rules with this verdict are kept. */
bool muster_tune_whole_keeps(enum muster_tune_verdict verdict);
/* "With them all_reduce 4 KiB, 4 ranks, 1 node took 9.20 of its time"; "": no class takes longer.
 */
void muster_tune_format_harm(const struct muster_tune_whole *whole, char text[MUSTER_TUNE_LINE]);
/* "All rules together: 0.930 of the time, 95 % interval 0.910 to 0.950, over 5 pairs of runs." and
 * what follows from it; "": nothing more. */
void muster_tune_whole_format(const struct muster_tune_whole *whole, char figure[MUSTER_TUNE_LINE],
                              char meaning[MUSTER_TUNE_LINE]);

#endif
