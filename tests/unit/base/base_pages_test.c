#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/pages.h"

enum { PAGES = 9, BEFORE = 100, BEHIND = 333 };

static char *filled(size_t *bytes)
{
    *bytes = (size_t)sysconf(_SC_PAGESIZE) * PAGES;
    char *memory = malloc(*bytes);
    assert_non_null(memory);
    memset(memory, 'x', *bytes);
    return memory;
}

static void a_stretch_is_cleared_and_nothing_beside_it(void **state)
{
    size_t bytes;
    char *memory = filled(&bytes);
    (void)state;
    muster_pages_clear(memory + BEFORE, bytes - BEFORE - BEHIND);
    muster_pages_clear(memory, 0);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(memory[i], i < BEFORE || i >= bytes - BEHIND ? 'x' : 0);
    free(memory);
}

/* A single byte of a page keeps all of it. */
static void what_holds_something_stays(void **state)
{
    size_t bytes, page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = filled(&bytes);
    (void)state;
    muster_pages_clear(memory, bytes);
    for (size_t p = 0; p < PAGES; p += 2)
        memory[p * page + p * 77] = 'y';
    muster_pages_trim(memory, bytes);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(memory[i], i / page % 2 == 0 && i % page == i / page * 77 ? 'y' : 0);
    free(memory);
}

/* What is small stays so; what is large ends with a page of 2 MiB, less what malloc needs. */
static void large_memory_is_of_whole_pages(void **state)
{
    const size_t mib = 1 << 20;
    (void)state;
    assert_int_equal(muster_pages_whole(0), 0);
    assert_int_equal(muster_pages_whole(4 * mib - 1), 4 * mib - 1);
    assert_int_equal(muster_pages_whole(SIZE_MAX - 1), SIZE_MAX - 1);
    if (sysconf(_SC_PAGESIZE) != 4096)
        return;
    for (size_t bytes = 4 * mib; bytes < 9 * mib; bytes += 4099) {
        size_t whole = muster_pages_whole(bytes);
        assert_in_range(whole, bytes, bytes + 2 * mib);
        assert_int_equal(muster_pages_whole(whole), whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stretch_is_cleared_and_nothing_beside_it),
        cmocka_unit_test(what_holds_something_stays),
        cmocka_unit_test(large_memory_is_of_whole_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
