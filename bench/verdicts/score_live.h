/* What was told while the job ran: the same tables, and when, whether it held, and how many clean
 * runs heard a word. */
#ifndef MUSTER_BENCH_VERDICTS_SCORE_LIVE_H
#define MUSTER_BENCH_VERDICTS_SCORE_LIVE_H

#include "live_emitted.h"
#include "score.h"

enum { LIVE_DELAYS = 16384, LIVE_LASTED = 4 };

/* Faults that were due, and of them those that were named. */
struct score_live_share {
    unsigned due, named;
};

struct score_live {
    unsigned clean, clean_emitted; /* runs without a fault, and of them those with anything told */
    unsigned clean_so; /* that every rank waits alike, where all wait for their input: it is so */
    unsigned emitted, retracted, wrong, gone; /* gone: not found afterwards by any of its ranks */
    double delay_s[LIVE_DELAYS];              /* from when the fault had cost 0.1 s, 1 % of 10 s */
    unsigned delays;
    /* Of jobs of which nine tenths of the ranks are recorded at least, by how long the fault
     * lasted; and of others, where a fleet's worker is silent. */
    struct score_live_share lasted[LIVE_LASTED], unheard;
    struct score_live_share one; /* of these jobs, of 10 s and more, faults of one rank */
    double busy_s, looked_s;
};

/* `after`: what was found offline. */
void score_live_add(struct score_live *score, const struct job *job, const struct truth *truth,
                    const struct live_run *run, const struct evaluated *after);
/* The findings told, to be scored like those found afterwards; free with evaluated_free. */
void score_live_evaluated(const struct live_run *run, struct evaluated *evaluated);
void score_live_explain(const struct job *job, const struct live_run *run, FILE *out);
void score_live_print(struct score_live *score, FILE *out);

#endif
