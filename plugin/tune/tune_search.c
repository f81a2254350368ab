#include "tune/tune_progress.h"

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
#include "tune/tune_together_gain.h"
#include "tune/tune_tracks.h"

/* A run may take that many times the usual; a candidate that hangs is not waited for. */
#define PATIENCE   4.0
#define PATIENCE_S 10.0

void muster_tune_log(const struct muster_tune_progress *search, const char *fmt, ...)
{
    va_list args;
    if (search->plan->quiet)
        return;
    double past = (double)(muster_now_ns() - search->begin_ns) / 1e9;
    fprintf(stderr, "muster tune: %3.0f of %.0f s: ", past, search->plan->budget_s);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

/* ---- one run ---- */

static double usual_s(const struct muster_tune_progress *search)
{
    double sorted[MUSTER_TUNE_RUNS];
    unsigned n = search->runs < MUSTER_TUNE_RUNS ? search->runs : MUSTER_TUNE_RUNS;
    memcpy(sorted, search->seconds, n * sizeof *sorted);
    return muster_tune_median(sorted, n);
}

static double left_s(const struct muster_tune_progress *search)
{
    return search->plan->budget_s - (double)(muster_now_ns() - search->begin_ns) / 1e9;
}

bool muster_tune_fits(const struct muster_tune_progress *search, unsigned runs)
{
    return !search->runs || usual_s(search) * runs <= left_s(search);
}

static double limit_s(const struct muster_tune_progress *search)
{
    if (!search->runs)
        return search->plan->budget_s;
    double limit = PATIENCE * usual_s(search);
    return limit > PATIENCE_S ? limit : PATIENCE_S;
}

static void last_words(const struct muster_tune_progress *search)
{
    char last[300];
    muster_tune_output_end(search->output, last, sizeof last);
    if (last[0])
        muster_tune_log(search, "its last line: %s", last);
}

int muster_tune_run_once(struct muster_tune_progress *search, const char *policy, const char *name,
                         struct muster_tune_sample *sample)
{
    struct muster_tune_ended ended;
    struct muster_err err;
    struct muster_tune_job job = {.argv = search->plan->argv,
                                  .dir = search->run,
                                  .output = search->output,
                                  .policy = policy,
                                  .limit_s = limit_s(search)};
    snprintf(search->run, sizeof search->run, "%s/run-%u", search->scratch, search->runs);
    snprintf(search->output, sizeof search->output, "%s/output", search->scratch);
    muster_tune_run_job(&job, &ended);
    if (ended.how == MUSTER_TUNE_INTERRUPTED) {
        search->ending = "interrupted";
        muster_scratch_remove(search->run);
        return -1;
    }
    search->seconds[search->runs++ % MUSTER_TUNE_RUNS] = ended.seconds;
    int rc = 1;
    if (ended.how != MUSTER_TUNE_DONE) {
        muster_tune_log(search, "run %u, %s: dropped: %s", search->runs, name, ended.why);
        last_words(search);
        muster_fail(search->err, "the command without a policy: %s", ended.why);
    } else if (muster_tune_measure(search->run, sample, &err)) {
        muster_tune_log(search, "run %u, %s: dropped: %s", search->runs, name, err.text);
        *search->err = err;
    } else {
        rc = 0;
    }
    muster_scratch_remove(search->run);
    return rc;
}

/* ---- the file ---- */

/* Those that are proven, into search->rule, unless the job is better off without. */
static size_t rules_kept(const struct muster_tune_progress *search)
{
    struct muster_tune_interval interval;
    bool kept = muster_tune_whole_keeps(muster_tune_whole_evaluate(&search->whole, &interval));
    return search->rule && kept ? muster_tune_rules_proven(&search->tracks, search->rule) : 0;
}

static int write_file(struct muster_tune_progress *search)
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
        .unevaluated = muster_tune_unevaluated(&search->tracks),
    };
    if (muster_tune_rules_proven(&search->tracks, search->rule))
        muster_tune_whole_format(&search->whole, figure, meaning);
    size_t rules = rules_kept(search);
    snprintf(part, sizeof part, "%s.%d", search->plan->output, (int)getpid());
    FILE *out = fopen(part, "we");
    if (!out)
        return muster_fail(search->err, "%s: %s", part, strerror(errno));
    muster_tune_write(out, &account, search->rule, rules);
    if ((ferror(out) | fclose(out)) || rename(part, search->plan->output)) {
        muster_fail(search->err, "%s: %s", search->plan->output, strerror(errno));
        unlink(part);
        return -1;
    }
    return 0;
}

/* ---- screening ---- */

