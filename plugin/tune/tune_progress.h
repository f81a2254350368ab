/* A search of `muster tune` under way, shared by its parts: screening and pairs (tune_search.c),
 * all rules together (tune_together.c). One thread. */
#ifndef MUSTER_TUNE_TUNE_PROGRESS_H
#define MUSTER_TUNE_TUNE_PROGRESS_H

#include "base/arena.h"
#include "tune/tune_search.h"
#include "tune/tune_together_gain.h"
#include "tune/tune_tracks.h"

enum {
    MUSTER_TUNE_RUNS = 256, /* whose durations are remembered */
    MUSTER_TUNE_AGAIN = 4,  /* candidates between two runs without a policy */
    MUSTER_TUNE_WHOLE_RUNS =
        2 * MUSTER_TUNE_PAIRS, /* runs that evaluate all rules together, at least */
    MUSTER_TUNE_RESERVED =
        6 + MUSTER_TUNE_WHOLE_RUNS, /* runs that screening leaves: three pairs of each kind */
};
struct muster_tune_progress {
    const struct muster_tune_plan *plan;
    struct muster_err *err;
    char scratch[4096];
    char run[4160], output[4160]; /* run directory and output of the run at hand */
    uint64_t begin_ns;
    double seconds[MUSTER_TUNE_RUNS];
    unsigned runs;
    struct muster_tune_tracks tracks;
    struct muster_tune_whole whole;
    struct muster_tune_rule *rule; /* scratch, one a class */
    struct muster_arena memory;    /* of the search: rules and policies */
    unsigned tried;                /* candidates */
    size_t rare;                   /* classes of the first run with too few operations */
    char when[32];
    const char *ending;
    unsigned drops;                     /* rules that were dropped because others paid for them */
    char dropped[2 * MUSTER_TUNE_LINE]; /* what they did */
};

/* A line on stderr with the time, unless the search is quiet. */
__attribute__((format(printf, 2, 3))) void
muster_tune_log(const struct muster_tune_progress *search, const char *fmt, ...);
/* Whether so many runs still fit; the first one always does. */
bool muster_tune_fits(const struct muster_tune_progress *search, unsigned runs);
/* 0 and a sample; 1: the run failed, which was reported; -1: it is time to end. */
int muster_tune_run_once(struct muster_tune_progress *search, const char *policy, const char *name,
                         struct muster_tune_sample *sample);
/* The same without a policy. */
int muster_tune_run_base(struct muster_tune_progress *search, struct muster_tune_sample *sample);

/* Evaluates the proven rules in pairs of runs of their own, and drops those that others pay for. */
void muster_tune_together(struct muster_tune_progress *search);

#endif
