#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hashmap.h"
#include "failing_memory.h"

struct key {
    uint64_t comm;
    uint32_t rank;
} __attribute__((packed)); /* 12 bytes: no whole number of words */

static struct key key_of(uint32_t i)
{
    return (struct key){.comm = i / 7, .rank = i % 7};
}

static void what_was_put_is_found(void **state)
{
    (void)state;
    struct muster_hashmap map = {.key_bytes = sizeof(struct key)};
    struct key key = key_of(0);
    assert_true(muster_hashmap_find(&map, &key) == SIZE_MAX);
    for (uint32_t i = 0; i < 1000; i++) {
        key = key_of(i);
        assert_true(muster_hashmap_put(&map, &key, 2 * i));
    }
    for (uint32_t i = 0; i < 1000; i++) {
        key = key_of(i);
        assert_int_equal(muster_hashmap_find(&map, &key), 2 * i);
    }
    assert_true(muster_hashmap_put(&map, &key, 77)); /* the newer value counts */
    assert_int_equal(muster_hashmap_find(&map, &key), 77);
    assert_int_equal(map.used, 1000);
    key = key_of(1001);
    assert_true(muster_hashmap_find(&map, &key) == SIZE_MAX);
    muster_hashmap_free(&map);
    assert_true(muster_hashmap_find(&map, &key) == SIZE_MAX);
    assert_int_equal(failing_memory_live(), 0);
}

/* A file may hold any numbers: those that differ in their high bits alone must not meet in one
 * place, or reading them takes hours. */
static void keys_chosen_to_collide_do_not(void **state)
{
    enum { NUMBERS = 1 << 17, SHIFT = 15 };
    (void)state;
    struct muster_hashmap map = {.key_bytes = sizeof(uint32_t)};
    for (uint32_t i = 0; i < NUMBERS; i++)
        assert_true(muster_hashmap_put(&map, &(uint32_t){i << SHIFT}, i));
    for (uint32_t i = 0; i < NUMBERS; i++)
        assert_int_equal(muster_hashmap_find(&map, &(uint32_t){i << SHIFT}), i);
    muster_hashmap_free(&map);
}

static void without_memory_the_map_stays(void **state)
{
    (void)state;
    struct muster_hashmap map = {.key_bytes = sizeof(uint32_t)};
    for (long left = 0; left < 8; left++) {
        failing_memory_begin(left);
        uint32_t n = 0;
        while (muster_hashmap_put(&map, &n, n))
            n++;
        assert_true(failing_memory_end());
        assert_int_equal(map.used, n);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(muster_hashmap_find(&map, &i), i);
        muster_hashmap_free(&map);
        assert_int_equal(failing_memory_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_is_found),
        cmocka_unit_test(keys_chosen_to_collide_do_not),
        cmocka_unit_test(without_memory_the_map_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