int muster_tune_run_base(struct muster_tune_progress *search, struct muster_tune_sample *sample)
{
    int rc = muster_tune_run_once(search, NULL, "without a policy", sample);
    if (rc == 0 && search->tracks.n)
        muster_tune_add_base(&search->tracks, sample);
    return rc;
}

static void report_class(const struct muster_tune_progress *search,
                         const struct muster_tune_point *point)
{
    char class[96], choice[64], us[32];
    bool beats = point->beat_us > 0;
    muster_tune_format_class(class, sizeof class, &point->class);
    muster_tune_format_choice(choice, sizeof choice, &point->choice);
    muster_tune_format_us(us, sizeof us, beats ? point->beat_us : point->us);
    muster_tune_log(search, "  %s: %s %s, %s, %u operations", class, us,
                    beats ? "from begin to begin" : "by the quickest rank's clock", choice,
                    point->ops);
}

static void report_left_out(const struct muster_tune_progress *search)
{
    char text[192];
    muster_tune_format_left_out(text, sizeof text, search->rare,
                                muster_tune_unevaluated(&search->tracks));
    if (text[0])
        muster_tune_log(search, "not judged: %s", text);
}

static int first_run(struct muster_tune_progress *search)
{
    struct muster_tune_sample sample;
    int rc = muster_tune_run_base(search, &sample);
    if (rc)
        return -1;
    rc = muster_tune_tracks_begin(&search->tracks, &sample);
    search->rule =
        rc ? NULL : muster_arena_array(&search->memory, search->tracks.n + 1, sizeof *search->rule);
    search->rare = sample.rare;
    muster_tune_log(search, "run 1 (%.1f s), without a policy: %zu classes of operations",
                    search->seconds[0], sample.points);
    for (size_t i = 0; i < sample.points; i++)
        report_class(search, &sample.point[i]);
    report_left_out(search);
    muster_tune_sample_free(&sample);
    return search->rule ? 0 : muster_fail_memory(search->err, "the rules");
}

static void report_screened(const struct muster_tune_progress *search, const char *name,
                            const struct muster_tune_screened *seen)
{
    char class[96];
    if (!seen->ran) {
        muster_tune_log(search, "run %u, %s: not offered, or no change", search->runs, name);
        return;
    }
    if (!seen->evaluated) {
        muster_tune_log(search, "run %u, %s: no comparable time in %zu classes", search->runs, name,
                        seen->ran);
        return;
    }
    muster_tune_format_class(class, sizeof class, &seen->best_class);
    muster_tune_log(search, "run %u, %s: quicker in %zu of %zu classes, the best %.3f (%s)",
                    search->runs, name, seen->quicker, seen->evaluated, seen->best, class);
}

/* Tries search->rule[0..rules); *sample is filled, and *quicker set, where it returns 0. */
static int try_rules(struct muster_tune_progress *search, const char *name, size_t rules,
                     uint32_t force, struct muster_tune_sample *sample, bool *quicker)
{
    const char *text = muster_tune_text(&search->memory, search->rule, rules, force);
    if (!text)
        return -1;
    int rc = muster_tune_run_once(search, text, name, sample);
    if (rc)
        return rc;
    struct muster_tune_screened seen =
        muster_tune_screen(&search->tracks, sample, search->rule, rules);
    report_screened(search, name, &seen);
    *quicker = seen.quicker > 0;
    return 0;
}

/* Half the channels of what ran in `sample`. */
static int try_halved(struct muster_tune_progress *search, const char *of,
                      const struct muster_tune_sample *sample, bool own)
{
    struct muster_tune_sample halved;
    char name[96];
    bool quicker;
    size_t rules = muster_tune_rules_halved(&search->tracks, sample, own, search->rule);
    if (!rules || !muster_tune_fits(search, 1 + MUSTER_TUNE_RESERVED))
        return 0;
    snprintf(name, sizeof name, "%s, half the channels", of);
    int rc = try_rules(search, name, rules, 0, &halved, &quicker);
    if (rc == 0)
        muster_tune_sample_free(&halved);
    return rc;
}

static int try_combination(struct muster_tune_progress *search,
                           const struct muster_tune_choice *choice)
{
    struct muster_tune_sample sample;
    char name[64];
    bool quicker = false;
    size_t rules = muster_tune_rules_forced(&search->tracks, choice, search->rule);
    if (!rules)
        return 0;
    muster_tune_format_choice(name, sizeof name, choice);
    int rc = try_rules(search, name, rules, muster_policy_combination(choice->algo, choice->proto),
                       &sample, &quicker);
    if (rc)
        return rc;
    rc = quicker ? try_halved(search, name, &sample, false) : 0;
    muster_tune_sample_free(&sample);
    return rc;
}

