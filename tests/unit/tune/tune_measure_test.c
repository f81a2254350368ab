/* What a run shows of a class: by the beat, by the quickest rank's clock, and whether at all. */
#include "tune/tune_measure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "made_ranks.h"

enum { FLOATS_64K = 1 << 14, FLOATS_1M = 1 << 18 };

static struct ranks ranks;
static struct muster_tune_sample sample;

static int begin(void **state)
{
    (void)state;
    ranks_begin(&ranks, 4);
    ranks_comm(&ranks, 0, 0, 1, 4, 4);
    return 0;
}

static int end(void **state)
{
    (void)state;
    muster_tune_sample_free(&sample);
    ranks_end(&ranks);
    return 0;
}

/* Ranks work for `work_ns` between operations of `transfer_ns`. */
static void all_reduces(unsigned n, uint64_t floats, uint64_t transfer_ns, uint64_t work_ns)
{
    for (unsigned i = 0; i < n; i++) {
        ranks_do(&ranks, 0, floats, transfer_ns, true, 0);
        for (unsigned r = 0; r < ranks.n; r++)
            ranks_work(&ranks, r, work_ns);
    }
}

static int measure(struct muster_err *err)
{
    return muster_tune_measure_view(ranks_view(&ranks), &sample, err);
}

static void near(double found, double expected)
{
    if (!(fabs(found - expected) < 0.01))
        fail_msg("%g is not %g", found, expected);
}

static void the_beat_holds_what_passes_between_operations(void **state)
{
    (void)state;
    struct muster_err err;
    all_reduces(20, FLOATS_64K, 50 * US, 30 * US);
    assert_int_equal(measure(&err), 0);
    assert_int_equal(sample.points, 1);
    near(sample.point[0].us, 50);
    near(sample.point[0].beat_us, 80);
}

/* As in a tree: each operation ends at once for the ranks that need nothing more, and the next one
 * begins there while the last rank of this one still works. Clocks show 50 us, the job takes 90. */
static void ranks_that_end_apart_make_the_beat_no_shorter(void **state)
{
    (void)state;
    struct muster_err err;
    for (int i = 0; i < 20; i++) {
        ranks_do(&ranks, 0, FLOATS_64K, 50 * US, true, 0);
        ranks_work(&ranks, 3, 40 * US);
    }
    assert_int_equal(measure(&err), 0);
    near(sample.point[0].us, 50);
    near(sample.point[0].beat_us, 90);
}

static void a_class_with_few_operations_is_left_out_and_counted(void **state)
{
    (void)state;
    struct muster_err err;
    all_reduces(20, FLOATS_64K, 50 * US, 0);
    all_reduces(MUSTER_MEASURE_OPS - 1, FLOATS_1M, 90 * US, 0);
    assert_int_equal(measure(&err), 0);
    assert_int_equal(sample.points, 1);
    assert_int_equal(sample.point[0].class.size_log2, 16);
    assert_int_equal(sample.rare, 1);
}

static void few_beats_are_none(void **state)
{
    (void)state;
    struct muster_err err;
    for (int i = 0; i < 20; i++) { /* each followed by one that nobody timed, but for 9 */
        all_reduces(1, FLOATS_1M, 90 * US, 0);
        ranks_do(&ranks, 0, FLOATS_64K, 50 * US, i < MUSTER_MEASURE_OPS - 1, 0);
    }
    assert_int_equal(measure(&err), 0);
    assert_int_equal(sample.points, 1);
    assert_int_equal(sample.point[0].ops, 20);
    near(sample.point[0].us, 90);
    assert_true(sample.point[0].beat_us == 0);
}

static void nothing_often_enough_is_an_error(void **state)
{
    (void)state;
    struct muster_err err = {""};
    all_reduces(MUSTER_MEASURE_OPS - 1, FLOATS_1M, 90 * US, 0);
    assert_int_equal(measure(&err), -1);
    assert_non_null(strstr(err.text, "at least 10"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_beat_holds_what_passes_between_operations),
        TEST(ranks_that_end_apart_make_the_beat_no_shorter),
        TEST(a_class_with_few_operations_is_left_out_and_counted),
        TEST(few_beats_are_none),
        TEST(nothing_often_enough_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
