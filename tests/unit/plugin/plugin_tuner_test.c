/* The tuner of the built plugin, from init to the cost table, in every interface version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/policy.h"
#include "tuner_testbed.h"

enum { ALGOS = 7, PROTOS = 3, ENTRIES = ALGOS * PROTOS, ALL_REDUCE = 4, ALL_GATHER = 2 };
enum { RING_SIMPLE = 1 * PROTOS + 2 };

static char logged[8192];

static uint32_t random_number(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void random_table(uint32_t *seed, float *cost)
{
    static const float odd[] = {-1, -1, -1, -3, 0};
    for (unsigned i = 0; i < ENTRIES; i++) {
        uint32_t chance = random_number(seed) % 8;
        if (chance == 7)
            cost[i] = random_number(seed) % 2 ? NAN : INFINITY;
        else
            cost[i] = chance < 5 ? odd[chance] : (float)(random_number(seed) % 100000) / 7;
    }
}

static const char prefer_ring_simple[] =
    "muster: 1\npolicy:\n- {name: a, match: {bytes: 1KiB..1MiB}, prefer: {algo: ring, proto: "
    "simple, channels: 4}}\n";

/* ---- Nothing to do ---- */

/* Every function, size and table: not a bit may change. */
static void expect_untouched(void)
{
    uint32_t seed = 3;
    for (unsigned api = TUNER_OLDEST; api <= TUNER_NEWEST; api++) {
        void *context = tuner_open(api, 8, 2, 1);
        for (unsigned round = 0; round < 2000; round++) {
            float cost[ENTRIES], before[ENTRIES];
            random_table(&seed, cost);
            memcpy(before, cost, sizeof(cost));
            struct ask ask = {.func = (int)(random_number(&seed) % 20) - 2,
                              .bytes = (size_t)random_number(&seed) << random_number(&seed) % 40,
                              .pipe_ops = (int)(random_number(&seed) % 5),
                              .cost = cost,
                              .algos = ALGOS,
                              .protos = PROTOS,
                              .registered = (int)(random_number(&seed) % 2),
                              .channels = (int)(random_number(&seed) % 3),
                              .algo = -1,
                              .proto = -1};
            struct ask asked = ask;
            REQUIRE(tuner_ask(api, context, &ask) == 0);
            REQUIRE(memcmp(&ask, &asked, sizeof(ask)) == 0);
            REQUIRE(memcmp(cost, before, sizeof(cost)) == 0);
        }
        REQUIRE(tuner_close(api, context) == 0);
    }
}

static void without_a_policy_nothing_is_touched(void **state)
{
    (void)state;
    tuner_in_child(expect_untouched, logged, sizeof(logged));
    assert_string_equal(logged, "");
}

static void without_rules_nothing_is_touched(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", "muster: 1\npolicy: []\n", 1);
    tuner_in_child(expect_untouched, logged, sizeof(logged));
    assert_string_equal(logged, "");
}

static void without_a_rule_that_matches_nothing_is_touched(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE",
           "muster: 1\npolicy:\n- {name: a, match: {ranks: 9}, prefer: {algo: ring, channels: 1}}\n"
           "- {name: b, leave: true}\n- {name: c, avoid: {proto: ll}}\n",
           1);
    tuner_in_child(expect_untouched, logged, sizeof(logged));
}

static void switched_off_it_touches_nothing(void **state)
{
    (void)state;
    setenv("MUSTER_OFF", "1", 1);
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(expect_untouched, logged, sizeof(logged));
    assert_string_equal(logged, "");
}

static void a_policy_with_an_error_is_off_as_a_whole(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE",
           "muster: 1\npolicy:\n- {name: a, prefer: {algo: ring}}\n- {name: b, chanels: 2}\n", 1);
    tuner_in_child(expect_untouched, logged, sizeof(logged));
    assert_non_null(strstr(logged, "MUSTER_POLICY_INLINE:4:13: error: unknown key 'chanels' in a "
                                   "rule, did you mean 'channels'?"));
    assert_non_null(strstr(logged, "off as a whole"));
}

static void another_hash_is_refused(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    setenv("MUSTER_POLICY_SHA256",
           "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", 1);
    tuner_in_child(expect_untouched, logged, sizeof(logged));
    assert_non_null(strstr(logged, "MUSTER_POLICY_SHA256 is e3b0c442"));
    assert_non_null(strstr(logged, "the tuner stays off"));
    unsetenv("MUSTER_POLICY_INLINE");
    tuner_in_child(expect_untouched, logged, sizeof(logged));
    assert_non_null(strstr(logged, "there is no policy"));
}

/* ---- Something to do ---- */

static void fill(float *cost)
{
    for (unsigned i = 0; i < ENTRIES; i++)
        cost[i] = i < 6 ? (float)i : -1;
}

