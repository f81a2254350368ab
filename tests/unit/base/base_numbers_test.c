#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "base/nccl_types.h"
#include "base/sort.h"

static void buckets_hold_what_lies_between_their_bounds(void **state)
{
    (void)state;
    for (unsigned b = 0; b < MUSTER_HIST_BUCKETS; b++) {
        uint64_t lower = muster_hist_lower(b), end = muster_hist_lower(b + 1);
        assert_true(lower < end);
        assert_true((double)(end - lower) <= (double)lower / 8);
        assert_int_equal(muster_hist_bucket(lower), b);
        assert_int_equal(muster_hist_bucket(end - 1), b);
    }
    assert_int_equal(muster_hist_lower(0), 64);
    assert_int_equal(muster_hist_lower(MUSTER_HIST_BUCKETS), 64ull << 28);
    assert_int_equal(muster_hist_bucket(0), 0);
    assert_int_equal(muster_hist_bucket(63), 0);
    assert_int_equal(muster_hist_bucket(64ull << 28), MUSTER_HIST_BUCKETS - 1);
    assert_int_equal(muster_hist_bucket(UINT64_MAX), MUSTER_HIST_BUCKETS - 1);
}

static void quantiles_are_within_an_eighth(void **state)
{
    (void)state;
    struct muster_hist hist = {{0}};
    assert_true(muster_hist_quantile_ns(&hist, 0.5) <= 0.0);
    for (unsigned ns = 1000; ns < 101000; ns += 10)
        hist.n[muster_hist_bucket(ns)]++;
    assert_int_equal(muster_hist_total(&hist), 10000);
    for (double q = 0; q <= 1; q += 0.125) {
        double exact = 1000 + q * 99990;
        double got = muster_hist_quantile_ns(&hist, q);
        assert_true(got >= exact * 0.875 && got <= exact * 1.125);
    }
    assert_true(muster_hist_quantile_ns(&hist, -1) < 1130);
    assert_true(muster_hist_quantile_ns(&hist, 9) > 88000);
}

static void merged_counts_do_not_wrap(void **state)
{
    (void)state;
    struct muster_hist a = {{0}}, b = {{0}};
    a.n[3] = UINT32_MAX - 1;
    a.n[4] = 1;
    b.n[3] = 5;
    b.n[4] = 6;
    muster_hist_merge(&a, &b);
    assert_int_equal(a.n[3], UINT32_MAX);
    assert_int_equal(a.n[4], 7);
}

static void every_number_has_a_word(void **state)
{
    (void)state;
    for (unsigned i = 1; i < MUSTER_FUNCS; i++)
        assert_string_not_equal(muster_func_name(i), "unknown");
    for (unsigned i = 1; i < MUSTER_DTYPES; i++) {
        assert_string_not_equal(muster_dtype_name(i), "unknown");
        assert_in_range(muster_dtype_bytes(i), 1, 8);
    }
    for (unsigned i = 1; i < MUSTER_ALGOS; i++)
        assert_string_not_equal(muster_algo_name(i), "unknown");
    for (unsigned i = 1; i < MUSTER_PROTOS; i++)
        assert_string_not_equal(muster_proto_name(i), "unknown");
    assert_string_equal(muster_func_name(MUSTER_FUNC_ALL_TO_ALL), "AllToAll");
    assert_string_equal(muster_dtype_name(MUSTER_DTYPE_FLOAT8E4M3), "float8e4m3");
    assert_string_equal(muster_algo_name(MUSTER_ALGO_NVLS_TREE), "nvls_tree");
    assert_string_equal(muster_proto_name(MUSTER_PROTO_LL128), "ll128");
    assert_string_equal(muster_source_name(MUSTER_SOURCE_GPU), "gpu");
}

static void numbers_out_of_range_are_unknown(void **state)
{
    (void)state;
    assert_string_equal(muster_func_name(MUSTER_FUNCS), "unknown");
    assert_string_equal(muster_dtype_name(99), "unknown");
    assert_string_equal(muster_algo_name(UINT32_MAX), "unknown");
    assert_string_equal(muster_proto_name(MUSTER_PROTOS), "unknown");
    assert_string_equal(muster_source_name(77), "none");
    assert_int_equal(muster_dtype_bytes(1000), 0);
}

static void sizes_as_nccl_tests_count_them(void **state)
{
    (void)state;
    unsigned f32 = MUSTER_DTYPE_FLOAT32, bf16 = MUSTER_DTYPE_BFLOAT16;
    assert_int_equal(muster_op_size_bytes(MUSTER_FUNC_ALL_REDUCE, f32, 10, 4), 40);
    assert_int_equal(muster_op_size_bytes(MUSTER_FUNC_BROADCAST, bf16, 10, 4), 20);
    assert_int_equal(muster_op_size_bytes(MUSTER_FUNC_ALL_GATHER, bf16, 10, 4), 80);
    assert_int_equal(muster_op_size_bytes(MUSTER_FUNC_REDUCE_SCATTER, f32, 10, 4), 160);
    assert_int_equal(muster_op_size_bytes(MUSTER_FUNC_ALL_GATHER, bf16, 10, 0), 20);
    assert_int_equal(muster_op_size_bytes(MUSTER_FUNC_SEND, MUSTER_DTYPE_INT8, 7, 4), 7);
    assert_int_equal(muster_op_size_bytes(MUSTER_FUNC_SEND, MUSTER_DTYPE_UNKNOWN, 7, 4), 0);
    assert_int_equal(muster_op_size_bytes(MUSTER_FUNC_ALL_REDUCE, f32, UINT64_MAX, 4), UINT64_MAX);
    assert_int_equal(muster_op_size_bytes(MUSTER_FUNC_ALL_GATHER, f32, 1ull << 61, 4096),
                     UINT64_MAX);
}

