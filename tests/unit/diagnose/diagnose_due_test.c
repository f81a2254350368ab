/* When the live diagnosis looks for late ranks again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "diagnose/live/live_motion.h"
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

/* Jobs of a host that each would like to be evaluated each second, 1 ms a time. */
static uint64_t evaluated(unsigned jobs, unsigned seconds)
{
    uint64_t paid_ns = 0, n = 0;
    for (unsigned s = 1; s <= seconds; s++)
        for (unsigned j = 0; j < jobs; j++)
            if (paid_ns <= s * SECOND) {
                paid_ns = muster_live_slow_paid_ns(paid_ns, s * SECOND, SECOND / 4);
                n++;
            }
    return n;
}

static void all_jobs_of_a_host_together_take_what_one_may(void **state)
{
    (void)state;
    assert_int_equal(evaluated(1, 100), 100);
    assert_int_equal(evaluated(4, 100), 400);
    assert_in_range(evaluated(16, 100), 400, 401);
}

/* Nobody waits where nobody called anything, and where all that was called has ended. */
static void where_nothing_was_called_nothing_hangs(void **state)
{
    (void)state;
    static struct muster_segment segment;
    static struct muster_live_peer peer = {.alive = true};
    struct muster_live_motions motions = {0};
    struct muster_seg_comm *comm = &segment.comm[0];
    *comm = (struct muster_seg_comm){.uid = 1, .id = 0xabc};
    for (unsigned called = 0; called < 2; called++) {
        comm->calls = called;
        comm->called_ns = called * SECOND;
        muster_live_calls_of(&segment, 1, &peer);
        for (unsigned s = 10; s < 13; s++)
            muster_live_motions_take(&motions, &peer, 1, NULL, s * SECOND);
        assert_int_equal(muster_live_motions_due(&motions, 5 * SECOND, 0, UINT64_MAX, 30 * SECOND),
                         called);
    }
    muster_live_motions_free(&motions);
}

static void what_stands_still_is_evaluated_seldomer_each_time(void **state)
{
    (void)state;
    uint64_t again_ns = MUSTER_LIVE_AGAIN_NS;
    for (unsigned s = 20; s <= 160; s *= 2) {
        again_ns = muster_live_again_ns(again_ns, false, false, 0);
        assert_int_equal(again_ns, s * SECOND);
    }
    assert_int_equal(muster_live_again_ns(again_ns, false, false, 0), 160 * SECOND);
    assert_int_equal(muster_live_again_ns(again_ns, false, false, SECOND / 2), 500 * SECOND);
    assert_int_equal(muster_live_again_ns(again_ns, false, true, 0), 10 * SECOND);
    assert_int_equal(muster_live_again_ns(again_ns, true, false, SECOND), 10 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_operations_are_looked_at_after_a_rest),
        cmocka_unit_test(what_was_found_is_looked_for_again_steps_later),
        cmocka_unit_test(so_many_steps_but_no_longer_than_half_a_minute),
        cmocka_unit_test(all_jobs_of_a_host_together_take_what_one_may),
        cmocka_unit_test(where_nothing_was_called_nothing_hangs),
        cmocka_unit_test(what_stands_still_is_evaluated_seldomer_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