static int another_base(struct muster_tune_progress *search)
{
    struct muster_tune_sample sample;
    int rc = muster_tune_run_base(search, &sample);
    if (rc == 0)
        muster_tune_sample_free(&sample);
    return rc;
}

static int halve_own(struct muster_tune_progress *search)
{
    struct muster_tune_sample sample;
    int rc = muster_tune_run_base(search, &sample);
    if (rc)
        return rc;
    rc = try_halved(search, "NCCL's choice", &sample, true);
    muster_tune_sample_free(&sample);
    return rc;
}

/* 1: the budget does not reach for another candidate; -1: end. */
static int next_candidate(struct muster_tune_progress *search)
{
    if (!muster_tune_fits(search, 2 + MUSTER_TUNE_RESERVED)) {
        muster_tune_log(search, "the budget does not reach for the other candidates");
        search->ending = "the budget did not reach for all candidates";
        return 1;
    }
    return search->tried++ % MUSTER_TUNE_AGAIN == MUSTER_TUNE_AGAIN - 1 && another_base(search) < 0
               ? -1
               : 0;
}

/* What is to be tried of the algorithms from `first` to `last`. */
static uint32_t combinations_of(struct muster_tune_progress *search, uint8_t first, uint8_t last)
{
    uint32_t combinations = 0;
    for (uint8_t algo = first; algo <= last; algo++) {
        for (unsigned proto = 1; proto <= MUSTER_POLICY_PROTOS; proto++) {
            struct muster_tune_choice choice = {.algo = (uint8_t)algo, .proto = (uint8_t)proto};
            if (muster_tune_rules_forced(&search->tracks, &choice, search->rule))
                combinations |= muster_policy_combination(algo, proto);
        }
    }
    return combinations;
}

/* One run of each. 1: the budget did not reach; -1: end. */
static int try_each(struct muster_tune_progress *search, uint32_t combinations)
{
    int rc = 0;
    for (unsigned algo = 1; algo <= MUSTER_POLICY_ALGOS; algo++) {
        for (unsigned proto = 1; proto <= MUSTER_POLICY_PROTOS; proto++) {
            struct muster_tune_choice choice = {.algo = (uint8_t)algo, .proto = (uint8_t)proto};
            if (!(combinations & muster_policy_combination(algo, proto)))
                continue;
            rc = next_candidate(search);
            if (rc == 0 && try_combination(search, &choice) < 0)
                rc = -1;
            if (rc)
                return rc;
        }
    }
    return 0;
}

/* What NCCL offers on few machines: one run that prefers it all shows whether there is any. */
static int try_special(struct muster_tune_progress *search, uint32_t combinations)
{
    static const char name[] = "any algorithm but tree and ring";
    struct muster_tune_sample sample;
    if (!(combinations & (combinations - 1)))
        return try_each(search, combinations);
    int rc = next_candidate(search);
    if (rc)
        return rc;
    const char *text = muster_tune_text(&search->memory, NULL, 0, combinations);
    rc = text ? muster_tune_run_once(search, text, name, &sample) : -1;
    if (rc) /* of those that fail together one alone may do well */
        return rc < 0 ? -1 : try_each(search, combinations);
    bool offered = muster_tune_any_ran(&sample, combinations);
    muster_tune_log(search, "run %u, %s: %s", search->runs, name,
                    offered ? "offered, so each is tried" : "none is offered");
    muster_tune_sample_free(&sample);
    return offered ? try_each(search, combinations) : 0;
}

/* One run of each candidate, as far as the budget goes and leaves three pairs. -1: end. */
static int screen(struct muster_tune_progress *search)
{
    uint32_t usual = combinations_of(search, MUSTER_ALGO_TREE, MUSTER_ALGO_RING);
    uint32_t special = combinations_of(search, MUSTER_ALGO_RING + 1, MUSTER_POLICY_ALGOS);
    if (muster_tune_fits(search, 2 + MUSTER_TUNE_RESERVED) && halve_own(search) < 0)
        return -1;
    int rc = try_each(search, usual);
    if (rc == 0)
        rc = try_special(search, special);
    return rc < 0 ? -1 : 0;
}

/* ---- rounds ---- */

/* A run with a lane's rules. 1: it failed, and the lane is out. */
static int run_lane(struct muster_tune_progress *search, unsigned lane,
                    struct muster_tune_sample *sample)
{
    char name[48];
    size_t rules = muster_tune_rules_lane(&search->tracks, lane, search->rule);
    const char *text = muster_tune_text(&search->memory, search->rule, rules, 0);
    snprintf(name, sizeof name, "%s of %zu classes", lane ? "the second best" : "the best", rules);
    int rc = text ? muster_tune_run_once(search, text, name, sample) : -1;
    if (rc > 0)
        muster_tune_drop(&search->tracks, lane);
    return rc;
}