static void expect_ring_simple(void)
{
    for (unsigned api = 3; api <= TUNER_NEWEST; api++) {
        void *context = tuner_open(api, 8, 1, 1);
        for (int registered = 0; registered < 2; registered++) {
            float cost[ENTRIES];
            fill(cost);
            struct ask ask = {ALL_REDUCE, 4096, 1, cost, ALGOS, PROTOS, registered, 0, -1, -1};
            REQUIRE(tuner_ask(api, context, &ask) == 0);
            for (unsigned i = 0; i < ENTRIES; i++) {
                float expected = i == RING_SIMPLE || i >= 6 ? i < 6 ? (float)i : -1
                                                            : (float)i + MUSTER_POLICY_PENALTY;
                REQUIRE(memcmp(&cost[i], &expected, sizeof(expected)) == 0);
            }
            REQUIRE(ask.channels == 4);
        }
        REQUIRE(tuner_close(api, context) == 0);
        REQUIRE(tuner_close(api, context) == 0);
    }
}

static void a_rule_reaches_the_table_of_every_version(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(expect_ring_simple, logged, sizeof(logged));
    assert_string_equal(logged, "");
}

static void the_right_hash_is_accepted_in_either_case(void **state)
{
    (void)state;
    struct muster_policy *policy;
    char hex[MUSTER_POLICY_HEX];
    assert_int_equal(muster_policy_parse(&policy, "x", prefer_ring_simple,
                                         strlen(prefer_ring_simple), NULL, NULL),
                     0);
    muster_policy_hex(hex, policy->sha256);
    muster_policy_free(policy);
    hex[0] = hex[0] >= 'a' ? (char)(hex[0] - 'a' + 'A') : hex[0];
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    setenv("MUSTER_POLICY_SHA256", hex, 1);
    tuner_in_child(expect_ring_simple, logged, sizeof(logged));
    assert_string_equal(logged, "");
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void the_configuration_file_holds_a_policy_too(void **state)
{
    (void)state;
    char path[5000];
    snprintf(path, sizeof(path), "%s/c.yaml", tuner_dir);
    write_file(path, prefer_ring_simple);
    setenv("MUSTER_CONFIG", path, 1);
    tuner_in_child(expect_ring_simple, logged, sizeof(logged));
    assert_string_equal(logged, "");
    setenv("MUSTER_POLICY_INLINE", "muster: 1\n", 1);
    tuner_in_child(expect_untouched, logged, sizeof(logged));
}

static void change_the_file(void)
{
    tuner_open(3, 8, 1, 0);
    write_file(getenv("MUSTER_CONFIG"), "muster: 1\npolicy: [{name: b, leave: true}]\n");
    expect_ring_simple();
}

static void a_file_that_changes_has_no_effect_and_is_said(void **state)
{
    (void)state;
    char path[5000];
    snprintf(path, sizeof(path), "%s/c.yaml", tuner_dir);
    write_file(path, prefer_ring_simple);
    setenv("MUSTER_CONFIG", path, 1);
    tuner_in_child(change_the_file, logged, sizeof(logged));
    assert_non_null(strstr(logged, "the file with the policy has changed"));
}

static void too_much_in_the_environment_is_refused(void **state)
{
    (void)state;
    char *text = malloc((96 << 10) + 2);
    memset(text, '#', (96 << 10) + 1);
    text[(96 << 10) + 1] = '\0';
    setenv("MUSTER_POLICY_INLINE", text, 1);
    free(text);
    tuner_in_child(expect_untouched, logged, sizeof(logged));
    assert_non_null(strstr(logged, "MUSTER_POLICY_INLINE: larger than 96 KiB"));
}

static void an_unreadable_file_leaves_the_tuner_off(void **state)
{
    (void)state;
    setenv("MUSTER_CONFIG", tuner_dir, 1);
    tuner_in_child(expect_untouched, logged, sizeof(logged));
    assert_non_null(strstr(logged, "not a regular file: the tuner stays off in this process"));
    assert_null(strstr(logged, "has errors"));
}

/* ---- What NCCL's interface demands ---- */

static void v2_is_asked_in_vain(void)
{
    void *context = tuner_open(2, 8, 1, 0);
    struct ask ask = {ALL_REDUCE, 4096, 1, NULL, 0, 0, 0, 0, -1, -1};
    REQUIRE(tuner_ask(2, context, &ask) == 0);
    REQUIRE(ask.algo == -1 && ask.proto == -1 && ask.channels == 0);
}

static void v2_without_a_table_is_left_alone(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(v2_is_asked_in_vain, logged, sizeof(logged));
    assert_non_null(strstr(logged, "no cost table: the policy steers nothing"));
}

static void never_revived(void)
{
    uint32_t seed = 5;
    for (unsigned api = 3; api <= TUNER_NEWEST; api++) {
        void *context = tuner_open(api, 8, 1, 1);
        for (unsigned round = 0; round < 5000; round++) {
            float cost[ENTRIES], before[ENTRIES];
            random_table(&seed, cost);
            memcpy(before, cost, sizeof(cost));
            struct ask ask = {ALL_REDUCE, 4096, 1, cost, ALGOS, PROTOS, 0, 0, -1, -1};
            REQUIRE(tuner_ask(api, context, &ask) == 0);
            bool offered = before[RING_SIMPLE] >= 0;
            for (unsigned i = 0; i < ENTRIES; i++) {
                bool same = memcmp(&cost[i], &before[i], sizeof(cost[i])) == 0;
                REQUIRE(same || (offered && before[i] >= 0 && cost[i] > before[i]));
            }
            REQUIRE(ask.channels == (offered ? 4 : 0));
        }
    }
}

static void what_nccl_ruled_out_is_never_revived(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    setenv("NCCL_PROTO", "LL", 1);
    tuner_in_child(never_revived, logged, sizeof(logged));
    assert_non_null(strstr(logged, "NCCL_ALGO or NCCL_PROTO is set"));
    assert_ptr_equal(strstr(strstr(logged, "NCCL_ALGO") + 1, "NCCL_ALGO"), NULL);
}

static void odd_tables(void)
{
    static const int shape[][2] = {{0, 0}, {0, 3}, {-1, 3}, {6, 3},
                                   {9, 3}, {7, 5}, {1, 1},  {7, -3}};
    for (unsigned api = 3; api <= TUNER_NEWEST; api++)
        for (size_t i = 0; i < sizeof(shape) / sizeof(shape[0]); i++) {
            int algos = shape[i][0], protos = shape[i][1];
            void *context = tuner_open(api, 8, 1, 1);
            float *cost = malloc(100 * sizeof(*cost));
            for (int k = 0; k < 100; k++)
                cost[k] = 1;
            struct ask ask = {ALL_REDUCE, 4096, 1, cost, algos, protos, 0, 0, -1, -1};
            REQUIRE(tuner_ask(api, context, &ask) == 0);
            bool has = algos >= 2 && protos >= 3;
            for (int k = 0; k < 100; k++) {
                bool preferred = has && k == protos + 2;
                bool inside = has && k < algos * protos;
                REQUIRE(cost[k] == (inside && !preferred ? 1 + MUSTER_POLICY_PENALTY : 1));
            }
            free(cost);
        }
}

static void tables_of_other_sizes_keep_their_stride(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(odd_tables, logged, sizeof(logged));
}

static void nulls(void)
{
    for (unsigned api = TUNER_OLDEST; api <= TUNER_NEWEST; api++) {
        struct ask ask = {ALL_REDUCE, 4096, 1, NULL, ALGOS, PROTOS, 0, 0, -1, -1};
        REQUIRE(tuner_ask(api, NULL, &ask) == 0);
        REQUIRE(tuner_close(api, NULL) == 0);
        void *context = tuner_open(api, 8, 1, 1);
        REQUIRE(tuner_ask(api, context, &ask) == 0);
        REQUIRE(ask.channels == 0);
    }
    const struct nccl_tuner_v6 *v6 = tuner_symbol("ncclTunerPlugin_v6");
    const struct nccl_tuner_v6 *v7 = tuner_symbol("ncclTunerPlugin_v7");
    REQUIRE(!v6->get_chunk_size && !v7->get_chunk_size);
    void *context = NULL;
    REQUIRE(v6->init(&context, 0, 8, 1, NULL, NULL, NULL) == 0 && context);
    REQUIRE(v6->init(NULL, 0, 8, 1, NULL, NULL, NULL) == 0);
    float cost[ENTRIES];
    fill(cost);
    REQUIRE(v6->get_coll_info(context, ALL_REDUCE, 4096, 1, cost, ALGOS, PROTOS, 0, NULL) == 0);
}

static void nothing_that_is_missing_does_harm(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(nulls, logged, sizeof(logged));
}

static void constants(void)
{
    struct nccl_tuner_constants_v7 lent, before;
    struct nccl_nvl_domains nvl = {1, 8, 8};
    void *context = NULL;
    memset(&lent, 0x3f, sizeof(lent));
    before = lent;
    for (unsigned api = 5; api <= TUNER_NEWEST; api++) {
        char name[32];
        snprintf(name, sizeof(name), "ncclTunerPlugin_v%u", api);
        const struct nccl_tuner_v5 *table = tuner_symbol(name);
        REQUIRE(table->init(&context, 1, 8, 1, NULL, &nvl, &lent) == 0);
        REQUIRE(memcmp(&lent, &before, sizeof(lent)) == 0);
        REQUIRE(nvl.domains == 1 && nvl.min_ranks == 8 && nvl.max_ranks == 8);
    }
}

static void the_constants_of_nccls_model_are_left_alone(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(constants, logged, sizeof(logged));
}

static void sizes_of_communicators(void)
{
    static const size_t ranks[] = {0, 1, 100000, SIZE_MAX};
    for (unsigned api = TUNER_OLDEST; api <= TUNER_NEWEST; api++)
        for (size_t i = 0; i < 4; i++)
            for (size_t j = 0; j < 4; j++) {
                float cost[ENTRIES];
                fill(cost);
                struct ask ask = {ALL_REDUCE, SIZE_MAX, INT32_MIN, cost, ALGOS, PROTOS, 0, 0, 0, 0};
                void *context = tuner_open(api, ranks[i], ranks[j], -1);
                REQUIRE(tuner_ask(api, context, &ask) == 0);
            }
}

static void communicators_of_any_size_are_survived(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE",
           "muster: 1\npolicy:\n- {name: a, match: {bytes_per_rank: 1..2GiB, ranks_per_node: 3, "
           "pipe_ops: [1, 4..8], nvlink_domains: 2}, channels: 2}\n- {name: b, channels: 3}\n",
           1);
    tuner_in_child(sizes_of_communicators, logged, sizeof(logged));
}

