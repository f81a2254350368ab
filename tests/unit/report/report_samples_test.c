#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "report/samples.h"

static void quantiles_are_nearest_ranks(void **state)
{
    uint64_t value[100];
    (void)state;
    for (uint64_t i = 0; i < 100; i++)
        value[i] = (i * 37 % 100 + 1) * 1000003; /* 1 to 100 of these, shuffled */
    assert_int_equal(muster_quantile_exact(value, 100, 0.50), 50 * 1000003ull);
    assert_int_equal(muster_quantile_exact(value, 100, 0.99), 99 * 1000003ull);
    assert_int_equal(muster_quantile_exact(value, 100, 1.00), 100 * 1000003ull);
    assert_int_equal(muster_quantile_exact(value, 1, 0.50), value[0]);
}

static void quantiles_hold_for_extreme_values(void **state)
{
    const uint64_t value[] = {UINT64_MAX, 0, UINT64_MAX, 0, 7};
    (void)state;
    assert_int_equal(muster_quantile_exact(value, 5, 0.2), 0);
    assert_int_equal(muster_quantile_exact(value, 5, 0.5), 7);
    assert_true(muster_quantile_exact(value, 5, 0.99) == UINT64_MAX);
}

static void samples_come_back_by_owner(void **state)
{
    struct muster_arena memory = {0};
    struct muster_samples samples = {0};
    (void)state;
    for (uint32_t i = 0; i < 3000; i++)
        muster_samples_add(&samples, i % 3, i, &memory);
    muster_samples_add(&samples, 77, 1, &memory); /* nobody's */
    struct muster_sample_groups groups = muster_samples_group(&samples, 4, &memory);
    assert_int_equal(muster_arena_check(&memory, NULL, "samples"), 0);
    for (size_t owner = 0; owner < 3; owner++) {
        assert_int_equal(groups.first[owner + 1] - groups.first[owner], 1000);
        for (size_t i = groups.first[owner]; i < groups.first[owner + 1]; i++)
            assert_int_equal(groups.value[i] % 3, owner);
    }
    assert_int_equal(groups.first[4], groups.first[3]);
    muster_arena_free(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_nearest_ranks),
        cmocka_unit_test(quantiles_hold_for_extreme_values),
        cmocka_unit_test(samples_come_back_by_owner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
