#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "replay/replay_ids.h"

static void what_was_put_is_got(void **state)
{
    (void)state;
    struct muster_ids ids = {{0}};
    assert_int_equal(muster_ids_get(&ids, 3), MUSTER_IDS_NONE);
    for (uint64_t id = 1; id <= 1000; id++)
        assert_true(muster_ids_put(&ids, id, (uint32_t)(3 * id)));
    for (uint64_t id = 1; id <= 1000; id++)
        assert_int_equal(muster_ids_get(&ids, id), 3 * id);
    assert_int_equal(muster_ids_get(&ids, 1001), MUSTER_IDS_NONE);
    assert_int_equal(muster_ids_get(&ids, 0), MUSTER_IDS_NONE);
    assert_true(muster_ids_put(&ids, 9, 1));
    assert_int_equal(muster_ids_get(&ids, 9), 1);
    assert_int_equal(ids.map.used, 1000);
    muster_ids_free(&ids);
}

/* A trace may give any numbers: multiples of the inverse of what spreads numbers elsewhere must not
 * meet in one place, or reading them takes hours. */
static void numbers_chosen_to_collide_do_not(void **state)
{
    const uint64_t step = 0xf1de83e19937733dull; /* times 0x9e3779b97f4a7c15: 1 */
    enum { NUMBERS = 1 << 17 };
    (void)state;
    struct muster_ids ids = {{0}};
    assert_true(step * 0x9e3779b97f4a7c15ull == 1);
    for (uint32_t i = 1; i <= NUMBERS; i++)
        assert_true(muster_ids_put(&ids, i * step, i));
    for (uint32_t i = 1; i <= NUMBERS; i++)
        assert_int_equal(muster_ids_get(&ids, i * step), i);
    muster_ids_free(&ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_got),
        cmocka_unit_test(numbers_chosen_to_collide_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
