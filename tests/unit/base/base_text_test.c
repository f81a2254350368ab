#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/err.h"
#include "base/text.h"

static void copies_are_cut_and_cleaned(void **state)
{
    (void)state;
    char to[6] = "?????";
    muster_text_copy(to, sizeof(to),
                     "a\tb\x7f"
                     "cdef");
    assert_string_equal(to, "a?b?c");
    muster_text_copy(to, sizeof(to), NULL);
    assert_string_equal(to, "");
    to[0] = 'k';
    muster_text_copy(to, 0, "x");
    assert_int_equal(to[0], 'k');
}

static void what_plays_with_a_terminal_is_removed(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {
        {"a\x1b[31mb", "a?[31mb"}, /* ESC */
        {"a\xc2\x9b"
         "31mb",
         "a?31mb"}, /* U+009B, the same in one character */
        {"a\x9b"
         "31mb",
         "a?31mb"}, /* and in one byte */
        {"a\xe2\x80\xae"
         "b",
         "a?b"}, /* U+202E: from right to left */
        {"a\xe2\x81\xa7"
         "b\xe2\x80\xa8",
         "a?b?"}, /* U+2067, U+2028 */
        {"gr\xc3\xbc\xc3\x9f\xe2\x82\xac", "gr\xc3\xbc\xc3\x9f\xe2\x82\xac"},
        {"\xff\xc3", "??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char to[32];
        muster_text_copy(to, sizeof to, cases[i].from);
        assert_string_equal(to, cases[i].to);
        strcpy(to, cases[i].from);
        muster_text_clean(to, sizeof to);
        assert_string_equal(to, cases[i].to);
    }
    char path[16] = "/caf\xe9/\x1b";
    muster_text_clean_path(path, sizeof path);
    assert_string_equal(path, "/caf\xe9/?");
}

static void expect_bytes(uint64_t bytes, const char *expected)
{
    char text[32];
    muster_text_bytes(text, sizeof(text), bytes);
    assert_string_equal(text, expected);
}

static void bytes_for_people(void **state)
{
    (void)state;
    expect_bytes(0, "0 B");
    expect_bytes(1023, "1023 B");
    expect_bytes(1024, "1 KiB");
    expect_bytes(1536, "1.5 KiB");
    expect_bytes((1 << 20) - 1, "1 MiB");
    expect_bytes(256ull << 20, "256 MiB");
    expect_bytes(UINT64_MAX, "16 EiB");
}

static void an_end_has_something_before_it(void **state)
{
    (void)state;
    assert_true(muster_text_ends_with("a.seg", ".seg"));
    assert_false(muster_text_ends_with(".seg", ".seg"));
    assert_false(muster_text_ends_with("a.seg.lock", ".seg"));
    assert_false(muster_text_ends_with("eg", ".seg"));
}

static void whole_numbers(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_true(muster_text_u64("18446744073709551615", &value));
    assert_int_equal(value, UINT64_MAX);
    value = 7;
    const char *const bad[] = {"", "18446744073709551616", "-1", "+1", " 1", "1 ", "0x1", "1.0"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(muster_text_u64(bad[i], &value));
    assert_false(muster_text_u64(NULL, &value));
    assert_int_equal(value, 7);
}

static void sizes(void **state)
{
    (void)state;
    uint64_t bytes = 7;
    assert_true(muster_text_size("256MiB", &bytes));
    assert_int_equal(bytes, 256ull << 20);
    assert_true(muster_text_size("4 KiB", &bytes));
    assert_int_equal(bytes, 4096);
    assert_true(muster_text_size("3kB", &bytes));
    assert_int_equal(bytes, 3000);
    assert_true(muster_text_size("512", &bytes));
    assert_int_equal(bytes, 512);
    const char *const bad[] = {"", "MiB", "1 ", "1mib", "1.5GiB", "-1B", "1KiBB", "16777216TiB"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(muster_text_size(bad[i], &bytes));
    assert_int_equal(bytes, 512);
}

static void text_grows_within_its_place(void **state)
{
    (void)state;
    char to[12] = "old";
    struct muster_text text = muster_text_begin(to, sizeof to);
    assert_string_equal(to, "");
    muster_text_add(&text, "rank %d", 1);
    muster_text_add(&text, "%s", "");
    assert_string_equal(to, "rank 1");
    assert_int_equal(text.used, 6);
    text = muster_text_behind(to, sizeof to);
    muster_text_add(&text, ", %d", 2);
    assert_string_equal(to, "rank 1, 2");
    muster_text_add(&text, ", %d", 333);
    assert_string_equal(to, "rank 1, 2, ");
    assert_int_equal(text.used, sizeof to - 1);
    muster_text_add(&text, "%d", 4);
    assert_string_equal(to, "rank 1, 2, ");
}

static void text_without_a_place_is_not_written(void **state)
{
    (void)state;
    char to[2] = "k";
    struct muster_text none = muster_text_begin(to, 0);
    muster_text_add(&none, "x");
    none = muster_text_behind(NULL, 0);
    muster_text_add(&none, "x");
    assert_string_equal(to, "k");
    assert_int_equal(none.used, 0);
    struct muster_text end = muster_text_begin(to, 1);
    muster_text_add(&end, "x");
    assert_string_equal(to, "");
}

static void lists_are_joined_as_people_do(void **state)
{
    (void)state;
    static const char *const word[] = {"a", "b", "c"}, *const expected[] = {"a", "a or b",
                                                                            "a, b or c"};
    for (size_t n = 1; n <= 3; n++) {
        char to[16];
        struct muster_text text = muster_text_begin(to, sizeof to);
        for (size_t i = 0; i < n; i++)
            muster_text_add(&text, "%s%s", muster_text_join(i, n, " or "), word[i]);
        assert_string_equal(to, expected[n - 1]);
    }
}

static void typos_find_the_word_that_was_meant(void **state)
{
    (void)state;
    const char *const known[] = {"capture.dir", "capture.timing", "capture.trace", "off"};
    assert_string_equal(muster_text_nearest("capture.timng", known, 4), "capture.timing");
    assert_string_equal(muster_text_nearest("catpure.trace", known, 4), "capture.trace");
    assert_string_equal(muster_text_nearest("OFF", known, 4), "off");
    assert_null(muster_text_nearest("banana", known, 4));
    assert_null(muster_text_nearest("", known, 4));
    char big[500];
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    assert_null(muster_text_nearest(big, known, 4));
}

static void an_error_is_worded_once_and_never_overflows(void **state)
{
    (void)state;
    struct muster_err err;
    char big[1000];
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    assert_int_equal(muster_fail(&err, "%s: %d", "here", 7), -1);
    assert_string_equal(err.text, "here: 7");
    assert_int_equal(muster_fail(&err, "%s", big), -1);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_int_equal(muster_fail(NULL, "nobody asks"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_cut_and_cleaned),
        cmocka_unit_test(what_plays_with_a_terminal_is_removed),
        cmocka_unit_test(bytes_for_people),
        cmocka_unit_test(an_end_has_something_before_it),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(sizes),
        cmocka_unit_test(text_grows_within_its_place),
        cmocka_unit_test(text_without_a_place_is_not_written),
        cmocka_unit_test(lists_are_joined_as_people_do),
        cmocka_unit_test(typos_find_the_word_that_was_meant),
        cmocka_unit_test(an_error_is_worded_once_and_never_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
