/* The arithmetic of `muster tune`. */
#include "tune/tune_stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void near(double found, double expected, double slack)
{
    if (!(fabs(found - expected) <= slack))
        fail_msg("%g is not %g", found, expected);
}

static void intervals_are_those_of_student(void **state)
{
    (void)state;
    /* Mean 0.1, standard deviation 0.1; t(2) = 4.3027, t(9) = 2.2622. */
    double three[] = {0.0, 0.1, 0.2};
    double ten[] = {0, 0.1, 0.2, 0, 0.1, 0.2, 0, 0.1, 0.2, 0.1};
    struct muster_tune_interval interval;
    muster_tune_interval(three, 3, &interval);
    near(interval.ratio, exp(0.1), 1e-12);
    near(interval.low, exp(0.1 - 4.302653 * 0.1 / sqrt(3)), 1e-5);
    near(interval.high, exp(0.1 + 4.302653 * 0.1 / sqrt(3)), 1e-5);
    assert_int_equal(interval.n, 3);
    muster_tune_interval(ten, 10, &interval);
    near(log(interval.high) - 0.1, 2.262157 * sqrt(0.06 / 9 / 10), 1e-5);
}

static void too_few_pairs_prove_nothing(void **state)
{
    (void)state;
    double one[] = {-5};
    struct muster_tune_interval interval;
    for (unsigned n = 0; n < 2; n++) {
        muster_tune_interval(one, n, &interval);
        assert_true(interval.low == 0 && isinf(interval.high));
    }
}

/* Of intervals over noise without an effect, 5 % miss the truth. */
static void an_interval_holds_the_truth_as_often_as_it_says(void **state)
{
    enum { CASES = 20000, PAIRS = 4 };
    unsigned held = 0;
    (void)state;
    srand48(7);
    for (unsigned i = 0; i < CASES; i++) {
        double log_ratio[PAIRS];
        struct muster_tune_interval interval;
        for (unsigned k = 0; k < PAIRS; k++) {
            double sum = 0; /* nearly normal */
            for (unsigned j = 0; j < 12; j++)
                sum += drand48() - 0.5;
            log_ratio[k] = 0.05 * sum - 0.02;
        }
        muster_tune_interval(log_ratio, PAIRS, &interval);
        held += interval.low <= exp(-0.02) && exp(-0.02) <= interval.high;
    }
    near((double)held / CASES, 0.95, 0.01);
}

static void medians(void **state)
{
    (void)state;
    double odd[] = {5, 1, 3}, even[] = {4, 1, 3, 2};
    near(muster_tune_median(odd, 3), 3, 0);
    near(muster_tune_median(even, 4), 2.5, 0);
    near(muster_tune_median(NULL, 0), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals_are_those_of_student),
        cmocka_unit_test(too_few_pairs_prove_nothing),
        cmocka_unit_test(an_interval_holds_the_truth_as_often_as_it_says),
        cmocka_unit_test(medians),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
