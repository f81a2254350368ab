#include "tune/tune_search.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "launch/scratch.h"
#include "policy/policy.h"
#include "tune/tune_job.h"
#include "tune/tune_tracks.h"
#include "tune/tune_whole.h"

enum {
    RUNS = 256,                    /* whose durations are remembered */
    AGAIN = 4,                     /* candidates between two runs without a policy */
    WHOLE = 2 * MUSTER_TUNE_PAIRS, /* runs that judge all rules together, at least */
    RESERVED = 6 + WHOLE,          /* runs that screening leaves: three pairs of each kind */
};
/* A run may take that many times the usual; a candidate that hangs is not waited for. */
#define PATIENCE   4.0
#define PATIENCE_S 10.0

struct search {
    const struct muster_tune_plan *plan;
    struct muster_err *err;
    char scratch[4096];
    char run[4160], said[4160]; /* run directory and output of the run at hand */
    uint64_t begin_ns;
    double seconds[RUNS];
    unsigned runs;
    struct muster_tune_tracks tracks;
    struct muster_tune_whole whole;
    struct muster_tune_rule *rule; /* scratch, one a class */
    unsigned tried;                /* candidates */
    size_t rare;                   /* classes of the first run with too few operations */
    char when[32];
    const char *ending;
    unsigned drops; /* rules that were dropped because others paid for them */
    char dropped[2 * MUSTER_TUNE_LINE]; /* what they did */
};

