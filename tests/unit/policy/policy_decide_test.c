#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "policy_random.h"

static void show(void *to, const struct muster_policy_message *message)
{
    (void)to;
    if (!message->warning)
        print_error("line %u: %s\n", message->line, message->text);
}

static struct muster_policy *parse(const char *text)
{
    struct muster_policy *policy = NULL;
    assert_int_equal(muster_policy_parse(&policy, "p.yaml", text, strlen(text), show, NULL), 0);
    return policy;
}

static void expect_rule(const struct muster_policy *policy, const struct muster_frozen *frozen,
                        const struct muster_query *query)
{
    int expected = muster_policy_match(policy, query);
    int found = muster_frozen_decide(frozen, query->func, query->bytes, query->pipe_ops);
    if (found != expected)
        fail_msg("func %u bytes %llu pipe_ops %llu: rule %d, expected %d", query->func,
                 (unsigned long long)query->bytes, (unsigned long long)query->pipe_ops, found,
                 expected);
}

/* Every bound of every rule, and the values beside it, where a table could be off by one. */
static void try_bounds(const struct muster_policy *policy, const struct muster_frozen *frozen,
                       struct muster_query query)
{
    for (unsigned i = 0; i < policy->ranges; i++)
        for (uint64_t k = 0; k < 6; k++) {
            uint64_t bound = k < 3 ? policy->range[i].min : policy->range[i].max;
            query.bytes = bound + k % 3 - 1;
            expect_rule(policy, frozen, &query);
            query.bytes = bound * query.ranks + k % 3 - 1;
            expect_rule(policy, frozen, &query);
        }
}

static void the_table_decides_as_the_rules_do(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (unsigned round = 0; round < 150; round++) {
        char *text = random_document(&seed, 1 + random_below(&seed, 30));
        struct muster_policy *policy = parse(text);
        for (unsigned comm = 0; comm < 4; comm++) {
            struct muster_query query = {.ranks = 1 + random_below(&seed, 20),
                                         .nodes = 1 + random_below(&seed, 5),
                                         .nvlink_domains = random_below(&seed, 4)};
            struct muster_frozen *frozen;
            assert_int_equal(muster_policy_freeze(&frozen, policy, &query), 0);
            for (unsigned i = 0; i < 100; i++) {
                query.func = random_below(&seed, MUSTER_FUNCS + 2);
                query.pipe_ops = random_below(&seed, 5);
                query.bytes = random_size(&seed);
                expect_rule(policy, frozen, &query);
            }
            query.func = 1 + random_below(&seed, 5);
            query.pipe_ops = 1;
            try_bounds(policy, frozen, query);
            muster_frozen_free(frozen);
        }
        muster_policy_free(policy);
        free(text);
    }
}

static void the_first_rule_that_matches_wins(void **state)
{
    (void)state;
    struct muster_policy *policy = parse("muster: 1\npolicy:\n"
                                         "- {name: a, match: {bytes: 100..200}, leave: true}\n"
                                         "- {name: b, match: {bytes: 150..300}, leave: true}\n"
                                         "- {name: c, match: {nodes: 2}, leave: true}\n");
    struct muster_query comm = {.ranks = 8, .nodes = 2};
    struct muster_frozen *frozen;
    assert_int_equal(muster_policy_freeze(&frozen, policy, &comm), 0);
    static const struct {
        uint64_t bytes;
        int rule;
    } expected[] = {{0, 2},   {99, 2},  {100, 0},     {200, 0},       {201, 1},
                    {300, 1}, {301, 2}, {1 << 30, 2}, {UINT64_MAX, 2}};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_int_equal(muster_frozen_decide(frozen, MUSTER_FUNC_ALL_REDUCE, expected[i].bytes, 1),
                         expected[i].rule);
    muster_frozen_free(frozen);
    muster_policy_free(policy);
}

static void no_rule_for_what_no_tuner_is_asked_about(void **state)
{
    (void)state;
    struct muster_policy *policy = parse("muster: 1\npolicy: [{name: a, leave: true}]\n");
    struct muster_query comm = {.ranks = 100000, .nodes = 1};
    struct muster_frozen *frozen;
    assert_int_equal(muster_policy_freeze(&frozen, policy, &comm), 0);
    static const unsigned none[] = {MUSTER_FUNC_UNKNOWN,    MUSTER_FUNC_SEND, MUSTER_FUNC_RECV,
                                    MUSTER_FUNC_ALL_TO_ALL, MUSTER_FUNCS,     255};
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_int_equal(muster_frozen_decide(frozen, none[i], 8, 1), MUSTER_POLICY_NO_RULE);
    assert_int_equal(muster_frozen_decide(frozen, MUSTER_FUNC_REDUCE, 8, 1), 0);
    muster_frozen_free(frozen);
    muster_policy_free(policy);
}

