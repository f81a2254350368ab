#include "tune/tune_progress.h"

#include <stdio.h>

/* Without and with search->rule[0..rules). 1: one of them failed; -1: end. */
static int whole_pair(struct muster_tune_progress *search, size_t rules, const char *policy,
                      bool first)
{
    struct muster_tune_sample without = {.point = NULL}, with = {.point = NULL};
    int rc = 0;
    for (int i = 0; rc == 0 && i < 2; i++) {
        bool bare = first == (i == 0);
        rc = bare ? muster_tune_run_base(search, &without)
                  : muster_tune_run_once(search, policy, "all rules", &with);
        search->whole.failed |= !bare && rc > 0;
    }
    if (rc == 0)
        muster_tune_whole_pair(&search->whole, search->rule, rules, &without, &with);
    muster_tune_sample_free(&without);
    muster_tune_sample_free(&with);
    return rc;
}

/* Pairs of their own: those before had other sets of rules, and chose these. How many is settled
 * before the first, as one that may stop when it likes what it sees would stop too early. */
static void evaluate_rules(struct muster_tune_progress *search, size_t rules)
{
    char figure[MUSTER_TUNE_LINE], meaning[MUSTER_TUNE_LINE];
    const char *text = muster_tune_text(&search->memory, search->rule, rules, 0);
    unsigned n = MUSTER_TUNE_WHOLES, i = 0;
    search->whole = (struct muster_tune_whole){.rules = rules};
    while (n && !muster_tune_fits(search, 2 * n))
        n = n > MUSTER_TUNE_PAIRS ? n - 1 : 0;
    while (text && i < n && muster_tune_fits(search, 2) &&
           whole_pair(search, rules, text, i % 2 == 0) >= 0) {
        i = search->whole.failed ? n : i + 1;
    }
    if (i < MUSTER_TUNE_PAIRS && !search->ending[0])
        search->ending = "the budget did not reach for three pairs with all rules";
    muster_tune_whole_format(&search->whole, figure, meaning);
    muster_tune_log(search, "%s%s%s", figure, meaning[0] ? " " : "", meaning);
}

/* Drops the rule that what became slower is laid to. False: nothing did, or too little would be
 * left to measure with. */
static bool drop_culprit(struct muster_tune_progress *search, size_t rules)
{
    char harm[MUSTER_TUNE_LINE], class[96];
    struct muster_tune_interval interval;
    bool kept = muster_tune_whole_keeps(muster_tune_whole_evaluate(&search->whole, &interval));
    const struct muster_tune_part *worst = muster_tune_whole_worst(&search->whole, &interval);
    if (kept || !worst || rules < 2 || !muster_tune_fits(search, MUSTER_TUNE_WHOLE_RUNS))
        return false;
    size_t culprit = muster_tune_whole_culprit(&search->whole, &worst->class, search->rule, rules);
    muster_tune_format_harm(&search->whole, harm);
    muster_tune_format_class(class, sizeof class, &search->rule[culprit].class);
    muster_tune_log(search, "%s: the rule for %s is dropped", harm, class);
    search->drops++;
    snprintf(search->dropped, sizeof search->dropped,
             "Dropped because others paid for what they gained: %u rule%s, the last for %s.",
             search->drops, search->drops > 1 ? "s" : "", class);
    muster_tune_forbid(&search->tracks, &search->rule[culprit].class);
    return true;
}

void muster_tune_together(struct muster_tune_progress *search)
{
    size_t rules;
    do {
        rules = muster_tune_rules_proven(&search->tracks, search->rule);
        if (rules)
            evaluate_rules(search, rules);
    } while (rules && drop_culprit(search, rules));
}