/* Who of `lanes` is still open, and a run without: the order turns with each round, so that what
 * drifts favours nobody. */
static int one_round(struct muster_tune_progress *search, unsigned round)
{
    enum { PLACES = MUSTER_TUNE_LANES + 1 };
    struct muster_tune_sample sample[PLACES] = {{.point = NULL}};
    int rc = 0;
    for (unsigned i = 0; rc >= 0 && i < PLACES; i++) {
        unsigned place = round % 2 ? PLACES - 1 - i : i; /* the last: without */
        if (place < MUSTER_TUNE_LANES && !muster_tune_open(&search->tracks, place))
            continue;
        rc = place < MUSTER_TUNE_LANES ? run_lane(search, place, &sample[place])
                                       : muster_tune_run_base(search, &sample[place]);
    }
    for (unsigned lane = 0; lane < MUSTER_TUNE_LANES; lane++)
        if (sample[lane].point && sample[MUSTER_TUNE_LANES].point)
            muster_tune_pair(&search->tracks, lane, &sample[MUSTER_TUNE_LANES], &sample[lane]);
    for (unsigned i = 0; i < PLACES; i++)
        muster_tune_sample_free(&sample[i]);
    return rc < 0 ? -1 : 0;
}

static unsigned runs_of_round(const struct muster_tune_progress *search)
{
    unsigned runs = 1;
    for (unsigned lane = 0; lane < MUSTER_TUNE_LANES; lane++)
        runs += muster_tune_open(&search->tracks, lane) > 0;
    return runs;
}

/* Where the budget reaches for three pairs of one lane only, the second best is left out. */
static void spare(struct muster_tune_progress *search)
{
    if (runs_of_round(search) > 2 &&
        !muster_tune_fits(search,
                          runs_of_round(search) * MUSTER_TUNE_PAIRS + MUSTER_TUNE_WHOLE_RUNS)) {
        muster_tune_log(search, "the budget does not reach for the second best of each class");
        muster_tune_drop(&search->tracks, 1);
    }
}

static int pairs(struct muster_tune_progress *search)
{
    spare(search);
    for (unsigned round = 0; round < MUSTER_TUNE_ROUNDS; round++) {
        unsigned runs = runs_of_round(search);
        if (runs == 1)
            return 0;
        bool proven = muster_tune_rules_proven(&search->tracks, search->rule) > 0;
        if (!muster_tune_fits(search, runs + (proven ? MUSTER_TUNE_WHOLE_RUNS : 0))) {
            search->ending = round < MUSTER_TUNE_PAIRS
                                 ? "the budget did not reach for three pairs of runs"
                                 : search->ending;
            return 0;
        }
        if (one_round(search, round))
            return -1;
        muster_tune_log(search, "pair %u of runs: %zu rules proven, %zu open", round + 1,
                        muster_tune_rules_proven(&search->tracks, search->rule),
                        muster_tune_open(&search->tracks, 0) +
                            muster_tune_open(&search->tracks, 1));
        if (write_file(search))
            return -1;
    }
    return 0;
}

/* ---- all of it ---- */

static int search_all(struct muster_tune_progress *search)
{
    if (first_run(search))
        return -1;
    if (write_file(search))
        return -1;
    if (screen(search) == 0) {
        muster_tune_settle(&search->tracks);
        if (pairs(search) == 0)
            muster_tune_together(search);
        report_left_out(search);
    }
    return write_file(search);
}

int muster_tune_search(const struct muster_tune_plan *plan, struct muster_err *err)
{
    struct muster_tune_progress search = {
        .plan = plan, .err = err, .begin_ns = muster_now_ns(), .ending = ""};
    const char *below = muster_env("TMPDIR");
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(search.when, sizeof search.when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (muster_scratch_make(search.scratch, sizeof search.scratch, below ? below : "/tmp", err))
        return -1;
    muster_tune_watch_signals();
    int rc = search_all(&search);
    if (rc == 0) {
        muster_tune_log(&search, "%zu rules in %s after %u runs%s%s", rules_kept(&search),
                        plan->output, search.runs, search.ending[0] ? "; " : "", search.ending);
    }
    muster_tune_tracks_free(&search.tracks);
    muster_arena_free(&search.memory);
    muster_scratch_remove(search.scratch);
    int signal = muster_tune_interrupted();
    return signal ? 128 + signal : rc;
}
