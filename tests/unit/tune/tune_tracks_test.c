/* From samples to rules: what is tried, what is kept, and what stands in the file. */
#include "tune/tune_tracks.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/policy.h"

enum { CLASSES = 3, SMALL = 0, LARGE = 1, GATHER = 2 };

static const struct muster_tune_choice ring_simple = {MUSTER_ALGO_RING, MUSTER_PROTO_SIMPLE, 8};
static const struct muster_tune_choice tree_ll = {MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 8};

/* Small and large all-reduces, one all-gather, as NCCL does them: 10, 100, 50 us from begin to
 * begin, 9 tenths of it by the quickest rank's clock. */
static struct muster_tune_sample base(void)
{
    struct muster_tune_sample sample = {.point = calloc(CLASSES, sizeof *sample.point),
                                        .points = CLASSES};
    const uint8_t size[CLASSES] = {12, 20, 20};
    const double us[CLASSES] = {10, 100, 50};
    for (size_t i = 0; i < CLASSES; i++)
        sample.point[i] = (struct muster_tune_point){
            .class = {i == GATHER ? MUSTER_FUNC_ALL_GATHER : MUSTER_FUNC_ALL_REDUCE, size[i], 4, 1},
            .choice = ring_simple,
            .us = us[i] * 0.9,
            .beat_us = us[i],
            .ops = 40};
    return sample;
}

static struct muster_tune_sample changed(size_t class, struct muster_tune_choice choice, double us)
{
    struct muster_tune_sample sample = base();
    sample.point[class].choice = choice;
    sample.point[class].us = us * 0.9;
    sample.point[class].beat_us = us;
    return sample;
}

static struct muster_tune_tracks tracks;
static struct muster_tune_rule rule[CLASSES];

static int begin(void **state)
{
    (void)state;
    struct muster_tune_sample sample = base();
    int rc = muster_tune_tracks_begin(&tracks, &sample);
    muster_tune_sample_free(&sample);
    return rc;
}

static int end(void **state)
{
    (void)state;
    muster_tune_tracks_free(&tracks);
    return 0;
}

static struct muster_tune_screened screen_forced(struct muster_tune_choice force, size_t class,
                                                 struct muster_tune_choice ran, double us)
{
    struct muster_tune_sample sample = changed(class, ran, us);
    size_t rules = muster_tune_rules_forced(&tracks, &force, rule);
    struct muster_tune_screened seen = muster_tune_screen(&tracks, &sample, rule, rules);
    muster_tune_sample_free(&sample);
    return seen;
}

/* Tree/ll made the large all-reduce quicker: 90 of 100 us. */
static void choose_tree(void)
{
    struct muster_tune_choice force = {MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 0};
    struct muster_tune_screened seen = screen_forced(force, LARGE, tree_ll, 90);
    assert_int_equal(seen.ran, 1);
    assert_int_equal(seen.quicker, 1);
    assert_true(fabs(seen.best - 0.9) < 1e-9);
}

static void pair(double without, double with)
{
    struct muster_tune_sample a = changed(LARGE, ring_simple, without);
    struct muster_tune_sample b = changed(LARGE, tree_ll, with);
    muster_tune_pair(&tracks, 0, &a, &b);
    muster_tune_sample_free(&a);
    muster_tune_sample_free(&b);
}

static void describe(void *to, const struct muster_policy_message *message)
{
    (void)to;
    char text[512];
    muster_policy_message_print(text, sizeof text, message);
    print_error("%s\n", text);
}

static struct muster_policy *parsed(void (*write)(FILE *out, const void *what), const void *what,
                                    char **text)
{
    struct muster_policy *policy = NULL;
    size_t bytes;
    FILE *out = open_memstream(text, &bytes);
    write(out, what);
    fclose(out);
    assert_int_equal(muster_policy_parse(&policy, "tuned", *text, bytes, describe, NULL), 0);
    return policy;
}

static char *hostile[] = {"a\nmuster: 2", "--x=# \x01\xff", "policy: [", NULL};

