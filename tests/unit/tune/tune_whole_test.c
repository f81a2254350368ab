/* What all rules together do to a job, from made-up pairs of runs. */
#include "tune/tune_together_gain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CLASSES = 2 };

static const struct muster_tune_class small = {MUSTER_FUNC_ALL_REDUCE, 12, 4, 1};
static const struct muster_tune_class large = {MUSTER_FUNC_ALL_REDUCE, 20, 4, 1};
static const struct muster_tune_rule rule = {.class = {MUSTER_FUNC_ALL_REDUCE, 20, 4, 1}};

static struct muster_tune_whole whole;
static struct muster_tune_interval interval;
static char figure[MUSTER_TUNE_LINE], meaning[MUSTER_TUNE_LINE];

static int begin(void **state)
{
    (void)state;
    memset(&whole, 0, sizeof whole);
    return 0;
}

/* Beats of both classes without and with the rule for the large one. */
static void pair_of(double small_us, double large_us, double small_with_us, double large_with_us,
                    uint32_t ops_with)
{
    struct muster_tune_point a[CLASSES] = {{.class = small, .beat_us = small_us, .ops = 40},
                                           {.class = large, .beat_us = large_us, .ops = 40}};
    struct muster_tune_point b[CLASSES] = {
        {.class = small, .beat_us = small_with_us, .ops = ops_with},
        {.class = large, .beat_us = large_with_us, .ops = ops_with}};
    struct muster_tune_sample without = {.point = a, .points = CLASSES};
    struct muster_tune_sample with = {.point = b, .points = CLASSES};
    muster_tune_whole_pair(&whole, &rule, 1, &without, &with);
}

static void pairs(unsigned n, double small_with_us, double large_with_us)
{
    for (unsigned i = 0; i < n; i++) {
        double off_us = i % 5 - 2.0; /* no pair is like the other; five are in the middle */
        pair_of(20 + 0.1 * off_us, 100 - 0.3 * off_us, small_with_us, large_with_us, 40);
    }
}

static enum muster_tune_verdict evaluated(void)
{
    muster_tune_whole_format(&whole, figure, meaning);
    return muster_tune_whole_evaluate(&whole, &interval);
}

static void a_rule_that_gains_and_a_whole_that_gains(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        pair_of(20, 100, 20, 88 + i % 2, 40);
    assert_int_equal(evaluated(), MUSTER_TUNE_GAINS);
    assert_true(muster_tune_whole_keeps(evaluated()));
    assert_true(interval.low < 0.905 && 0.9 < interval.high && interval.high < 1);
    assert_string_equal(figure, "All rules together: 0.904 of the time, 95 % interval 0.897 to "
                                "0.912, over 4 pairs of runs.");
    assert_string_equal(meaning, "");
}

/* As seen on GPUs: 1 MiB at 0.70 of its time, 4 KiB at more than it had. */
static void what_others_pay_in_full_is_not_kept(void **state)
{
    (void)state;
    pairs(5, 50, 70);
    assert_int_equal(evaluated(), MUSTER_TUNE_MOVED);
    assert_false(muster_tune_whole_keeps(evaluated()));
    assert_true(interval.low <= 1 && interval.high >= 1);
    assert_string_equal(meaning, "The job as a whole was not seen to gain, and operations without "
                                 "a rule were slower: 1 rule not kept.");
}

static void what_others_pay_more_than_in_full_is_not_kept(void **state)
{
    (void)state;
    pairs(5, 60, 70);
    assert_int_equal(evaluated(), MUSTER_TUNE_SLOWER);
    assert_false(muster_tune_whole_keeps(evaluated()));
    assert_non_null(strstr(figure, "All rules together: 1.08"));
    assert_string_equal(meaning, "The job as a whole was slower: 1 rule not kept.");
}

/* A gain of the job at the cost of some of its operations. */
static void what_others_pay_in_part_is_not_kept_either(void **state)
{
    (void)state;
    pairs(5, 30, 70);
    assert_int_equal(evaluated(), MUSTER_TUNE_HARMS);
    assert_false(muster_tune_whole_keeps(evaluated()));
    assert_string_equal(meaning, "With it all_reduce 4 KiB, 4 ranks, 1 node took 1.50 of its time: "
                                 "1 rule not kept.");
}

static void a_class_that_scatters_by_two_percent_is_not_harmed(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        pair_of(20, 100, i % 2 ? 20.9 : 20.1, 80 + i, 40);
    assert_int_equal(evaluated(), MUSTER_TUNE_GAINS);
    assert_null(muster_tune_whole_worst(&whole, &interval));
}

enum { CHAIN = 4 };
static struct muster_tune_rule ruled[CHAIN];

