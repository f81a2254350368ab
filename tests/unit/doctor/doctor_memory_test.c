/* Every allocation fails by itself of what several hosts say to each other, of their comparison, of
 * the causes of what a job showed, and of evidence. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/hosts/hosts.h"
#include "doctor/rules/causes.h"
#include "doctor/rules/checks.h"
#include "doctor/rules/doctor_compare.h"
#include "failing_memory.h"

typedef int make_fn(struct muster_err *err);

static void every_allocation(make_fn *make, long least)
{
    long n = 0;
    for (bool failed = true; failed; n++) {
        struct muster_err err = {""};
        failing_memory_once(n);
        int result = make(&err);
        failed = failing_memory_end();
        assert_int_equal(result < 0, failed);
        assert_int_equal(strstr(err.text, "out of memory") != NULL, failed);
    }
    assert_true(n > least);
}

/* ---- messages ---- */

static int pass_on(const struct muster_hosts_message *message, struct muster_err *err)
{
    struct muster_arena memory = {0}, there = {0};
    struct muster_hosts_message read;
    const char *text = muster_hosts_write(message, &memory);
    int rc = muster_arena_check(&memory, err, "a message");
    if (rc == 0)
        rc = muster_hosts_read(text, strlen(text), &there, &read, err);
    if (rc == 0)
        assert_int_equal(read.kind, message->kind);
    muster_arena_free(&memory);
    muster_arena_free(&there);
    return rc;
}

static int hello(struct muster_err *err)
{
    return pass_on(&(struct muster_hosts_message){.kind = MUSTER_HOSTS_HELLO,
                                                  .member = {.name = "a"},
                                                  .report = "{\"checks\":[]}"},
                   err);
}

static int reach(struct muster_err *err)
{
    const struct muster_hosts_member members[2] = {{.name = "a"}, {.name = "b"}};
    return pass_on(
        &(struct muster_hosts_message){
            .kind = MUSTER_HOSTS_REACH, .members = members, .n = 2, .timeout_ms = 9},
        err);
}

static int measure(struct muster_err *err)
{
    const int partner[2] = {1, 0};
    return pass_on(
        &(struct muster_hosts_message){
            .kind = MUSTER_HOSTS_MEASURE, .partner = partner, .rounds = 1, .n = 2, .ms = 9},
        err);
}

static int measured(struct muster_err *err)
{
    const struct muster_hosts_flow flow = {.peer = 1, .gbps = 2};
    return pass_on(
        &(struct muster_hosts_message){.kind = MUSTER_HOSTS_MEASURED, .flow = &flow, .flows = 1},
        err);
}

static void a_message_comes_whole_or_fails(void **state)
{
    (void)state;
    every_allocation(hello, 1);
    every_allocation(reach, 1);
    every_allocation(measure, 1);
    every_allocation(measured, 1);
}

/* ---- several hosts ---- */

static int compare(struct muster_err *err)
{
    static const char *const reports[] = {
        "{\"version\":1,\"host\":\"a\",\"checks\":[{\"id\":\"env.set\",\"status\":\"ok\","
        "\"found\":\"2\",\"evidence\":[\"NCCL_DEBUG=WARN\"]}]}",
        "{\"version\":1,\"host\":\"b\",\"checks\":[{\"id\":\"env.set\",\"status\":\"ok\","
        "\"found\":\"2\",\"evidence\":[\"NCCL_DEBUG=INFO\"]}]}"};
    struct muster_comparison *comparison = muster_comparison_new(err);
    FILE *out = fopen("/dev/null", "w");
    int rc = comparison ? 0 : -1;
    for (size_t i = 0; i < 2 && rc == 0; i++)
        rc = muster_comparison_add(comparison, "file", reports[i], strlen(reports[i]), err);
    if (rc == 0)
        rc = muster_comparison_print(comparison, false, out, err);
    fclose(out);
    muster_comparison_free(comparison);
    return rc;
}

static void hosts_are_compared_by_all_they_say(void **state)
{
    (void)state;
    every_allocation(compare, 1);
}

/* ---- one host ---- */

static int causes(struct muster_err *err)
{
    static struct muster_checks checks;
    struct muster_causes found;
    checks = (struct muster_checks){.n = 0};
    struct muster_check *check = muster_check_begin(&checks, "ib.ports", "F1");
    muster_check_worse(check, MUSTER_CHECK_PROBLEM);
    muster_check_evidence(check, "port %d is down", 1);
    int rc = muster_causes_find(&checks, "slow_transfer", &found, err);
    if (rc == 0)
        assert_string_equal(check->evidence[0], "port 1 is down");
    muster_checks_free(&checks);
    return rc;
}

static void evidence_and_causes_are_whole_or_fail(void **state)
{
    (void)state;
    every_allocation(causes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_comes_whole_or_fails),
        cmocka_unit_test(hosts_are_compared_by_all_they_say),
        cmocka_unit_test(evidence_and_causes_are_whole_or_fail),
    };
    json_set_alloc_funcs(failing_memory_spare, free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