static void write_all(FILE *out, const void *n)
{
    struct muster_tune_account account = {.command = hostile,
                                          .when = "now",
                                          .budget_s = 600,
                                          .seconds = 9,
                                          .ending = "interrupted",
                                          .whole = {"", ""},
                                          .rare = 1,
                                          .unevaluated = 2};
    muster_tune_write(out, &account, rule, *(const size_t *)n);
}

static void a_combination_is_tried_where_nccl_has_it(void **state)
{
    (void)state;
    struct muster_tune_choice tree = {MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 0};
    struct muster_tune_choice ring = {MUSTER_ALGO_RING, MUSTER_PROTO_LL, 0};
    struct muster_tune_choice none = {MUSTER_ALGO_NVLS, MUSTER_PROTO_LL, 0};
    struct muster_tune_choice own = {MUSTER_ALGO_RING, MUSTER_PROTO_SIMPLE, 0};
    assert_int_equal(muster_tune_rules_forced(&tracks, &tree, rule), 2);
    assert_int_equal(muster_tune_rules_forced(&tracks, &ring, rule), 3);
    assert_int_equal(muster_tune_rules_forced(&tracks, &none, rule), 0);
    assert_int_equal(muster_tune_rules_forced(&tracks, &own, rule), 0);
}

static void what_runs_as_before_is_no_candidate(void **state)
{
    (void)state;
    struct muster_tune_choice force = {MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 0};
    struct muster_tune_screened seen = screen_forced(force, LARGE, ring_simple, 50);
    assert_int_equal(seen.ran, 0);
    assert_int_equal(muster_tune_rules_lane(&tracks, 0, rule), 0);
}

static void what_is_slower_everywhere_is_dropped(void **state)
{
    (void)state;
    struct muster_tune_choice force = {MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 0};
    struct muster_tune_screened seen = screen_forced(force, LARGE, tree_ll, 101);
    muster_tune_settle(&tracks);
    assert_int_equal(seen.ran, 1);
    assert_int_equal(seen.quicker, 0);
    assert_int_equal(muster_tune_rules_lane(&tracks, 0, rule), 0);
}

static void the_two_best_are_kept_in_order(void **state)
{
    (void)state;
    const uint8_t protos[] = {MUSTER_PROTO_LL128, MUSTER_PROTO_LL, MUSTER_PROTO_SIMPLE};
    const double us[] = {95, 80, 90};
    for (size_t i = 0; i < 3; i++) {
        struct muster_tune_choice force = {MUSTER_ALGO_TREE, protos[i], 0};
        struct muster_tune_choice ran = {MUSTER_ALGO_TREE, protos[i], 8};
        screen_forced(force, LARGE, ran, us[i]);
    }
    assert_int_equal(muster_tune_rules_lane(&tracks, 0, rule), 1);
    assert_int_equal(rule[0].choice.proto, MUSTER_PROTO_LL);
    assert_int_equal(rule[0].choice.channels, 0);
    assert_int_equal(muster_tune_rules_lane(&tracks, 1, rule), 1);
    assert_int_equal(rule[0].choice.proto, MUSTER_PROTO_SIMPLE);
}

static void half_the_channels_are_those_of_the_class(void **state)
{
    (void)state;
    struct muster_tune_choice one = {MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 1};
    struct muster_tune_choice seven = {MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 7};
    struct muster_tune_sample sample = changed(LARGE, seven, 90);
    sample.point[SMALL].choice = one;
    assert_int_equal(muster_tune_rules_halved(&tracks, &sample, false, rule), 1);
    assert_int_equal(rule[0].class.size_log2, 20);
    assert_int_equal(rule[0].choice.algo, MUSTER_ALGO_TREE);
    assert_int_equal(rule[0].choice.channels, 3);
    assert_int_equal(muster_tune_rules_halved(&tracks, &sample, true, rule), 2);
    assert_int_equal(rule[0].choice.algo, 0);
    muster_tune_sample_free(&sample);
}

