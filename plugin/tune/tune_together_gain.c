#include "tune/tune_together_gain.h"

#include <math.h>
#include <stdio.h>

#include "tune/tune_tracks.h"

struct sums {
    double without_us, with_us;
};

/* The number of rules: the class has none. */
static size_t rule_of(const struct muster_tune_rule *rule, size_t rules,
                      const struct muster_tune_class *class)
{
    size_t i = 0;
    while (i < rules && !muster_tune_same_class(&rule[i].class, class))
        i++;
    return i;
}

static void add(struct sums *sums, const struct muster_tune_point *without,
                const struct muster_tune_point *with)
{
    sums->without_us += without->ops * without->beat_us;
    sums->with_us += without->ops * with->beat_us;
}

static struct muster_tune_part *part_of(struct muster_tune_whole *whole,
                                        const struct muster_tune_class *class)
{
    for (size_t i = 0; i < whole->parts; i++)
        if (muster_tune_same_class(&whole->part[i].class, class))
            return &whole->part[i];
    return NULL;
}

static void add_part(struct muster_tune_whole *whole, const struct muster_tune_point *without,
                     const struct muster_tune_point *with)
{
    struct muster_tune_part *part = part_of(whole, &without->class);
    if (!part && whole->parts < MUSTER_TUNE_PARTS) {
        part = &whole->part[whole->parts++];
        *part = (struct muster_tune_part){.class = without->class, .after = without->after};
    }
    if (part && part->n < MUSTER_TUNE_WHOLES)
        part->log_ratio[part->n++] = log(with->beat_us / without->beat_us);
}

void muster_tune_whole_pair(struct muster_tune_whole *whole, const struct muster_tune_rule *rule,
                            size_t rules, const struct muster_tune_sample *without,
                            const struct muster_tune_sample *with)
{
    struct sums all = {0}, rest = {0};
    for (size_t i = 0; i < without->points; i++) {
        const struct muster_tune_point *a = &without->point[i];
        const struct muster_tune_point *b = muster_tune_find(with, &a->class);
        if (!b || !(a->beat_us > 0) || !(b->beat_us > 0))
            continue;
        add(&all, a, b);
        add_part(whole, a, b);
        if (rule_of(rule, rules, &a->class) == rules)
            add(&rest, a, b);
    }
    whole->rules = rules;
    if (all.without_us > 0 && whole->n < MUSTER_TUNE_WHOLES)
        whole->log_ratio[whole->n++] = log(all.with_us / all.without_us);
    if (rest.without_us > 0 && whole->rests < MUSTER_TUNE_WHOLES)
        whole->rest_log_ratio[whole->rests++] = log(rest.with_us / rest.without_us);
}

const struct muster_tune_part *muster_tune_whole_worst(const struct muster_tune_whole *whole,
                                                       struct muster_tune_interval *interval)
{
    const struct muster_tune_part *worst = NULL;
    *interval = (struct muster_tune_interval){.ratio = MUSTER_TUNE_HARM};
    for (size_t i = 0; i < whole->parts; i++) {
        struct muster_tune_interval own;
        muster_tune_interval(whole->part[i].log_ratio, whole->part[i].n, &own);
        if (own.n >= MUSTER_TUNE_PAIRS && own.low > 1 && own.ratio > interval->ratio) {
            worst = &whole->part[i];
            *interval = own;
        }
    }
    return worst;
}

size_t muster_tune_whole_culprit(const struct muster_tune_whole *whole,
                                 const struct muster_tune_class *harmed,
                                 const struct muster_tune_rule *rule, size_t rules)
{
    const struct muster_tune_class *class = harmed;
    size_t least = 0;
    for (size_t steps = 0; steps < whole->parts; steps++) {
        size_t part = 0;
        while (part < whole->parts && !muster_tune_same_class(&whole->part[part].class, class))
            part++;
        if (part == whole->parts)
            break;
        class = &whole->part[part].after;
        if (rule_of(rule, rules, class) < rules)
            return rule_of(rule, rules, class);
        if (steps == 0 && rule_of(rule, rules, harmed) < rules)
            return rule_of(rule, rules, harmed);
    }
    for (size_t i = 1; i < rules; i++)
        least = rule[i].evidence.interval.ratio > rule[least].evidence.interval.ratio ? i : least;
    return least;
}

