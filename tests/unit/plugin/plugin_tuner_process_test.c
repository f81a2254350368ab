/* The tuner of the built plugin beside its profiler, in forked children and under threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl/profiler_abi.h"
#include "policy/policy.h"
#include "segment/segment_reader.h"
#include "tuner_testbed.h"

enum { ALGOS = 7, PROTOS = 3, ENTRIES = ALGOS * PROTOS, ALL_REDUCE = 4 };

static char logged[8192];

static const char prefer_ring_simple[] =
    "muster: 1\npolicy:\n- {name: a, match: {bytes: 1KiB..1MiB}, prefer: {algo: ring, proto: "
    "simple, channels: 4}}\n";

static void fill(float *cost)
{
    for (unsigned i = 0; i < ENTRIES; i++)
        cost[i] = i < 6 ? (float)i : -1;
}

static void profiler_init(void)
{
    const struct nccl_profiler_v5 *profiler = tuner_symbol("ncclProfiler_v5");
    void *context = NULL;
    int mask = 0;
    REQUIRE(profiler->init(&context, 0xabcd, &mask, "c", 1, 8, 0, NULL) == 0);
    REQUIRE(context);
}

static void decide_some(unsigned times)
{
    void *context = tuner_open(5, 8, 1, 1);
    float cost[ENTRIES];
    for (unsigned i = 0; i < times; i++) {
        fill(cost);
        struct ask ask = {ALL_REDUCE, 4096, 1, cost, ALGOS, PROTOS, 0, 0, -1, -1};
        REQUIRE(tuner_ask(5, context, &ask) == 0);
    }
    for (unsigned i = 0; i < ENTRIES; i++)
        cost[i] = -1;
    struct ask ask = {ALL_REDUCE, 4096, 1, cost, ALGOS, PROTOS, 0, 0, -1, -1};
    REQUIRE(tuner_ask(5, context, &ask) == 0);
}

static void profiler_first(void)
{
    profiler_init();
    decide_some(10);
}

static void tuner_first(void)
{
    decide_some(4);
    profiler_init();
    decide_some(5);
}

static struct muster_segment *archived(void)
{
    struct muster_segment *segment = NULL;
    struct muster_err err;
    DIR *run = opendir(tuner_dir);
    assert_non_null(run);
    for (struct dirent *entry; (entry = readdir(run));) {
        char path[5000];
        snprintf(path, sizeof(path), "%s/%s", tuner_dir, entry->d_name);
        if (strstr(entry->d_name, ".seg") && muster_segment_read(path, &segment, &err) != 0)
            fail_msg("%s", err.text);
    }
    closedir(run);
    assert_non_null(segment);
    return segment;
}

static void expect_counters(void (*order)(void), unsigned hits, unsigned not_offered)
{
    setenv("MUSTER_DIR", tuner_dir, 1);
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(order, logged, sizeof(logged));
    struct muster_segment *segment = archived();
    const struct muster_seg_policy *policy = &segment->policy;
    char hex[MUSTER_POLICY_HEX];
    assert_string_equal(muster_policy_state_name(atomic_load(&policy->state)), "active");
    assert_int_equal(policy->rules, 1);
    assert_int_equal(policy->tuner_api, 5);
    assert_string_equal(policy->rule[0].name, "a");
    assert_int_equal(policy->rule[0].line, 3);
    assert_int_equal(atomic_load(&policy->rule[0].hits), hits);
    assert_int_equal(atomic_load(&policy->rule[0].not_offered), not_offered);
    muster_policy_hex(hex, policy->sha256);
    assert_true(strspn(hex, "0") < 8);
    free(segment);
}

static void the_segment_counts_hits_and_what_was_not_offered(void **state)
{
    (void)state;
    expect_counters(profiler_first, 11, 1);
}

static void the_tuner_may_come_before_the_profiler(void **state)
{
    (void)state;
    expect_counters(tuner_first, 11, 2);
}

static void fork_and_decide(void)
{
    profiler_init();
    void *context = tuner_open(5, 8, 1, 1);
    pid_t child = fork();
    float cost[ENTRIES];
    fill(cost);
    struct ask ask = {ALL_REDUCE, 4096, 1, cost, ALGOS, PROTOS, 0, 0, -1, -1};
    int rc = tuner_ask(5, context, &ask);
    if (child == 0)
        _exit(rc == 0 && ask.channels == 4 ? 0 : 1);
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child && status == 0);
}

static void a_forked_child_decides_without_a_segment(void **state)
{
    (void)state;
    setenv("MUSTER_DIR", tuner_dir, 1);
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(fork_and_decide, logged, sizeof(logged));
    struct muster_segment *segment = archived();
    assert_int_equal(atomic_load(&segment->policy.rule[0].hits), 1);
    free(segment);
}

static void *open_and_ask(void *none)
{
    for (unsigned i = 0; i < 200; i++) {
        float cost[ENTRIES];
        fill(cost);
        void *context = tuner_open(5, 2 + i % 7, 1, 1);
        struct ask ask = {ALL_REDUCE, 4096, 1, cost, ALGOS, PROTOS, 0, 0, -1, -1};
        REQUIRE(tuner_ask(5, context, &ask) == 0 && ask.channels == 4);
        REQUIRE(tuner_close(5, context) == 0);
    }
    return none;
}

static void eight_threads(void)
{
    pthread_t thread[8];
    for (unsigned i = 0; i < 8; i++)
        REQUIRE(pthread_create(&thread[i], NULL, open_and_ask, NULL) == 0);
    for (unsigned i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
}

static void communicators_are_made_by_many_threads_at_once(void **state)
{
    (void)state;
    setenv("MUSTER_POLICY_INLINE", prefer_ring_simple, 1);
    tuner_in_child(eight_threads, logged, sizeof(logged));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_fresh(the_segment_counts_hits_and_what_was_not_offered),
        cmocka_unit_test_fresh(the_tuner_may_come_before_the_profiler),
        cmocka_unit_test_fresh(a_forked_child_decides_without_a_segment),
        cmocka_unit_test_fresh(communicators_are_made_by_many_threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