static void bus_bandwidth_as_nccl_tests_define_it(void **state)
{
    (void)state;
    assert_float_equal(muster_busbw_factor(MUSTER_FUNC_ALL_REDUCE, 4), 1.5, 1e-12);
    assert_float_equal(muster_busbw_factor(MUSTER_FUNC_ALL_GATHER, 4), 0.75, 1e-12);
    assert_float_equal(muster_busbw_factor(MUSTER_FUNC_REDUCE_SCATTER, 8), 0.875, 1e-12);
    assert_float_equal(muster_busbw_factor(MUSTER_FUNC_ALL_TO_ALL, 2), 0.5, 1e-12);
    assert_float_equal(muster_busbw_factor(MUSTER_FUNC_BROADCAST, 4), 1, 1e-12);
    assert_float_equal(muster_busbw_factor(MUSTER_FUNC_SEND, 4), 1, 1e-12);
    assert_float_equal(muster_busbw_factor(MUSTER_FUNC_ALL_REDUCE, 0), 1, 1e-12);
}

static void medians_are_the_upper_ones(void **state)
{
    (void)state;
    uint64_t value[] = {UINT64_MAX, 3, 0, 1ull << 40};
    assert_int_equal(muster_upper_median_u64(value, 4), 1ull << 40);
    assert_int_equal(value[0], 0);
    assert_int_equal(value[3], UINT64_MAX);
    assert_int_equal(muster_upper_median_u64(value, 3), 3);
    assert_int_equal(muster_upper_median_u64(value, 1), 0);
    assert_int_equal(muster_upper_median_u64(NULL, 0), 0);
}

static void signed_numbers_stand_in_their_order(void **state)
{
    (void)state;
    int64_t value[] = {7, INT64_MIN, -1, INT64_MAX, 0};
    const int64_t expected[] = {INT64_MIN, -1, 0, 7, INT64_MAX};
    muster_sort_i64(value, 5);
    assert_memory_equal(value, expected, sizeof(expected));
    muster_sort_i64(NULL, 0);
}

enum { MANY = 3000, SHAPES = 7 };

static double shaped(unsigned shape, unsigned i, unsigned n)
{
    switch (shape) {
    case 0:
        return (double)i; /* in order */
    case 1:
        return -(double)i; /* the other way round */
    case 2:
        return (double)(i % 7); /* a saw */
    case 3:
        return (double)(i < n / 2 ? i : n - i); /* a roof */
    case 4:
        return i % 2 ? INFINITY : -INFINITY;
    case 5:
        return 5; /* one value */
    default:
        return (double)(i * 2654435761u % 1000003) - 5e5; /* as drawn */
    }
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void numbers_of_any_order_are_sorted(void **state)
{
    (void)state;
    static double value[MANY], expected[MANY];
    for (unsigned shape = 0; shape < SHAPES; shape++) {
        for (unsigned n = 1; n <= MANY; n = n < 60 ? n + 1 : 7 * n) {
            for (unsigned i = 0; i < n; i++)
                value[i] = expected[i] = shaped(shape, i, n);
            qsort(expected, n, sizeof *expected, by_value);
            muster_sort_double(value, n);
            assert_memory_equal(value, expected, n * sizeof *value);
        }
    }
}

/* The median of first, middle and last is always the second smallest: such numbers are left to a
 * heap. */
static void numbers_that_are_against_it_are_sorted_all_the_same(void **state)
{
    (void)state;
    static uint64_t value[MANY];
    static unsigned at[MANY]; /* where what lies there by now was at first */
    uint64_t next = 0;
    for (unsigned i = 0; i < MANY; i++)
        at[i] = i;
    for (unsigned from = 0; from + 2 < MANY; from += 2) {
        unsigned middle = from + (MANY - from) / 2;
        value[at[from]] = next++;
        value[at[middle]] = next++;
        at[middle] = at[from + 1]; /* the smallest two are now in front */
    }
    value[at[MANY - 2]] = next++;
    value[at[MANY - 1]] = next++;
    muster_sort_u64(value, MANY);
    for (unsigned i = 1; i < MANY; i++)
        assert_true(value[i - 1] <= value[i]);
}

static void versions_are_those_of_their_time(void **state)
{
    static const struct {
        uint32_t written, code;
        const char *text;
    } rows[] = {{1304, 10304, "1.3.4"},  {2408, 20408, "2.4.8"},   {2804, 20804, "2.8.4"},
                {20902, 20902, "2.9.2"}, {22809, 22809, "2.28.9"}, {20408, 20408, "2.4.8"},
                {30000, 30000, "3.0.0"}};
    char text[24];
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(muster_nccl_version_code(rows[i].written), rows[i].code);
        muster_nccl_version_text(text, sizeof text, rows[i].written);
        assert_string_equal(text, rows[i].text);
    }
    assert_int_equal(muster_nccl_version_code(0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_those_of_their_time),
        cmocka_unit_test(numbers_of_any_order_are_sorted),
        cmocka_unit_test(numbers_that_are_against_it_are_sorted_all_the_same),
        cmocka_unit_test(buckets_hold_what_lies_between_their_bounds),
        cmocka_unit_test(quantiles_are_within_an_eighth),
        cmocka_unit_test(merged_counts_do_not_wrap),
        cmocka_unit_test(every_number_has_a_word),
        cmocka_unit_test(numbers_out_of_range_are_unknown),
        cmocka_unit_test(sizes_as_nccl_tests_count_them),
        cmocka_unit_test(bus_bandwidth_as_nccl_tests_define_it),
        cmocka_unit_test(medians_are_the_upper_ones),
        cmocka_unit_test(signed_numbers_stand_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
