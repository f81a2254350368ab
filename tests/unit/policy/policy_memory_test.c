#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "failing_memory.h"
#include "policy/policy.h"

static const char document[] =
    "muster: 1\npolicy:\n"
    "- {name: a, match: {bytes: [1..5, 7..9], ranks: 2, pipe_ops: 2}, prefer: {algo: ring}}\n"
    "- {name: b, match: {bytes_per_rank: \">=9\"}, channels: 3}\n";

static void count_error(void *to, const struct muster_policy_message *message)
{
    unsigned *errors = to;
    *errors += !message->warning && strstr(message->text, "out of memory for ");
}

static void a_policy_that_finds_no_memory_says_so(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct muster_policy *policy = NULL;
        unsigned errors = 0;
        long before = failing_memory_live();
        failing_memory_begin(n);
        int rc =
            muster_policy_parse(&policy, "p", document, strlen(document), count_error, &errors);
        bool refused = failing_memory_end();
        assert_int_equal(rc, refused ? -1 : 0);
        assert_int_equal(errors > 0, refused);
        muster_policy_free(policy);
        assert_int_equal(failing_memory_live(), before);
        if (!refused)
            return;
    }
}

static void a_table_that_finds_no_memory_leaves_none_behind(void **state)
{
    (void)state;
    struct muster_policy *policy = NULL;
    struct muster_query comm = {.ranks = 2, .nodes = 1};
    assert_int_equal(muster_policy_parse(&policy, "p", document, strlen(document), NULL, NULL), 0);
    for (long n = 0;; n++) {
        struct muster_frozen *frozen = NULL;
        long before = failing_memory_live();
        failing_memory_begin(n);
        int rc = muster_policy_freeze(&frozen, policy, &comm);
        bool refused = failing_memory_end();
        assert_int_equal(rc, refused ? -1 : 0);
        muster_frozen_free(frozen);
        assert_int_equal(failing_memory_live(), before);
        if (!refused)
            break;
    }
    muster_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_that_finds_no_memory_says_so),
        cmocka_unit_test(a_table_that_finds_no_memory_leaves_none_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
