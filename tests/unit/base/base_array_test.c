#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/array.h"
#include "failing_memory.h"

enum { NUMBERS = 1000 };

static void one_by_one_all_stay(void **state)
{
    uint64_t *number = NULL;
    (void)state;
    for (size_t i = 0; i < NUMBERS; i++) {
        assert_true(muster_grow(&number, i, sizeof *number));
        number[i] = i;
    }
    for (size_t i = 0; i < NUMBERS; i++)
        assert_int_equal(number[i], i);
    free(number);
}

static void room_at_least_doubles_and_holds_what_is_needed(void **state)
{
    uint64_t *number = NULL;
    size_t room = 0, reserved = 0;
    (void)state;
    for (size_t needed = 1; needed <= NUMBERS; needed++) {
        size_t before = room;
        assert_true(muster_reserve(&number, &room, needed, sizeof *number));
        assert_true(room >= needed && (room == before || room >= 2 * before));
        reserved += room != before;
        number[needed - 1] = needed;
    }
    assert_in_range(reserved, 1, 16);
    assert_true(muster_reserve(&number, &room, 5 * NUMBERS, sizeof *number));
    assert_true(room >= 5 * NUMBERS);
    for (size_t i = 0; i < NUMBERS; i++)
        assert_int_equal(number[i], i + 1);
    free(number);
}

static void without_memory_the_array_stays(void **state)
{
    uint64_t *number = NULL;
    size_t room = 0;
    (void)state;
    assert_true(muster_reserve(&number, &room, 2, sizeof *number));
    number[1] = 7;
    failing_memory_begin(0);
    assert_false(muster_reserve(&number, &room, 3, sizeof *number));
    assert_false(muster_grow(&number, 2, sizeof *number));
    assert_true(failing_memory_end());
    assert_int_equal(room, 2);
    assert_int_equal(number[1], 7);
    free(number);
    assert_int_equal(failing_memory_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_by_one_all_stay),
        cmocka_unit_test(room_at_least_doubles_and_holds_what_is_needed),
        cmocka_unit_test(without_memory_the_array_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
