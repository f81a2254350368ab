#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "policy_random.h"

enum { ALGOS = 9, PROTOS = 4, ENTRIES = ALGOS * PROTOS };

static struct muster_policy *rule(const char *action)
{
    char text[300];
    struct muster_policy *policy = NULL;
    snprintf(text, sizeof(text), "muster: 1\npolicy: [{name: a, %s}]\n", action);
    assert_int_equal(muster_policy_parse(&policy, "p.yaml", text, strlen(text), NULL, NULL), 0);
    return policy;
}

static enum muster_applied apply(const char *action, float *cost, unsigned algos, unsigned protos,
                                 int *channels)
{
    struct muster_policy *policy = rule(action);
    struct muster_cost_table table = {cost, algos, protos};
    enum muster_applied applied =
        muster_policy_apply(&policy->advice[0], &table, MUSTER_POLICY_CHANNELS, channels);
    muster_policy_free(policy);
    return applied;
}

static void what_is_not_preferred_becomes_dear(void **state)
{
    (void)state;
    float cost[21] = {1, 2, 3, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, 7, -1, -1, -1, -1, -1, -1};
    int channels = 0;
    assert_int_equal(apply("prefer: {algo: ring, proto: [ll128, simple]}", cost, 7, 3, &channels),
                     MUSTER_APPLIED);
    static const float expected[21] = {1 + 1e9f, 2 + 1e9f, 3 + 1e9f, 4 + 1e9f, 5,  6,  -1,
                                       -1,       -1,       -1,       -1,       -1, -1, -1,
                                       7 + 1e9f, -1,       -1,       -1,       -1, -1, -1};
    assert_memory_equal(cost, expected, sizeof(cost));
    assert_int_equal(channels, 0);
}

static void what_is_not_offered_is_not_forced(void **state)
{
    (void)state;
    float cost[18], before[18];
    int channels = 0;
    for (int i = 0; i < 18; i++)
        cost[i] = i == 3 || i == 5 ? 10 : -1;
    memcpy(before, cost, sizeof(cost));
    assert_int_equal(apply("prefer: {algo: nvls, channels: 2}", cost, 6, 3, &channels),
                     MUSTER_APPLIED_NOT_OFFERED);
    assert_int_equal(apply("avoid: {proto: [ll, simple]}", cost, 6, 3, &channels),
                     MUSTER_APPLIED_NOT_OFFERED);
    assert_memory_equal(cost, before, sizeof(cost));
    assert_int_equal(channels, 0);
}

static void a_table_of_nothing_stays_as_it_is(void **state)
{
    (void)state;
    float cost[21], before[21];
    int channels = 0;
    for (int i = 0; i < 21; i++)
        cost[i] = i % 2 ? -1.0f : NAN;
    memcpy(before, cost, sizeof(cost));
    assert_int_equal(apply("prefer: {proto: simple, channels: 3}", cost, 7, 3, &channels),
                     MUSTER_APPLIED_NOT_OFFERED);
    assert_int_equal(apply("channels: 3", cost, 7, 3, &channels), MUSTER_APPLIED_NOT_OFFERED);
    assert_memory_equal(cost, before, sizeof(cost));
    assert_int_equal(channels, 0);
}

static void leave_writes_nothing(void **state)
{
    (void)state;
    float cost[21] = {1, 2, 3}, before[21];
    int channels = 5;
    memcpy(before, cost, sizeof(cost));
    assert_int_equal(apply("leave: true", cost, 7, 3, &channels), MUSTER_APPLIED_NOTHING);
    assert_memory_equal(cost, before, sizeof(cost));
    assert_int_equal(channels, 5);
}

static void channels_are_bounded_where_nccl_does_not(void **state)
{
    (void)state;
    struct muster_policy *policy = rule("channels: 8");
    float ring[21], collnet[21];
    for (int i = 0; i < 21; i++) {
        ring[i] = i == 5 ? 1 : -1;
        collnet[i] = i == 5 || i == 8 ? 1 : -1;
    }
    struct muster_cost_table bounded = {ring, 7, 3}, unbounded = {collnet, 7, 3};
    int channels = 0;
    assert_int_equal(muster_policy_apply(&policy->advice[0], &unbounded, 64, &channels),
                     MUSTER_APPLIED_NOT_OFFERED);
    assert_int_equal(muster_policy_apply(&policy->advice[0], &bounded, 1, &channels),
                     MUSTER_APPLIED_NOT_OFFERED);
    assert_int_equal(channels, 0);
    assert_int_equal(muster_policy_apply(&policy->advice[0], &bounded, 64, &channels),
                     MUSTER_APPLIED);
    assert_int_equal(channels, 8);
    muster_policy_free(policy);
}

/* What any table of any shape must come out as, written plainly. */
static bool keeps(const char *action, unsigned algo, unsigned proto)
{
    if (strstr(action, "avoid"))
        return algo > MUSTER_POLICY_ALGOS || proto != MUSTER_PROTO_LL128;
    return algo == MUSTER_ALGO_RING && proto == MUSTER_PROTO_SIMPLE;
}

static void fill(uint32_t *seed, float *cost, unsigned n)
{
    static const float odd[] = {-1, -1, -1, -0.5f, 0, 1e8f};
    for (unsigned i = 0; i < n; i++)
        switch (random_below(seed, 4)) {
        case 0:
            cost[i] = odd[random_below(seed, 6)];
            break;
        case 1:
            cost[i] = random_below(seed, 2) ? NAN : INFINITY;
            break;
        default:
            cost[i] = (float)random_below(seed, 100000) / 7;
        }
}

static void random_tables_of_every_shape(void **state)
{
    (void)state;
    static const char *const action[] = {"prefer: {algo: ring, proto: simple}",
                                         "avoid: {proto: ll128}"};
    uint32_t seed = 7;
    for (unsigned round = 0; round < 3000; round++) {
        unsigned algos = 1 + random_below(&seed, ALGOS), protos = 1 + random_below(&seed, PROTOS);
        unsigned n = algos * protos, kept = 0;
        const char *wish = action[round % 2];
        float cost[ENTRIES], before[ENTRIES];
        int channels = -7;
        fill(&seed, cost, ENTRIES);
        memcpy(before, cost, sizeof(cost));
        for (unsigned i = 0; i < n; i++)
            kept += before[i] >= 0 && keeps(wish, i / protos + 1, i % protos + 1);
        enum muster_applied applied = apply(wish, cost, algos, protos, &channels);
        assert_int_equal(applied == MUSTER_APPLIED_NOT_OFFERED, kept == 0);
        assert_int_equal(channels, -7);
        for (unsigned i = 0; i < ENTRIES; i++) {
            bool dear =
                i < n && kept && before[i] >= 0 && !keeps(wish, i / protos + 1, i % protos + 1);
            float expected = dear ? before[i] + MUSTER_POLICY_PENALTY : before[i];
            assert_memory_equal(&cost[i], &expected, sizeof(expected));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_preferred_becomes_dear),
        cmocka_unit_test(what_is_not_offered_is_not_forced),
        cmocka_unit_test(a_table_of_nothing_stays_as_it_is),
        cmocka_unit_test(leave_writes_nothing),
        cmocka_unit_test(channels_are_bounded_where_nccl_does_not),
        cmocka_unit_test(random_tables_of_every_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
