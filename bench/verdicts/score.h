/*
 * Findings against the truth. A finding is right if all ranks it names are culprits, and of the
 * kind of fault that they are in; one that names only what the job is like (a heavy last stage, a
 * hot expert) is neither right nor wrong. A culprit that is due and not named is missed.
 */
#ifndef MUSTER_BENCH_VERDICTS_SCORE_H
#define MUSTER_BENCH_VERDICTS_SCORE_H

#include <stdio.h>

#include "evaluated.h"
#include "truth.h"

enum verdict { VERDICT_RIGHT, VERDICT_WRONG, VERDICT_NEUTRAL, VERDICT_NONE };

/* A row of a table. */
struct score_row {
    unsigned cases, emitted; /* told: cases with any finding that counts */
    unsigned due, found;
    unsigned right, wrong, neutral;
    unsigned victims; /* innocent ranks named */
    unsigned alike;   /* cases where every rank was said to wait alike */
};

enum { SCORE_COSTS = 8, SCORE_TENTHS = 10, SCORE_RATIOS = 16384, SCORE_PROOFS = 8 };

struct score {
    struct score_row all, category[CASES], family[FAMILIES];
    unsigned shown[SCORE_COSTS], named[SCORE_COSTS]; /* by true cost */
    unsigned sure[SCORE_TENTHS], sure_right[SCORE_TENTHS];
    double sure_sum[SCORE_TENTHS], brier;
    unsigned sures;
    struct score_proof {
        double p;
        unsigned n, right; /* n 0: free */
    } proof[SCORE_PROOFS]; /* by the confidence itself: each is that of one kind of evidence */
    struct score_ratio {
        double value; /* cost said of the whole run over true cost */
        unsigned family;
    } ratio[SCORE_RATIOS];
    unsigned ratios;
    unsigned causes_due, causes, causes_right; /* faults of ranks; cause said; rightly */
    uint64_t ops;
    double busy_s;
};

/* Bits of the faults that a finding names, in *faults. */
enum verdict score_finding(const struct job *job, const struct muster_finding *finding,
                           unsigned *faults);
void score_add(struct score *score, const struct job *job, const struct truth *truth,
               const struct recorded *recorded, const struct evaluated *evaluated);
/* Whether anything of the case is wrong or missing. */
bool score_is_bad(const struct job *job, const struct truth *truth,
                  const struct evaluated *evaluated);
void score_print(struct score *score, FILE *out);
/* What the case is, its truth, what was said. */
void score_explain(const struct job *job, const struct truth *truth,
                   const struct recorded *recorded, const struct evaluated *evaluated,
                   bool evidence, FILE *out);
/* What it says that the run lost, what was not timed included, as the truth is. */
double score_cost_s(const struct muster_finding *finding);
/* One line a finding, and one a fault that was not named; a header with NULL. */
void score_csv(uint64_t seed, const struct job *job, const struct truth *truth,
               const struct recorded *recorded, const struct evaluated *evaluated, FILE *out);

#endif