static void a_rule_needs_three_pairs(void **state)
{
    (void)state;
    choose_tree();
    pair(100, 90);
    pair(101, 90.5);
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 0);
    assert_int_equal(muster_tune_open(&tracks, 0), 1);
    pair(99, 89);
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 1);
    assert_int_equal(muster_tune_open(&tracks, 0), 0);
    assert_int_equal(rule[0].class.size_log2, 20);
    assert_int_equal(rule[0].evidence.interval.n, 3);
    assert_true(rule[0].evidence.interval.high < MUSTER_TUNE_WORTH);
}

static void what_gains_too_little_or_scatters_is_not_kept(void **state)
{
    (void)state;
    choose_tree();
    for (unsigned i = 0; i < 6; i++)
        pair(100, i % 2 ? 98 : 98.2); /* surely quicker, and not worth it */
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 0);
    assert_int_equal(muster_tune_open(&tracks, 0), 0);
    assert_int_equal(muster_tune_rules_lane(&tracks, 0, rule), 0);
    muster_tune_tracks_free(&tracks);
    begin(NULL);
    choose_tree();
    for (unsigned i = 0; i < 6; i++)
        pair(100, i % 2 ? 60 : 110);
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 0);
    assert_int_equal(muster_tune_open(&tracks, 0), 1);
}

static void runs_in_which_the_rule_had_no_effect_do_not_count(void **state)
{
    (void)state;
    choose_tree();
    for (unsigned i = 0; i < 5; i++) {
        struct muster_tune_sample a = base(), b = changed(LARGE, ring_simple, 50);
        muster_tune_pair(&tracks, 0, &a, &b);
        muster_tune_sample_free(&a);
        muster_tune_sample_free(&b);
    }
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 0);
}

/* The ranks of a tree end one after the other: each shows a short time by its clock. */
static struct muster_tune_screened screen_beat(double us, double beat_us)
{
    struct muster_tune_choice force = {MUSTER_ALGO_TREE, MUSTER_PROTO_LL, 0};
    struct muster_tune_sample sample = changed(LARGE, tree_ll, beat_us);
    sample.point[LARGE].us = us;
    size_t rules = muster_tune_rules_forced(&tracks, &force, rule);
    struct muster_tune_screened seen = muster_tune_screen(&tracks, &sample, rule, rules);
    muster_tune_sample_free(&sample);
    return seen;
}

static void what_only_seems_quicker_is_not_kept(void **state)
{
    (void)state;
    choose_tree();
    for (int i = 0; i < 3; i++) {
        struct muster_tune_sample a = changed(LARGE, ring_simple, 100);
        struct muster_tune_sample b = changed(LARGE, tree_ll, 99 + i);
        b.point[LARGE].us = 0.01;
        muster_tune_pair(&tracks, 0, &a, &b);
        muster_tune_sample_free(&a);
        muster_tune_sample_free(&b);
    }
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 0);
    assert_int_equal(muster_tune_open(&tracks, 0), 0);
}

static void what_only_seems_quicker_is_no_candidate(void **state)
{
    (void)state;
    struct muster_tune_screened seen = screen_beat(1, 101);
    assert_int_equal(seen.ran, 1);
    assert_int_equal(seen.evaluated, 1);
    assert_int_equal(seen.quicker, 0);
    muster_tune_settle(&tracks);
    assert_int_equal(muster_tune_rules_lane(&tracks, 0, rule), 0);
}

/* As over a slow link: 20 us by the quickest rank's clock, and a ratio of 0.7 in truth. */
static void a_ratio_is_that_of_beats(void **state)
{
    (void)state;
    assert_true(fabs(screen_beat(0.5, 70).best - 0.7) < 1e-9);
    for (int i = 0; i < 3; i++) {
        struct muster_tune_sample a = changed(LARGE, ring_simple, 100 + i);
        struct muster_tune_sample b = changed(LARGE, tree_ll, 70 + i);
        b.point[LARGE].us = 0.5;
        muster_tune_pair(&tracks, 0, &a, &b);
        muster_tune_sample_free(&a);
        muster_tune_sample_free(&b);
    }
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 1);
    assert_true(fabs(rule[0].evidence.interval.ratio - 0.7) < 0.01);
    assert_int_equal(rule[0].evidence.by, MUSTER_MEASURE_BEAT);
    assert_true(fabs(rule[0].evidence.after_us - 71) < 1e-9);
}

