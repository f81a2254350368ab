/* When the live diagnosis looks for late ranks again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "diagnose/live/live_slow.h"

#define SECOND MUSTER_NS_PER_S

enum { RANKS = 4, ENOUGH = 16 * RANKS };

static const struct muster_live_slow looked = {
    .evaluated_ns = 100 * SECOND, .rest_ns = 2 * SECOND, .apart_ns = 9 * SECOND, .timed = 1000};

static void new_operations_are_looked_at_after_a_rest(void **state)
{
    (void)state;
    assert_false(muster_live_slow_due_at(&looked, 1000 + ENOUGH, RANKS, 101 * SECOND, false));
    assert_true(muster_live_slow_due_at(&looked, 1000 + ENOUGH, RANKS, 102 * SECOND, false));
    assert_false(muster_live_slow_due_at(&looked, 999 + ENOUGH, RANKS, 200 * SECOND, false));
    assert_false(muster_live_slow_due_at(&looked, 1000 + ENOUGH, 1, 200 * SECOND, false));
}

/* In between a look would see the steps again in which somebody was found. */
static void what_was_found_is_looked_for_again_steps_later(void **state)
{
    (void)state;
    assert_false(muster_live_slow_due_at(&looked, 1000 + ENOUGH, RANKS, 108 * SECOND, true));
    assert_true(muster_live_slow_due_at(&looked, 1000, RANKS, 109 * SECOND, true));
}

static void so_many_steps_but_no_longer_than_half_a_minute(void **state)
{
    (void)state;
    struct muster_finding finding[] = {{.step_s = 0.1}, {.step_s = 0.4}, {.step_s = 0}};
    struct muster_findings findings = {.finding = finding, .n = 3};
    assert_int_equal(muster_live_slow_apart_ns(&findings), 36 * SECOND / 10);
    finding[2].step_s = 60;
    assert_int_equal(muster_live_slow_apart_ns(&findings), 30 * SECOND);
    findings.n = 0;
    assert_int_equal(muster_live_slow_apart_ns(&findings), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_operations_are_looked_at_after_a_rest),
        cmocka_unit_test(what_was_found_is_looked_for_again_steps_later),
        cmocka_unit_test(so_many_steps_but_no_longer_than_half_a_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