__attribute__((format(printf, 2, 3))) static void tell(const struct search *search, const char *fmt,
                                                       ...)
{
    va_list args;
    if (search->plan->quiet) {
        return;
    }
    double past = (double)(muster_now_ns() - search->begin_ns) / 1e9;
    fprintf(stderr, "muster tune: %3.0f of %.0f s: ", past, search->plan->budget_s);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- one run ---- */

static double usual_s(const struct search *search)
{
    double sorted[RUNS];
    unsigned n = search->runs < RUNS ? search->runs : RUNS;
    memcpy(sorted, search->seconds, n * sizeof *sorted);
    return muster_tune_median(sorted, n);
}

static double left_s(const struct search *search)
{
    return search->plan->budget_s - (double)(muster_now_ns() - search->begin_ns) / 1e9;
}

/* Whether so many runs still fit; the first one always does. */
static bool fits(const struct search *search, unsigned runs)
{
    return !search->runs || usual_s(search) * runs <= left_s(search);
}

static double limit_s(const struct search *search)
{
    if (!search->runs) {
        return search->plan->budget_s;
    }
    double limit = PATIENCE * usual_s(search);
    return limit > PATIENCE_S ? limit : PATIENCE_S;
}

static void last_words(const struct search *search)
{
    char last[300];
    muster_tune_output_end(search->said, last, sizeof last);
    if (last[0]) {
        tell(search, "its last line: %s", last);
    }
}

/* 0 and a sample; 1: the run failed, which was said; -1: it is time to end. */
static int run_once(struct search *search, const char *policy, const char *name,
                    struct muster_tune_sample *sample)
{
    struct muster_tune_ended ended;
    struct muster_err err;
    struct muster_tune_job job = {.argv = search->plan->argv,
                                  .dir = search->run,
                                  .output = search->said,
                                  .policy = policy,
                                  .limit_s = limit_s(search)};
    snprintf(search->run, sizeof search->run, "%s/run-%u", search->scratch, search->runs);
    snprintf(search->said, sizeof search->said, "%s/output", search->scratch);
    muster_tune_run_job(&job, &ended);
    if (ended.how == MUSTER_TUNE_INTERRUPTED) {
        search->ending = "interrupted";
        muster_scratch_remove(search->run);
        return -1;
    }
    search->seconds[search->runs++ % RUNS] = ended.seconds;
    int rc = 1;
    if (ended.how != MUSTER_TUNE_DONE) {
        tell(search, "run %u, %s: dropped: %s", search->runs, name, ended.why);
        last_words(search);
        muster_fail(search->err, "the command without a policy: %s", ended.why);
    } else if (muster_tune_measure(search->run, sample, &err)) {
        tell(search, "run %u, %s: dropped: %s", search->runs, name, err.text);
        *search->err = err;
    } else {
        rc = 0;
    }
    muster_scratch_remove(search->run);
    return rc;
}

/* ---- the file ---- */

/* Those that are proven, into search->rule, unless the job is better off without. */
static size_t rules_kept(const struct search *search)
{
    struct muster_tune_interval interval;
    bool kept = muster_tune_whole_keeps(muster_tune_whole_evaluate(&search->whole, &interval));
    return search->rule && kept ? muster_tune_rules_proven(&search->tracks, search->rule) : 0;
}

static int write_file(struct search *search)
{
    char part[4200], figure[MUSTER_TUNE_LINE] = "", meaning[MUSTER_TUNE_LINE] = "";
    struct muster_tune_account account = {
        .command = search->plan->argv,
        .when = search->when,
        .seconds = search->plan->budget_s - left_s(search),
        .budget_s = search->plan->budget_s,
        .runs = search->runs,
        .ending = search->ending,
        .whole = {figure, meaning, search->dropped},
        .rare = search->rare,
        .unjudged = muster_tune_unjudged(&search->tracks),
    };
    if (muster_tune_rules_proven(&search->tracks, search->rule)) {
        muster_tune_whole_format(&search->whole, figure, meaning);
    }
    size_t rules = rules_kept(search);
    snprintf(part, sizeof part, "%s.%d", search->plan->output, (int)getpid());
    FILE *out = fopen(part, "we");
    if (!out) {
        return muster_fail(search->err, "%s: %s", part, strerror(errno));
    }
    muster_tune_write(out, &account, search->rule, rules);
    if ((ferror(out) | fclose(out)) || rename(part, search->plan->output)) {
        muster_fail(search->err, "%s: %s", search->plan->output, strerror(errno));
        unlink(part);
        return -1;
    }
    return 0;
}

/* ---- screening ---- */

static int run_base(struct search *search, struct muster_tune_sample *sample)
{
    int rc = run_once(search, NULL, "without a policy", sample);
    if (rc == 0 && search->tracks.n) {
        muster_tune_add_base(&search->tracks, sample);
    }
    return rc;
}

static void report_class(const struct search *search, const struct muster_tune_point *point)
{
    char class[96], choice[64], us[32];
    bool beats = point->beat_us > 0;
    muster_tune_format_class(class, sizeof class, &point->class);
    muster_tune_format_choice(choice, sizeof choice, &point->choice);
    muster_tune_format_us(us, sizeof us, beats ? point->beat_us : point->us);
    tell(search, "  %s: %s %s, %s, %u operations", class, us,
         beats ? "from begin to begin" : "by the quickest rank's clock", choice, point->ops);
}

static void report_left_out(const struct search *search)
{
    char text[192];
    muster_tune_format_left_out(text, sizeof text, search->rare,
                                muster_tune_unjudged(&search->tracks));
    if (text[0]) {
        tell(search, "not judged: %s", text);
    }
}

static int first_run(struct search *search)
{
    struct muster_tune_sample sample;
    int rc = run_base(search, &sample);
    if (rc) {
        return -1;
    }
    rc = muster_tune_tracks_begin(&search->tracks, &sample);
    search->rule = rc ? NULL : calloc(search->tracks.n + 1, sizeof *search->rule);
    search->rare = sample.rare;
    tell(search, "run 1 (%.1f s), without a policy: %zu classes of operations", search->seconds[0],
         sample.points);
    for (size_t i = 0; i < sample.points; i++) {
        report_class(search, &sample.point[i]);
    }
    report_left_out(search);
    muster_tune_sample_free(&sample);
    return search->rule ? 0 : muster_fail_memory(search->err, "the rules");
}

static void report_screened(const struct search *search, const char *name,
                            const struct muster_tune_screened *seen)
{
    char class[96];
    if (!seen->ran) {
        tell(search, "run %u, %s: not offered, or no change", search->runs, name);
        return;
    }
    if (!seen->judged) {
        tell(search, "run %u, %s: no comparable time in %zu classes", search->runs, name,
             seen->ran);
        return;
    }
    muster_tune_format_class(class, sizeof class, &seen->best_class);
    tell(search, "run %u, %s: quicker in %zu of %zu classes, the best %.3f (%s)", search->runs,
         name, seen->quicker, seen->judged, seen->best, class);
}

/* Tries search->rule[0..rules); *sample is filled, and *quicker told, where it returns 0. */
static int try_rules(struct search *search, const char *name, size_t rules, uint32_t force,
                     struct muster_tune_sample *sample, bool *quicker)
{
    char *text = muster_tune_text(search->rule, rules, force);
    if (!text) {
        return -1;
    }
    int rc = run_once(search, text, name, sample);
    free(text);
    if (rc) {
        return rc;
    }
    struct muster_tune_screened seen =
        muster_tune_screen(&search->tracks, sample, search->rule, rules);
    report_screened(search, name, &seen);
    *quicker = seen.quicker > 0;
    return 0;
}

/* Half the channels of what ran in `sample`. */
static int try_halved(struct search *search, const char *of,
                      const struct muster_tune_sample *sample, bool own)
{
    struct muster_tune_sample halved;
    char name[96];
    bool quicker;
    size_t rules = muster_tune_rules_halved(&search->tracks, sample, own, search->rule);
    if (!rules || !fits(search, 1 + RESERVED)) {
        return 0;
    }
    snprintf(name, sizeof name, "%s, half the channels", of);
    int rc = try_rules(search, name, rules, 0, &halved, &quicker);
    if (rc == 0) {
        muster_tune_sample_free(&halved);
    }
    return rc;
}

static int try_combination(struct search *search, const struct muster_tune_choice *choice)
{
    struct muster_tune_sample sample;
    char name[64];
    bool quicker = false;
    size_t rules = muster_tune_rules_forced(&search->tracks, choice, search->rule);
    if (!rules) {
        return 0;
    }
    muster_tune_format_choice(name, sizeof name, choice);
    int rc = try_rules(search, name, rules, muster_policy_combination(choice->algo, choice->proto),
                       &sample, &quicker);
    if (rc) {
        return rc;
    }
    rc = quicker ? try_halved(search, name, &sample, false) : 0;
    muster_tune_sample_free(&sample);
    return rc;
}

static int another_base(struct search *search)
{
    struct muster_tune_sample sample;
    int rc = run_base(search, &sample);
    if (rc == 0) {
        muster_tune_sample_free(&sample);
    }
    return rc;
}

static int halve_own(struct search *search)
{
    struct muster_tune_sample sample;
    int rc = run_base(search, &sample);
    if (rc) {
        return rc;
    }
    rc = try_halved(search, "NCCL's choice", &sample, true);
    muster_tune_sample_free(&sample);
    return rc;
}

/* 1: the budget does not reach for another candidate; -1: end. */
static int next_candidate(struct search *search)
{
    if (!fits(search, 2 + RESERVED)) {
        tell(search, "the budget does not reach for the other candidates");
        search->ending = "the budget did not reach for all candidates";
        return 1;
    }
    return search->tried++ % AGAIN == AGAIN - 1 && another_base(search) < 0 ? -1 : 0;
}

/* What is to be tried of the algorithms from `first` to `last`. */
static uint32_t combinations_of(struct search *search, uint8_t first, uint8_t last)
{
    uint32_t combinations = 0;
    for (uint8_t algo = first; algo <= last; algo++) {
        for (unsigned proto = 1; proto <= MUSTER_POLICY_PROTOS; proto++) {
            struct muster_tune_choice choice = {.algo = (uint8_t)algo, .proto = (uint8_t)proto};
            if (muster_tune_rules_forced(&search->tracks, &choice, search->rule)) {
                combinations |= muster_policy_combination(algo, proto);
            }
        }
    }
    return combinations;
}

/* One run of each. 1: the budget did not reach; -1: end. */
static int try_each(struct search *search, uint32_t combinations)
{
    int rc = 0;
    for (unsigned algo = 1; algo <= MUSTER_POLICY_ALGOS; algo++) {
        for (unsigned proto = 1; proto <= MUSTER_POLICY_PROTOS; proto++) {
            struct muster_tune_choice choice = {.algo = (uint8_t)algo, .proto = (uint8_t)proto};
            if (!(combinations & muster_policy_combination(algo, proto))) {
                continue;
            }
            rc = next_candidate(search);
            if (rc == 0 && try_combination(search, &choice) < 0) {
                rc = -1;
            }
            if (rc) {
                return rc;
            }
        }
    }
    return 0;
}

/* What NCCL offers on few machines: one run that prefers it all shows whether there is any. */
static int try_special(struct search *search, uint32_t combinations)
{
    static const char name[] = "any algorithm but tree and ring";
    struct muster_tune_sample sample;
    if (!(combinations & (combinations - 1))) {
        return try_each(search, combinations);
    }
    int rc = next_candidate(search);
    if (rc) {
        return rc;
    }
    char *text = muster_tune_text(NULL, 0, combinations);
    rc = text ? run_once(search, text, name, &sample) : -1;
    free(text);
    if (rc) { /* of those that fail together one alone may do well */
        return rc < 0 ? -1 : try_each(search, combinations);
    }
    bool offered = muster_tune_any_ran(&sample, combinations);
    tell(search, "run %u, %s: %s", search->runs, name,
         offered ? "offered, so each is tried" : "none is offered");
    muster_tune_sample_free(&sample);
    return offered ? try_each(search, combinations) : 0;
}

/* One run of each candidate, as far as the budget goes and leaves three pairs. -1: end. */
static int screen(struct search *search)
{
    uint32_t usual = combinations_of(search, MUSTER_ALGO_TREE, MUSTER_ALGO_RING);
    uint32_t special = combinations_of(search, MUSTER_ALGO_RING + 1, MUSTER_POLICY_ALGOS);
    if (fits(search, 2 + RESERVED) && halve_own(search) < 0) {
        return -1;
    }
    int rc = try_each(search, usual);
    if (rc == 0) {
        rc = try_special(search, special);
    }
    return rc < 0 ? -1 : 0;
}

/* ---- rounds ---- */

/* A run with a lane's rules. 1: it failed, and the lane is out. */
static int run_lane(struct search *search, unsigned lane, struct muster_tune_sample *sample)
{
    char name[48];
    size_t rules = muster_tune_rules_lane(&search->tracks, lane, search->rule);
    char *text = muster_tune_text(search->rule, rules, 0);
    snprintf(name, sizeof name, "%s of %zu classes", lane ? "the second best" : "the best", rules);
    int rc = text ? run_once(search, text, name, sample) : -1;
    free(text);
    if (rc > 0) {
        muster_tune_drop(&search->tracks, lane);
    }
    return rc;
}

/* Who of `lanes` is still open, and a run without: the order turns with each round, so that what
 * drifts favours nobody. */
static int one_round(struct search *search, unsigned round)
{
    enum { PLACES = MUSTER_TUNE_LANES + 1 };
    struct muster_tune_sample sample[PLACES] = {{.point = NULL}};
    int rc = 0;
    for (unsigned i = 0; rc >= 0 && i < PLACES; i++) {
        unsigned place = round % 2 ? PLACES - 1 - i : i; /* the last: without */
        if (place < MUSTER_TUNE_LANES && !muster_tune_open(&search->tracks, place)) {
            continue;
        }
        rc = place < MUSTER_TUNE_LANES ? run_lane(search, place, &sample[place])
                                       : run_base(search, &sample[place]);
    }
    for (unsigned lane = 0; lane < MUSTER_TUNE_LANES; lane++) {
        if (sample[lane].point && sample[MUSTER_TUNE_LANES].point) {
            muster_tune_pair(&search->tracks, lane, &sample[MUSTER_TUNE_LANES], &sample[lane]);
        }
    }
    for (unsigned i = 0; i < PLACES; i++) {
        muster_tune_sample_free(&sample[i]);
    }
    return rc < 0 ? -1 : 0;
}

static unsigned runs_of_round(const struct search *search)
{
    unsigned runs = 1;
    for (unsigned lane = 0; lane < MUSTER_TUNE_LANES; lane++) {
        runs += muster_tune_open(&search->tracks, lane) > 0;
    }
    return runs;
}

/* Where the budget reaches for three pairs of one lane only, the second best is left out. */
static void spare(struct search *search)
{
    if (runs_of_round(search) > 2 &&
        !fits(search, runs_of_round(search) * MUSTER_TUNE_PAIRS + WHOLE)) {
        tell(search, "the budget does not reach for the second best of each class");
        muster_tune_drop(&search->tracks, 1);
    }
}

static int pairs(struct search *search)
{
    spare(search);
    for (unsigned round = 0; round < MUSTER_TUNE_ROUNDS; round++) {
        unsigned runs = runs_of_round(search);
        if (runs == 1) {
            return 0;
        }
        bool proven = muster_tune_rules_proven(&search->tracks, search->rule) > 0;
        if (!fits(search, runs + (proven ? WHOLE : 0))) {
            search->ending = round < MUSTER_TUNE_PAIRS
                                 ? "the budget did not reach for three pairs of runs"
                                 : search->ending;
            return 0;
        }
        if (one_round(search, round)) {
            return -1;
        }
        tell(search, "pair %u of runs: %zu rules proven, %zu open", round + 1,
             muster_tune_rules_proven(&search->tracks, search->rule),
             muster_tune_open(&search->tracks, 0) + muster_tune_open(&search->tracks, 1));
        if (write_file(search)) {
            return -1;
        }
    }
    return 0;
}

/* ---- all rules together ---- */

/* Without and with search->rule[0..rules). 1: one of them failed; -1: end. */
static int whole_pair(struct search *search, size_t rules, const char *policy, bool first)
{
    struct muster_tune_sample without = {.point = NULL}, with = {.point = NULL};
    int rc = 0;
    for (int i = 0; rc == 0 && i < 2; i++) {
        bool bare = first == (i == 0);
        rc = bare ? run_base(search, &without) : run_once(search, policy, "all rules", &with);
        search->whole.failed |= !bare && rc > 0;
    }
    if (rc == 0) {
        muster_tune_whole_pair(&search->whole, search->rule, rules, &without, &with);
    }
    muster_tune_sample_free(&without);
    muster_tune_sample_free(&with);
    return rc;
}

/* Pairs of their own: those before had other sets of rules, and chose these. How many is settled
 * before the first, as one that may stop when it likes what it sees would stop too early. */
static void evaluate_rules(struct search *search, size_t rules)
{
    char figure[MUSTER_TUNE_LINE], meaning[MUSTER_TUNE_LINE];
    char *text = muster_tune_text(search->rule, rules, 0);
    unsigned n = MUSTER_TUNE_WHOLES, i = 0;
    search->whole = (struct muster_tune_whole){.rules = rules};
    while (n && !fits(search, 2 * n)) {
        n = n > MUSTER_TUNE_PAIRS ? n - 1 : 0;
    }
    while (text && i < n && fits(search, 2) && whole_pair(search, rules, text, i % 2 == 0) >= 0) {
        i = search->whole.failed ? n : i + 1;
    }
    if (i < MUSTER_TUNE_PAIRS && !search->ending[0]) {
        search->ending = "the budget did not reach for three pairs with all rules";
    }
    muster_tune_whole_format(&search->whole, figure, meaning);
    tell(search, "%s%s%s", figure, meaning[0] ? " " : "", meaning);
    free(text);
}

/* Drops the rule that what became slower is laid to. False: nothing did, or too little would be left
 * to measure with. */
static bool drop_culprit(struct search *search, size_t rules)
{
    char harm[MUSTER_TUNE_LINE], class[96];
    struct muster_tune_interval interval;
    bool kept = muster_tune_whole_keeps(muster_tune_whole_evaluate(&search->whole, &interval));
    const struct muster_tune_part *worst = muster_tune_whole_worst(&search->whole, &interval);
    if (kept || !worst || rules < 2 || !fits(search, WHOLE)) {
        return false;
    }
    size_t culprit = muster_tune_whole_culprit(&search->whole, &worst->class, search->rule, rules);
    muster_tune_format_harm(&search->whole, harm);
    muster_tune_format_class(class, sizeof class, &search->rule[culprit].class);
    tell(search, "%s: the rule for %s is dropped", harm, class);
    search->drops++;
    snprintf(search->dropped, sizeof search->dropped,
             "Dropped because others paid for what they gained: %u rule%s, the last for %s.",
             search->drops, search->drops > 1 ? "s" : "", class);
    muster_tune_forbid(&search->tracks, &search->rule[culprit].class);
    return true;
}

static void evaluate_whole(struct search *search)
{
    size_t rules;
    do {
        rules = muster_tune_rules_proven(&search->tracks, search->rule);
        if (rules) {
            evaluate_rules(search, rules);
        }
    } while (rules && drop_culprit(search, rules));
}

/* ---- all of it ---- */

static int search_all(struct search *search)
{
    if (first_run(search)) {
        return -1;
    }
    if (write_file(search)) {
        return -1;
    }
    if (screen(search) == 0) {
        muster_tune_settle(&search->tracks);
        if (pairs(search) == 0) {
            evaluate_whole(search);
        }
        report_left_out(search);
    }
    return write_file(search);
}

int muster_tune_search(const struct muster_tune_plan *plan, struct muster_err *err)
{
    struct search search = {.plan = plan, .err = err, .begin_ns = muster_now_ns(), .ending = ""};
    const char *below = muster_env("TMPDIR");
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(search.when, sizeof search.when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (muster_scratch_make(search.scratch, sizeof search.scratch, below ? below : "/tmp", err)) {
        return -1;
    }
    muster_tune_watch_signals();
    int rc = search_all(&search);
    if (rc == 0) {
        tell(&search, "%zu rules in %s after %u runs%s%s", rules_kept(&search), plan->output,
             search.runs, search.ending[0] ? "; " : "", search.ending);
    }
    muster_tune_tracks_free(&search.tracks);
    free(search.rule);
    muster_scratch_remove(search.scratch);
    int signal = muster_tune_interrupted();
    return signal ? 128 + signal : rc;
}
