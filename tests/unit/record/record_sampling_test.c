#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "record/launch_price.h"
#include "record/sampling.h"

static const uint64_t ids[] = {0, 1, 0xc0ffee, 0x123456789abcdef0ull};

static void each_level_times_one_window_of_each_run(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        for (unsigned level = 0; level <= MUSTER_SAMPLING_SPARSEST; level++)
            for (uint64_t run = 0; run < 40; run++) {
                unsigned timed = 0;
                for (uint64_t b = run << level; b < (run + 1) << level; b++)
                    timed += muster_sampling_takes(ids[i], b, level);
                assert_int_equal(timed, 1);
            }
}

static void a_levels_windows_are_among_those_of_the_level_above(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        for (uint64_t b = 0; b < 5000; b++)
            for (unsigned level = 1; level <= MUSTER_SAMPLING_SPARSEST; level++)
                if (muster_sampling_takes(ids[i], b, level))
                    assert_true(muster_sampling_takes(ids[i], b, level - 1));
}

/* A step of any number of windows meets timed ones at all of its places. */
static void no_period_of_a_step_is_blind(void **state)
{
    (void)state;
    for (unsigned period = 2; period <= 16; period++)
        for (unsigned place = 0; place < period; place++) {
            unsigned timed = 0;
            for (uint64_t b = place; b < 4000; b += period)
                timed += muster_sampling_takes(0xfeed, b, 3);
            assert_in_range(timed, 4000 / period / 16, 4000 / period / 4);
        }
}

/* Windows of 64 launches at this price, `gap_ns` from one launch to the next; the level after each
 * second. */
static unsigned run_for(struct muster_sampling *level, struct muster_meter *meter, uint64_t *now,
                        uint64_t seconds, uint64_t gap_ns, uint64_t price_ns)
{
    uint64_t until = *now + seconds * MUSTER_NS_PER_S;
    while (*now < until) {
        level->price_ns += MUSTER_SAMPLING_WINDOW * price_ns;
        *now += MUSTER_SAMPLING_WINDOW * gap_ns;
        muster_sampling_next(level, meter, *now);
    }
    return level->level;
}

static void a_training_job_is_timed_whole(void **state)
{
    struct muster_sampling level = {0};
    struct muster_meter meter = {0};
    uint64_t now = MUSTER_NS_PER_S;
    (void)state;
    /* 290 operations a second: 0.2 % */
    assert_int_equal(run_for(&level, &meter, &now, 60, MUSTER_NS_PER_S / 290, 7000), 0);
}

static void a_burst_of_a_step_is_no_loop(void **state)
{
    struct muster_sampling level = {0};
    struct muster_meter meter = {0};
    uint64_t now = MUSTER_NS_PER_S;
    (void)state;
    for (unsigned step = 0; step < 50; step++) {
        for (unsigned window = 0; window < 4; window++) {
            level.price_ns += MUSTER_SAMPLING_WINDOW * 7000ull;
            now += MUSTER_SAMPLING_WINDOW * 10000ull;
            assert_int_equal(muster_sampling_next(&level, &meter, now), 0);
        }
        now += MUSTER_NS_PER_S;
    }
}

static void a_loop_of_small_operations_is_thinned_at_once(void **state)
{
    struct muster_sampling level = {0};
    struct muster_meter meter = {0};
    uint64_t now = MUSTER_NS_PER_S;
    unsigned launches = 0;
    (void)state;
    while (level.level == 0 && launches < 100000) {
        level.price_ns += MUSTER_SAMPLING_WINDOW * 3000ull;
        now += MUSTER_SAMPLING_WINDOW * 10000ull;
        launches += MUSTER_SAMPLING_WINDOW;
        muster_sampling_next(&level, &meter, now);
    }
    /* 30 % of the time: one window in 64 keeps it under 0.5 % */
    assert_int_equal(level.level, 6);
    assert_in_range(launches, 1000, 15000);
}

static void denser_comes_a_step_in_ten_seconds(void **state)
{
    struct muster_sampling level = {0};
    struct muster_meter meter = {0};
    uint64_t now = MUSTER_NS_PER_S;
    (void)state;
    assert_int_equal(run_for(&level, &meter, &now, 5, 10000, 3000), 6);
    assert_int_equal(run_for(&level, &meter, &now, 9, MUSTER_NS_PER_S / 200, 3000), 6);
    assert_int_equal(run_for(&level, &meter, &now, 5, MUSTER_NS_PER_S / 200, 3000), 5);
    assert_int_equal(run_for(&level, &meter, &now, 10, MUSTER_NS_PER_S / 200, 3000), 4);
    assert_int_equal(run_for(&level, &meter, &now, 60, MUSTER_NS_PER_S / 200, 3000), 0);
}

/* Two communicators, each of which alone would be timed whole. */
static void all_communicators_of_the_process_pay(void **state)
{
    struct muster_sampling a = {0}, b = {0};
    struct muster_meter meter = {0};
    uint64_t now = MUSTER_NS_PER_S;
    (void)state;
    for (unsigned i = 0; i < 400; i++) {
        a.price_ns += MUSTER_SAMPLING_WINDOW * 7000ull;
        b.price_ns += MUSTER_SAMPLING_WINDOW * 7000ull;
        now += MUSTER_SAMPLING_WINDOW * MUSTER_NS_PER_S / 600;
        muster_sampling_next(&a, &meter, now);
        muster_sampling_next(&b, &meter, now);
    }
    assert_int_equal(a.level, 1);
    assert_int_equal(b.level, 1);
}

static void a_clock_that_stands_still_changes_nothing(void **state)
{
    struct muster_sampling level = {0};
    struct muster_meter meter = {0};
    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        level.price_ns += MUSTER_SAMPLING_WINDOW * 7000ull;
        assert_int_equal(muster_sampling_next(&level, &meter, 0), 0);
    }
}

static void larger_operations_cost_no_less_to_time(void **state)
{
    uint64_t last = 0;
    (void)state;
    for (unsigned log = 0; log < 64; log++) {
        uint64_t price = muster_price_ns(1ull << log, 16);
        assert_true(price >= last && price < 20000);
        assert_true(muster_price_ns(1ull << log, 1) > price);
        last = price;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_level_times_one_window_of_each_run),
        cmocka_unit_test(a_levels_windows_are_among_those_of_the_level_above),
        cmocka_unit_test(no_period_of_a_step_is_blind),
        cmocka_unit_test(a_training_job_is_timed_whole),
        cmocka_unit_test(a_burst_of_a_step_is_no_loop),
        cmocka_unit_test(a_loop_of_small_operations_is_thinned_at_once),
        cmocka_unit_test(denser_comes_a_step_in_ten_seconds),
        cmocka_unit_test(all_communicators_of_the_process_pay),
        cmocka_unit_test(a_clock_that_stands_still_changes_nothing),
        cmocka_unit_test(larger_operations_cost_no_less_to_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
