#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "failing_memory.h"

enum { NUMBERS = 100000 };

struct number {
    uint64_t value, zero;
};

static void elements_keep_their_values_while_others_are_added(void **state)
{
    (void)state;
    struct muster_arena arena = {0};
    struct number *odd = NULL, *even = NULL;
    size_t odds = 0, evens = 0;
    for (uint64_t i = 0; i < NUMBERS; i++) {
        struct number *new = i % 2 ? muster_arena_add(&arena, &odd, &odds, sizeof *odd)
                                   : muster_arena_add(&arena, &even, &evens, sizeof *even);
        assert_int_equal(new->value + new->zero, 0);
        new->value = i;
    }
    assert_int_equal(odds + evens, NUMBERS);
    for (uint64_t i = 0; i < NUMBERS / 2; i++) {
        assert_int_equal(even[i].value, 2 * i);
        assert_int_equal(odd[i].value, 2 * i + 1);
    }
    assert_int_equal(muster_arena_check(&arena, NULL, "numbers"), 0);
    muster_arena_free(&arena);
    assert_int_equal(failing_memory_live(), 0);
}

static void texts_and_arrays_are_aligned_and_separate(void **state)
{
    (void)state;
    struct muster_arena arena = {0};
    const char *text = muster_arena_text(&arena, "a");
    uint64_t *small = muster_arena_array(&arena, 3, sizeof *small);
    uint64_t *large = muster_arena_array(&arena, NUMBERS, sizeof *large);
    const char *format = muster_arena_format(&arena, "%d of %s", 3, "four");
    assert_int_equal((uintptr_t)small % _Alignof(max_align_t), 0);
    assert_int_equal((uintptr_t)large % _Alignof(max_align_t), 0);
    memset(small, 1, 3 * sizeof *small);
    memset(large, 2, NUMBERS * sizeof *large);
    assert_string_equal(text, "a");
    assert_string_equal(format, "3 of four");
    assert_null(muster_arena_array(&arena, SIZE_MAX / 4, 8)); /* more bytes than can be counted */
    assert_true(arena.failed);
    muster_arena_free(&arena);
}

/* Each allocation in turn fails: what was made is unharmed, nothing leaks, the end says so. */
static void failure_sticks(void **state)
{
    (void)state;
    bool failed = true;
    for (long left = 0; failed; left++) {
        struct muster_arena arena = {0};
        struct muster_err err;
        uint64_t *number = NULL;
        size_t n = 0;
        failing_memory_begin(left);
        const char *text = muster_arena_format(&arena, "%d", 7);
        for (uint64_t i = 0; i < NUMBERS; i++)
            *(uint64_t *)muster_arena_add(&arena, &number, &n, sizeof *number) = i;
        failed = failing_memory_end();
        assert_string_equal(text, left ? "7" : "");
        assert_true(failed ? n < NUMBERS : n == NUMBERS);
        for (size_t i = 0; i + 1 < n; i++)
            assert_true(number[i] < number[i + 1]);
        assert_int_equal(muster_arena_check(&arena, &err, "numbers"), failed ? -1 : 0);
        muster_arena_free(&arena);
        assert_int_equal(failing_memory_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_keep_their_values_while_others_are_added),
        cmocka_unit_test(texts_and_arrays_are_aligned_and_separate),
        cmocka_unit_test(failure_sticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