/* ---- without beats ---- */

static struct muster_tune_sample without_beats(struct muster_tune_sample sample)
{
    for (size_t i = 0; i < sample.points; i++)
        sample.point[i].beat_us = 0;
    return sample;
}

static void begin_without_beats(void)
{
    muster_tune_tracks_free(&tracks);
    struct muster_tune_sample sample = without_beats(base());
    assert_int_equal(muster_tune_tracks_begin(&tracks, &sample), 0);
    muster_tune_sample_free(&sample);
}

static const struct muster_tune_choice ring_ll = {MUSTER_ALGO_RING, MUSTER_PROTO_LL, 8};

/* Whatever `ran` is, half as long by the quickest rank's clock, in the screening and three pairs.
 */
static struct muster_tune_screened half_by_clock(struct muster_tune_choice ran)
{
    struct muster_tune_choice force = {ran.algo, ran.proto, 0};
    struct muster_tune_sample b = without_beats(changed(LARGE, ran, 100));
    b.point[LARGE].us = 45;
    size_t rules = muster_tune_rules_forced(&tracks, &force, rule);
    struct muster_tune_screened seen = muster_tune_screen(&tracks, &b, rule, rules);
    muster_tune_settle(&tracks);
    for (int i = 0; i < 3; i++) {
        struct muster_tune_sample a = without_beats(base());
        muster_tune_pair(&tracks, 0, &a, &b);
        muster_tune_sample_free(&a);
    }
    muster_tune_sample_free(&b);
    return seen;
}

static void between_rings_the_clock_stands_in_and_is_named(void **state)
{
    (void)state;
    char *text;
    begin_without_beats();
    assert_int_equal(half_by_clock(ring_ll).evaluated, 1);
    assert_int_equal(muster_tune_unevaluated(&tracks), 0);
    size_t n = muster_tune_rules_proven(&tracks, rule);
    assert_int_equal(n, 1);
    struct muster_policy *policy = parsed(write_all, &n, &text);
    assert_non_null(strstr(text, "quickest rank's clock, as the time to the next one is not known: "
                                 "90.0 us without, 45.0 us with"));
    muster_policy_free(policy);
    free(text);
}

static void between_a_ring_and_a_tree_no_clock_decides(void **state)
{
    (void)state;
    begin_without_beats();
    struct muster_tune_screened seen = half_by_clock(tree_ll);
    assert_int_equal(seen.ran, 1);
    assert_int_equal(seen.evaluated, 0);
    assert_int_equal(seen.quicker, 0);
    assert_int_equal(muster_tune_unevaluated(&tracks), 1);
    assert_int_equal(muster_tune_rules_lane(&tracks, 0, rule), 0);
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 0);
}

/* Beats of the screening, clocks of the pairs: one interval holds only one of them. */
static void a_pair_without_the_measure_does_not_count(void **state)
{
    (void)state;
    choose_tree();
    pair(100, 70);
    pair(100, 71);
    for (int i = 0; i < 5; i++) {
        struct muster_tune_sample a = without_beats(base());
        struct muster_tune_sample b = without_beats(changed(LARGE, tree_ll, 70));
        muster_tune_pair(&tracks, 0, &a, &b);
        muster_tune_sample_free(&a);
        muster_tune_sample_free(&b);
    }
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 0);
    pair(100, 70);
    assert_int_equal(muster_tune_rules_proven(&tracks, rule), 1);
    assert_int_equal(rule[0].evidence.interval.n, 3);
}

/* ---- the first run is one of many ---- */