/* 2.29 and later ask for a Broadcast's channels as an AllGather's and do not bound them. */
static void gather_channels(void)
{
    for (unsigned api = 3; api <= TUNER_NEWEST; api++) {
        float cost[ENTRIES];
        fill(cost);
        struct ask ask = {ALL_GATHER, 4096, 1, cost, ALGOS, PROTOS, 0, 0, -1, -1};
        REQUIRE(tuner_ask(api, tuner_open(api, 8, 1, 1), &ask) == 0);
        REQUIRE(ask.channels == (api <= 4 ? 4 : 0));
        REQUIRE(cost[0] > 1e8f && cost[RING_SIMPLE] < 10);
    }
}

static void channels_of_an_all_gather_are_bounded(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(gather_channels, logged, sizeof(logged));
}

static void domains(void)
{
    for (unsigned api = 3; api <= TUNER_NEWEST; api++) {
        float cost[ENTRIES];
        fill(cost);
        struct ask ask = {ALL_REDUCE, 4096, 1, cost, ALGOS, PROTOS, 0, 0, -1, -1};
        REQUIRE(tuner_ask(api, tuner_open(api, 8, 2, 2), &ask) == 0);
        REQUIRE(ask.channels == (api >= 5 ? 3 : 0));
    }
}

static void nvlink_domains_are_known_from_v5_on(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE",
           "muster: 1\npolicy: [{name: a, match: {nvlink_domains: 2}, channels: 3}]\n", 1);
    tuner_in_child(domains, logged, sizeof(logged));
    const char *first = strstr(logged, "does not tell NVLink domains");
    assert_non_null(first);
    assert_null(strstr(first + 1, "does not tell NVLink domains"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_fresh(without_a_policy_nothing_is_touched),
        cmocka_unit_test_fresh(without_rules_nothing_is_touched),
        cmocka_unit_test_fresh(without_a_rule_that_matches_nothing_is_touched),
        cmocka_unit_test_fresh(switched_off_it_touches_nothing),
        cmocka_unit_test_fresh(a_policy_with_an_error_is_off_as_a_whole),
        cmocka_unit_test_fresh(another_hash_is_refused),
        cmocka_unit_test_fresh(a_rule_reaches_the_table_of_every_version),
        cmocka_unit_test_fresh(the_right_hash_is_accepted_in_either_case),
        cmocka_unit_test_fresh(the_configuration_file_holds_a_policy_too),
        cmocka_unit_test_fresh(a_file_that_changes_has_no_effect_and_is_said),
        cmocka_unit_test_fresh(too_much_in_the_environment_is_refused),
        cmocka_unit_test_fresh(an_unreadable_file_leaves_the_tuner_off),
        cmocka_unit_test_fresh(v2_without_a_table_is_left_alone),
        cmocka_unit_test_fresh(what_nccl_ruled_out_is_never_revived),
        cmocka_unit_test_fresh(tables_of_other_sizes_keep_their_stride),
        cmocka_unit_test_fresh(nothing_that_is_missing_does_harm),
        cmocka_unit_test_fresh(the_constants_of_nccls_model_are_left_alone),
        cmocka_unit_test_fresh(communicators_of_any_size_are_survived),
        cmocka_unit_test_fresh(channels_of_an_all_gather_are_bounded),
        cmocka_unit_test_fresh(nvlink_domains_are_known_from_v5_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
