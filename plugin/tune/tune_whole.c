#include "tune/tune_whole.h"

#include <math.h>
#include <stdio.h>

#include "tune/tune_tracks.h"

struct sums {
    double without_us, with_us;
};

static bool has_rule(const struct muster_tune_class *class, const struct muster_tune_rule *rule,
                     size_t rules)
{
    for (size_t i = 0; i < rules; i++) {
        if (muster_tune_same_class(&rule[i].class, class)) {
            return true;
        }
    }
    return false;
}

static void add(struct sums *sums, const struct muster_tune_point *without,
                const struct muster_tune_point *with)
{
    sums->without_us += without->ops * without->beat_us;
    sums->with_us += without->ops * with->beat_us;
}

void muster_tune_whole_pair(struct muster_tune_whole *whole, const struct muster_tune_rule *rule,
                            size_t rules, const struct muster_tune_sample *without,
                            const struct muster_tune_sample *with)
{
    struct sums all = {0}, rest = {0};
    for (size_t i = 0; i < without->points; i++) {
        const struct muster_tune_point *a = &without->point[i];
        const struct muster_tune_point *b = muster_tune_find(with, &a->class);
        if (!b || !(a->beat_us > 0) || !(b->beat_us > 0)) {
            continue;
        }
        add(&all, a, b);
        if (!has_rule(&a->class, rule, rules)) {
            add(&rest, a, b);
        }
    }
    whole->rules = rules;
    if (all.without_us > 0 && whole->n < MUSTER_TUNE_WHOLES) {
        whole->log_ratio[whole->n++] = log(all.with_us / all.without_us);
    }
    if (rest.without_us > 0 && whole->rests < MUSTER_TUNE_WHOLES) {
        whole->rest_log_ratio[whole->rests++] = log(rest.with_us / rest.without_us);
    }
}

enum muster_tune_verdict muster_tune_whole_evaluate(const struct muster_tune_whole *whole,
                                                    struct muster_tune_interval *interval)
{
    struct muster_tune_interval rest;
    muster_tune_interval(whole->log_ratio, whole->n, interval);
    muster_tune_interval(whole->rest_log_ratio, whole->rests, &rest);
    if (whole->failed) {
        return MUSTER_TUNE_BROKEN;
    }
    if (whole->n < MUSTER_TUNE_PAIRS) {
        return MUSTER_TUNE_UNKNOWN;
    }
    if (interval->high < 1) {
        return MUSTER_TUNE_GAINS;
    }
    if (interval->low > 1) {
        return MUSTER_TUNE_SLOWER;
    }
    return whole->rests >= MUSTER_TUNE_PAIRS && rest.low > 1 ? MUSTER_TUNE_MOVED
                                                             : MUSTER_TUNE_UNSEEN;
}

bool muster_tune_whole_keeps(enum muster_tune_verdict verdict)
{
    return verdict == MUSTER_TUNE_UNKNOWN || verdict == MUSTER_TUNE_GAINS ||
           verdict == MUSTER_TUNE_UNSEEN;
}

void muster_tune_whole_format(const struct muster_tune_whole *whole, char figure[128],
                              char meaning[128])
{
    static const char *const meanings[] = {
        [MUSTER_TUNE_UNKNOWN] = "Measure the whole job with and without them before you rely on it",
        [MUSTER_TUNE_GAINS] = "",
        [MUSTER_TUNE_UNSEEN] = "The job as a whole was not seen to gain",
        [MUSTER_TUNE_SLOWER] = "The job as a whole was slower",
        [MUSTER_TUNE_MOVED] =
            "The job as a whole was not seen to gain, and operations without a rule were slower",
        [MUSTER_TUNE_BROKEN] = "The command failed with them",
    };
    struct muster_tune_interval interval;
    enum muster_tune_verdict verdict = muster_tune_whole_evaluate(whole, &interval);
    if (verdict == MUSTER_TUNE_UNKNOWN || verdict == MUSTER_TUNE_BROKEN) {
        snprintf(figure, 128, "All rules together: not measured.");
    } else {
        snprintf(figure, 128,
                 "All rules together: %.3f of the time, 95 %% interval %.3f to %.3f, over %u pairs "
                 "of runs.",
                 interval.ratio, interval.low, interval.high, interval.n);
    }
    if (muster_tune_whole_keeps(verdict)) {
        snprintf(meaning, 128, "%s%s", meanings[verdict], meanings[verdict][0] ? "." : "");
    } else {
        snprintf(meaning, 128, "%s: %zu rule%s not kept.", meanings[verdict], whole->rules,
                 whole->rules == 1 ? "" : "s");
    }
}
