#include "fixture.h"

#include "segment/table.h"

static void what_was_added_is_found(void **state)
{
    (void)state;
    struct muster_uid_index index = {.used = 0};
    assert_true(muster_uid_find(&index, 7) == SIZE_MAX);
    for (uint32_t uid = 1; uid <= 1000; uid++)
        assert_true(muster_uid_add(&index, uid, 2 * uid));
    for (uint32_t uid = 1; uid <= 1000; uid++)
        assert_int_equal(muster_uid_find(&index, uid), 2 * uid);
    assert_true(muster_uid_find(&index, 1001) == SIZE_MAX);
    assert_true(muster_uid_add(&index, 5, 77)); /* the newer place counts */
    assert_int_equal(muster_uid_find(&index, 5), 77);
    muster_uid_free(&index);
}

/* A file may hold any numbers: those that differ in their high bits alone must not meet in one
 * place, or reading them takes hours. */
static void numbers_chosen_to_collide_do_not(void **state)
{
    enum { NUMBERS = 1 << 17, SHIFT = 15 };
    (void)state;
    struct muster_uid_index index = {.used = 0};
    for (uint32_t i = 0; i < NUMBERS; i++)
        assert_true(muster_uid_add(&index, i << SHIFT, i));
    for (uint32_t i = 0; i < NUMBERS; i++)
        assert_int_equal(muster_uid_find(&index, i << SHIFT), i);
    muster_uid_free(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_found),
        cmocka_unit_test(numbers_chosen_to_collide_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