enum muster_tune_verdict muster_tune_whole_evaluate(const struct muster_tune_whole *whole,
                                                    struct muster_tune_interval *interval)
{
    struct muster_tune_interval rest;
    muster_tune_interval(whole->log_ratio, whole->n, interval);
    muster_tune_interval(whole->rest_log_ratio, whole->rests, &rest);
    if (whole->failed)
        return MUSTER_TUNE_BROKEN;
    if (whole->n < MUSTER_TUNE_PAIRS)
        return MUSTER_TUNE_UNKNOWN;
    bool gains = interval->high < 1;
    if (interval->low > 1)
        return MUSTER_TUNE_SLOWER;
    if (!gains && whole->rests >= MUSTER_TUNE_PAIRS && rest.low > 1)
        return MUSTER_TUNE_MOVED;
    if (muster_tune_whole_worst(whole, &rest))
        return MUSTER_TUNE_HARMS;
    return gains ? MUSTER_TUNE_GAINS : MUSTER_TUNE_UNSEEN;
}

bool muster_tune_whole_keeps(enum muster_tune_verdict verdict)
{
    return verdict == MUSTER_TUNE_UNKNOWN || verdict == MUSTER_TUNE_GAINS ||
           verdict == MUSTER_TUNE_UNSEEN;
}

void muster_tune_format_harm(const struct muster_tune_whole *whole, char text[MUSTER_TUNE_LINE])
{
    char class[96];
    struct muster_tune_interval interval;
    const struct muster_tune_part *worst = muster_tune_whole_worst(whole, &interval);
    text[0] = '\0';
    if (!worst)
        return;
    muster_tune_format_class(class, sizeof class, &worst->class);
    snprintf(text, MUSTER_TUNE_LINE, "With %s %s took %.2f of its time",
             whole->rules == 1 ? "it" : "them", class, interval.ratio);
}

void muster_tune_whole_format(const struct muster_tune_whole *whole, char figure[MUSTER_TUNE_LINE],
                              char meaning[MUSTER_TUNE_LINE])
{
    char harm[MUSTER_TUNE_LINE];
    const char *const meanings[] = {
        [MUSTER_TUNE_UNKNOWN] = "Measure the whole job with and without them before you rely on it",
        [MUSTER_TUNE_GAINS] = "",
        [MUSTER_TUNE_UNSEEN] = "The job as a whole was not seen to gain",
        [MUSTER_TUNE_SLOWER] = "The job as a whole was slower",
        [MUSTER_TUNE_MOVED] =
            "The job as a whole was not seen to gain, and operations without a rule were slower",
        [MUSTER_TUNE_HARMS] = harm,
        [MUSTER_TUNE_BROKEN] = "The command failed with them",
    };
    struct muster_tune_interval interval;
    enum muster_tune_verdict verdict = muster_tune_whole_evaluate(whole, &interval);
    muster_tune_format_harm(whole, harm);
    if (verdict == MUSTER_TUNE_UNKNOWN || verdict == MUSTER_TUNE_BROKEN) {
        snprintf(figure, MUSTER_TUNE_LINE, "All rules together: not measured.");
    } else {
        snprintf(figure, MUSTER_TUNE_LINE,
                 "All rules together: %.3f of the time, 95 %% interval %.3f to %.3f, over %u pairs "
                 "of runs.",
                 interval.ratio, interval.low, interval.high, interval.n);
    }
    if (muster_tune_whole_keeps(verdict)) {
        snprintf(meaning, MUSTER_TUNE_LINE, "%s%s", meanings[verdict],
                 meanings[verdict][0] ? "." : "");
    } else {
        snprintf(meaning, MUSTER_TUNE_LINE, "%s: %zu rule%s not kept.", meanings[verdict],
                 whole->rules, whole->rules == 1 ? "" : "s");
    }
}