static void domains_match_only_where_they_are_known(void **state)
{
    (void)state;
    struct muster_policy *policy =
        parse("muster: 1\npolicy: [{name: a, match: {nvlink_domains: \">=1\"}, leave: true}]\n");
    struct muster_query query = {.func = MUSTER_FUNC_REDUCE, .ranks = 4, .nodes = 2};
    char why[100];
    assert_int_equal(muster_policy_match(policy, &query), MUSTER_POLICY_NO_RULE);
    assert_false(muster_rule_explain(policy, &policy->rule[0], &query, why, sizeof(why)));
    assert_string_equal(why, "nvlink_domains is not known");
    query.nvlink_domains = 2;
    assert_int_equal(muster_policy_match(policy, &query), 0);
    muster_policy_free(policy);
}

static void explanations_name_the_first_difference(void **state)
{
    (void)state;
    struct muster_policy *policy =
        parse("muster: 1\npolicy:\n- {name: a, match: {collective: [all_reduce, reduce], "
              "bytes: [1KiB..64KiB, 1MiB], ranks_per_node: 8}, leave: true}\n");
    struct muster_query query = {
        .func = MUSTER_FUNC_BROADCAST, .bytes = 100, .pipe_ops = 1, .ranks = 9, .nodes = 2};
    const struct muster_rule *rule = &policy->rule[0];
    char why[200];
    assert_false(muster_rule_explain(policy, rule, &query, why, sizeof(why)));
    assert_string_equal(why, "broadcast is not all_reduce or reduce");
    query.func = MUSTER_FUNC_REDUCE;
    assert_false(muster_rule_explain(policy, rule, &query, why, sizeof(why)));
    assert_string_equal(why, "bytes 100 B is not 1 KiB..64 KiB or 1 MiB");
    query.bytes = 2048;
    assert_false(muster_rule_explain(policy, rule, &query, why, sizeof(why)));
    assert_string_equal(why, "ranks_per_node is no whole number");
    query.ranks = 16;
    assert_true(muster_rule_explain(policy, rule, &query, why, sizeof(why)));
    assert_string_equal(why, "");
    query.func = MUSTER_FUNC_SEND;
    assert_false(muster_rule_explain(policy, rule, &query, why, sizeof(why)));
    assert_string_equal(why, "NCCL asks no tuner about this collective");
    muster_policy_free(policy);
}

struct walked {
    uint64_t next;
    unsigned n;
    int rules[8];
};

static void note(void *to, struct muster_policy_range pipe_ops, struct muster_policy_range bytes,
                 int rule)
{
    struct walked *walked = to;
    assert_int_equal(pipe_ops.min, 0);
    assert_true(pipe_ops.max == UINT64_MAX);
    assert_true(bytes.min == walked->next);
    walked->next = bytes.max + 1;
    walked->rules[walked->n++ % 8] = rule;
}

static void a_walk_shows_all_intervals(void **state)
{
    (void)state;
    struct muster_policy *policy =
        parse("muster: 1\npolicy: [{name: a, match: {bytes_per_rank: 2..3}, leave: true}]\n");
    struct muster_query comm = {.ranks = 4, .nodes = 1};
    struct muster_frozen *frozen;
    struct walked walked = {0};
    assert_int_equal(muster_policy_freeze(&frozen, policy, &comm), 0);
    muster_frozen_walk(frozen, MUSTER_FUNC_ALL_GATHER, note, &walked);
    assert_int_equal(walked.n, 3);
    assert_int_equal(walked.rules[1], 0);
    assert_int_equal(muster_frozen_decide(frozen, MUSTER_FUNC_ALL_GATHER, 7, 1), -1);
    assert_int_equal(muster_frozen_decide(frozen, MUSTER_FUNC_ALL_GATHER, 8, 1), 0);
    assert_int_equal(muster_frozen_decide(frozen, MUSTER_FUNC_ALL_GATHER, 15, 1), 0);
    assert_int_equal(muster_frozen_decide(frozen, MUSTER_FUNC_ALL_GATHER, 16, 1), -1);
    assert_true(walked.next == 0);
    muster_frozen_free(frozen);
    muster_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_decides_as_the_rules_do),
        cmocka_unit_test(the_first_rule_that_matches_wins),
        cmocka_unit_test(no_rule_for_what_no_tuner_is_asked_about),
        cmocka_unit_test(domains_match_only_where_they_are_known),
        cmocka_unit_test(explanations_name_the_first_difference),
        cmocka_unit_test(a_walk_shows_all_intervals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