static void begin_disturbed(double us)
{
    muster_tune_tracks_free(&tracks);
    struct muster_tune_sample sample = changed(LARGE, ring_simple, us);
    assert_int_equal(muster_tune_tracks_begin(&tracks, &sample), 0);
    muster_tune_sample_free(&sample);
}

static void more_bases(unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        struct muster_tune_sample sample = base();
        muster_tune_add_base(&tracks, &sample);
        muster_tune_sample_free(&sample);
    }
}

static void a_disturbed_first_run_lets_nothing_slow_in(void **state)
{
    (void)state;
    begin_disturbed(100000);
    assert_int_equal(screen_beat(50, 150).quicker, 1);
    more_bases(2);
    muster_tune_settle(&tracks);
    assert_int_equal(muster_tune_rules_lane(&tracks, 0, rule), 0);
    assert_int_equal(muster_tune_open(&tracks, 0), 0);
}

static void a_lucky_first_run_keeps_nothing_quick_out(void **state)
{
    (void)state;
    begin_disturbed(10);
    assert_int_equal(screen_beat(50, 80).quicker, 0);
    more_bases(2);
    muster_tune_settle(&tracks);
    assert_int_equal(muster_tune_rules_lane(&tracks, 0, rule), 1);
}

static void the_screening_is_to_the_median_of_the_runs_so_far(void **state)
{
    (void)state;
    begin_disturbed(100000);
    more_bases(2);
    assert_true(fabs(screen_beat(50, 80).best - 0.8) < 1e-9);
}

static void what_failed_is_out(void **state)
{
    (void)state;
    choose_tree();
    muster_tune_drop(&tracks, 0);
    assert_int_equal(muster_tune_rules_lane(&tracks, 0, rule), 0);
    assert_int_equal(muster_tune_open(&tracks, 0), 0);
}

static void the_file_is_a_policy_with_its_evidence(void **state)
{
    (void)state;
    char *text;
    choose_tree();
    for (unsigned i = 0; i < 3; i++)
        pair(100 + i, 90);
    size_t n = muster_tune_rules_proven(&tracks, rule);
    struct muster_policy *policy = parsed(write_all, &n, &text);
    assert_int_equal(policy->rules, 1);
    assert_int_equal(policy->rule[0].collectives, 1u << MUSTER_FUNC_ALL_REDUCE);
    struct muster_query query = {MUSTER_FUNC_ALL_REDUCE, (2 << 20) - 1, 1, 4, 1, 0};
    assert_int_equal(muster_policy_match(policy, &query), 0);
    query.bytes++;
    assert_int_equal(muster_policy_match(policy, &query), MUSTER_POLICY_NO_RULE);
    query.bytes = 1 << 20;
    query.ranks = 8;
    assert_int_equal(muster_policy_match(policy, &query), MUSTER_POLICY_NO_RULE);
    assert_non_null(strstr(text, "95 % interval 0."));
    assert_non_null(strstr(text, "3 pairs of runs, 40 operations a run"));
    assert_non_null(strstr(text, "# From the start of one to the start of the next: "
                                 "100.0 us without, 90.0 us with."));
    assert_non_null(strstr(text, "# Not judged: 1 class with fewer than 10 operations a run; 2 "
                                 "classes without a comparable time for what was tried."));
    assert_non_null(strstr(text, "interrupted"));
    muster_policy_free(policy);
    free(text);
}

static void without_rules_it_is_one_too(void **state)
{
    (void)state;
    char *text;
    size_t n = 0;
    struct muster_policy *policy = parsed(write_all, &n, &text);
    assert_int_equal(policy->rules, 0);
    muster_policy_free(policy);
    free(text);
}

static void write_force(FILE *out, const void *combinations)
{
    muster_tune_write_force(out, *(const uint32_t *)combinations);
}

