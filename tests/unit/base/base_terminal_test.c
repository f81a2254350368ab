#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/terminal.h"
#include "base/text.h"

static void expect_wrapped(unsigned width, const char *text, const char *expected)
{
    char *made = NULL;
    size_t bytes;
    FILE *out = open_memstream(&made, &bytes);
    assert_non_null(out);
    muster_terminal_wrap(out, width, "- ", "  ", text);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(made, expected);
    free(made);
}

static void lines_are_wrapped_between_words(void **state)
{
    (void)state;
    expect_wrapped(12, "one two three four", "- one two\n  three four\n");
    expect_wrapped(12, "a-word-that-is-longer x", "- a-word-that-is-longer\n  x\n");
    expect_wrapped(12, "", "- \n");
    /* letters, not bytes, make the width */
    expect_wrapped(10, "h\xc3\xa9h\xc3\xa9 h\xc3\xa9h", "- h\xc3\xa9h\xc3\xa9 h\xc3\xa9h\n");
}

static void expect_printed(void (*print)(FILE *, unsigned, const char *), const char *text,
                           const char *expected)
{
    char *made = NULL;
    size_t bytes;
    FILE *out = open_memstream(&made, &bytes);
    assert_non_null(out);
    print(out, 12, text);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(made, expected);
    free(made);
}

static void lines_keep_their_indentation(void **state)
{
    (void)state;
    expect_printed(muster_terminal_lines, "short\n  - one two three\n\nlast",
                   "short\n  - one two\n    three\n\nlast");
    expect_printed(muster_terminal_lines, "name          of it", "name        \n  of it\n");
    expect_printed(muster_terminal_lines, "h\xc3\xa9h\xc3\xa9 h\xc3\xa9h\xc3\xa9 he\n",
                   "h\xc3\xa9h\xc3\xa9 h\xc3\xa9h\xc3\xa9 he\n");
}

static void prose_flows_and_commands_stay(void **state)
{
    (void)state;
    expect_printed(muster_terminal_prose, "one two three\nfour\n\n  a command to be copied\nend\n",
                   "one two\nthree four\n\n  a command to be copied\nend\n");
    expect_printed(muster_terminal_prose, "one\ntwo\n", "one\ntwo\n");
}

static void text_is_cut_between_letters(void **state)
{
    char text[64] = "h\xc3\xa9h\xc3\xa9h\xc3\xa9";
    char words[64] = "some words that do not fit";
    (void)state;
    assert_int_equal(muster_terminal_cells(text), 6);
    muster_terminal_cut(text, sizeof text, 3);
    assert_string_equal(text, "h\xc3\xa9\xe2\x80\xa6");
    muster_terminal_cut(words, sizeof words, 12);
    assert_string_equal(words, "some words\xe2\x80\xa6");
    muster_terminal_cut(words, sizeof words, 40);
    assert_string_equal(words, "some words\xe2\x80\xa6");
}

static void a_copy_ends_with_a_whole_letter(void **state)
{
    char to[4];
    (void)state;
    muster_text_copy(to, sizeof to, "ab\xc3\xa9");
    assert_string_equal(to, "ab");
    muster_text_copy(to, sizeof to, "a\xc3\xa9");
    assert_string_equal(to, "a\xc3\xa9");
    muster_text_copy(to, sizeof to, "a\xe2\x82\xac");
    assert_string_equal(to, "a");
    muster_text_copy(to, sizeof to, "\xf0\x9f\x98\x80");
    assert_string_equal(to, "");
}

static void ages_are_told_in_one_unit(void **state)
{
    static const struct {
        uint64_t s;
        const char *text;
    } cases[] = {{0, "now"},         {1, "1 s ago"},        {119, "119 s ago"},
                 {180, "3 min ago"}, {7200, "2 hours ago"}, {172800, "2 days ago"}};
    char text[32];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        muster_text_age(text, sizeof text, 1000, 1000 + cases[i].s * 1000000000);
        assert_string_equal(text, cases[i].text);
    }
    muster_text_age(text, sizeof text, 2000, 1000);
    assert_string_equal(text, "now");
}

static void a_width_that_is_set_holds(void **state)
{
    (void)state;
    setenv("COLUMNS", "72", 1);
    assert_int_equal(muster_terminal_of(-1).width, 72);
    assert_true(muster_terminal_of(-1).fit);
    setenv("COLUMNS", "7", 1);
    assert_int_equal(muster_terminal_of(-1).width, MUSTER_TERMINAL_LEAST);
    setenv("COLUMNS", "wide", 1);
    assert_int_equal(muster_terminal_of(-1).width, MUSTER_TERMINAL_USUAL);
    assert_false(muster_terminal_of(-1).style);
    unsetenv("COLUMNS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_wrapped_between_words),
        cmocka_unit_test(lines_keep_their_indentation),
        cmocka_unit_test(prose_flows_and_commands_stay),
        cmocka_unit_test(text_is_cut_between_letters),
        cmocka_unit_test(a_copy_ends_with_a_whole_letter),
        cmocka_unit_test(ages_are_told_in_one_unit),
        cmocka_unit_test(a_width_that_is_set_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