/* Classes 10, 11, ... each after the one before, the first after the last; rules for some. */
static void chain_of(const uint8_t *sizes, size_t rules)
{
    begin(NULL);
    for (unsigned i = 0; i < CHAIN; i++) {
        unsigned before = (i + CHAIN - 1u) % CHAIN;
        whole.part[i].class = (struct muster_tune_class){
            .func = MUSTER_FUNC_ALL_REDUCE, .size_log2 = (uint8_t)(10 + i), .ranks = 4, .nodes = 1};
        whole.part[i].after = whole.part[i].class;
        whole.part[i].after.size_log2 = (uint8_t)(10 + before);
    }
    whole.parts = CHAIN;
    for (size_t i = 0; i < rules; i++) {
        ruled[i].class = (struct muster_tune_class){MUSTER_FUNC_ALL_REDUCE, sizes[i], 4, 1};
        ruled[i].evidence.interval.ratio = 0.5 + 0.1 * (double)i;
    }
}

static void the_rule_of_what_ran_before_is_dropped_first(void **state)
{
    (void)state;
    chain_of((const uint8_t[]){10, 11, 13}, 3);
    const struct muster_tune_class *harmed = &whole.part[2].class; /* 12, after 11 */
    assert_int_equal(muster_tune_whole_culprit(&whole, harmed, ruled, 3), 1);
    chain_of((const uint8_t[]){10, 12, 13}, 3); /* none before it: its own */
    assert_int_equal(muster_tune_whole_culprit(&whole, harmed, ruled, 3), 1);
    chain_of((const uint8_t[]){13, 10}, 2); /* the nearest before it */
    assert_int_equal(muster_tune_whole_culprit(&whole, harmed, ruled, 2), 1);
    const struct muster_tune_class stray = {MUSTER_FUNC_BROADCAST, 5, 4, 1};
    assert_int_equal(muster_tune_whole_culprit(&whole, &stray, ruled, 2), 1); /* gains least */
}

/* A rule for a small part of a job whose runs scatter. */
static void a_gain_that_is_not_seen_is_said(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        pair_of(200, 10, i % 2 ? 210 : 191, 7, 40);
    assert_int_equal(evaluated(), MUSTER_TUNE_UNSEEN);
    assert_true(muster_tune_whole_keeps(evaluated()));
    assert_string_equal(meaning, "The job as a whole was not seen to gain.");
}

static void two_pairs_are_too_few(void **state)
{
    (void)state;
    assert_int_equal(evaluated(), MUSTER_TUNE_UNKNOWN);
    pairs(2, 60, 120);
    assert_int_equal(evaluated(), MUSTER_TUNE_UNKNOWN);
    assert_true(muster_tune_whole_keeps(evaluated()));
    assert_string_equal(figure, "All rules together: not measured.");
    assert_non_null(strstr(meaning, "before you rely on it"));
}

static void numbers_of_operations_are_those_of_one_side(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        pair_of(20, 100, 20, 90, 400);
    evaluated();
    assert_true(interval.ratio > 0.916 && interval.ratio < 0.917);
}

static void classes_that_one_run_lacks_do_not_count(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        pair_of(20, 100, 0, 90, 40);
    evaluated();
    assert_true(interval.ratio > 0.899 && interval.ratio < 0.901);
    begin(NULL);
    for (int i = 0; i < 3; i++)
        pair_of(0, 0, 20, 100, 40);
    assert_int_equal(evaluated(), MUSTER_TUNE_UNKNOWN);
}

static void more_pairs_than_there_is_room_for_are_left_out(void **state)
{
    (void)state;
    pairs(3 * MUSTER_TUNE_WHOLES, 20, 80);
    assert_int_equal(evaluated(), MUSTER_TUNE_GAINS);
    assert_int_equal(interval.n, MUSTER_TUNE_WHOLES);
}

static void a_command_that_fails_with_them_keeps_none(void **state)
{
    (void)state;
    pairs(5, 20, 80);
    whole.failed = true;
    assert_int_equal(evaluated(), MUSTER_TUNE_BROKEN);
    assert_false(muster_tune_whole_keeps(evaluated()));
    assert_string_equal(meaning, "The command failed with them: 1 rule not kept.");
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_rule_that_gains_and_a_whole_that_gains),
        TEST(what_others_pay_in_full_is_not_kept),
        TEST(what_others_pay_more_than_in_full_is_not_kept),
        TEST(what_others_pay_in_part_is_not_kept_either),
        TEST(a_class_that_scatters_by_two_percent_is_not_harmed),
        TEST(the_rule_of_what_ran_before_is_dropped_first),
        TEST(a_gain_that_is_not_seen_is_said),
        TEST(two_pairs_are_too_few),
        TEST(numbers_of_operations_are_those_of_one_side),
        TEST(classes_that_one_run_lacks_do_not_count),
        TEST(more_pairs_than_there_is_room_for_are_left_out),
        TEST(a_command_that_fails_with_them_keeps_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