static void every_combination_that_nccl_has_can_be_forced(void **state)
{
    (void)state;
    for (unsigned algo = 1; algo <= MUSTER_POLICY_ALGOS; algo++) {
        for (unsigned proto = 1; proto <= MUSTER_POLICY_PROTOS; proto++) {
            char *text;
            uint32_t bit = muster_policy_combination(algo, proto);
            bool any = false;
            for (unsigned func = 0; func < MUSTER_FUNCS; func++)
                any |= (muster_policy_available(func) & bit) != 0;
            if (!any)
                continue;
            struct muster_policy *policy = parsed(write_force, &bit, &text);
            assert_int_equal(policy->rules, 1);
            assert_int_equal(policy->rule[0].prefer, bit);
            muster_policy_free(policy);
            free(text);
        }
    }
}

/* What NCCL offers on few machines, in one run. */
static void several_combinations_can_be_forced_together(void **state)
{
    (void)state;
    char *text;
    uint32_t set = muster_policy_combination(MUSTER_ALGO_NVLS, MUSTER_PROTO_SIMPLE) |
                   muster_policy_combination(MUSTER_ALGO_PAT, MUSTER_PROTO_SIMPLE) |
                   muster_policy_combination(MUSTER_ALGO_COLLNET_CHAIN, MUSTER_PROTO_SIMPLE);
    struct muster_policy *policy = parsed(write_force, &set, &text);
    assert_int_equal(policy->rules, 1);
    assert_int_equal(policy->rule[0].prefer, set);
    assert_int_equal(policy->rule[0].collectives, 1u << MUSTER_FUNC_ALL_REDUCE |
                                                      1u << MUSTER_FUNC_ALL_GATHER |
                                                      1u << MUSTER_FUNC_REDUCE_SCATTER);
    muster_policy_free(policy);
    free(text);
    struct muster_tune_choice nvls = {MUSTER_ALGO_NVLS, MUSTER_PROTO_SIMPLE, 4};
    struct muster_tune_sample none = base(), one = changed(LARGE, nvls, 100);
    assert_false(muster_tune_any_ran(&none, set));
    assert_true(muster_tune_any_ran(&one, set));
    muster_tune_sample_free(&none);
    muster_tune_sample_free(&one);
}

static void classes_of_every_size_and_shape_make_rules(void **state)
{
    (void)state;
    for (uint8_t size = 0; size < 63; size++) {
        char *text;
        size_t n = 1;
        rule[0] = (struct muster_tune_rule){
            .class = {MUSTER_FUNC_REDUCE_SCATTER, size, UINT32_MAX, UINT32_MAX},
            .choice = {.channels = 64}};
        struct muster_policy *policy = parsed(write_all, &n, &text);
        assert_int_equal(policy->rules, 1);
        assert_int_equal(policy->rule[0].channels, 64);
        muster_policy_free(policy);
        free(text);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_combination_is_tried_where_nccl_has_it),
        TEST(what_runs_as_before_is_no_candidate),
        TEST(what_is_slower_everywhere_is_dropped),
        TEST(the_two_best_are_kept_in_order),
        TEST(half_the_channels_are_those_of_the_class),
        TEST(a_rule_needs_three_pairs),
        TEST(what_gains_too_little_or_scatters_is_not_kept),
        TEST(runs_in_which_the_rule_had_no_effect_do_not_count),
        TEST(what_only_seems_quicker_is_not_kept),
        TEST(what_only_seems_quicker_is_no_candidate),
        TEST(a_ratio_is_that_of_beats),
        TEST(between_rings_the_clock_stands_in_and_is_named),
        TEST(between_a_ring_and_a_tree_no_clock_decides),
        TEST(a_pair_without_the_measure_does_not_count),
        TEST(a_disturbed_first_run_lets_nothing_slow_in),
        TEST(a_lucky_first_run_keeps_nothing_quick_out),
        TEST(the_screening_is_to_the_median_of_the_runs_so_far),
        TEST(several_combinations_can_be_forced_together),
        TEST(what_failed_is_out),
        TEST(the_file_is_a_policy_with_its_evidence),
        TEST(without_rules_it_is_one_too),
        TEST(every_combination_that_nccl_has_can_be_forced),
        TEST(classes_of_every_size_and_shape_make_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
