#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

struct page {
    struct muster_json json;
    FILE *out;
    char *text;
    size_t bytes;
};

static void page_open(struct page *page, bool pretty)
{
    page->text = NULL;
    page->out = open_memstream(&page->text, &page->bytes);
    assert_non_null(page->out);
    muster_json_begin(&page->json, page->out, pretty);
}

static void page_expect(struct page *page, const char *expected)
{
    fclose(page->out);
    assert_string_equal(page->text, expected);
    free(page->text);
}

static void commas_and_nesting(void **state)
{
    (void)state;
    struct page page;
    page_open(&page, false);
    struct muster_json *json = &page.json;
    muster_json_object(json, NULL);
    muster_json_u64(json, "a", UINT64_MAX);
    muster_json_array(json, "b");
    muster_json_i64(json, NULL, INT64_MIN);
    muster_json_object(json, NULL);
    muster_json_end(json);
    muster_json_null(json, NULL);
    muster_json_end(json);
    muster_json_bool(json, "c", true);
    muster_json_end(json);
    page_expect(&page, "{\"a\":18446744073709551615,\"b\":[-9223372036854775808,{},null],"
                       "\"c\":true}\n");
}

static void pretty_gives_a_line_per_member_near_the_top(void **state)
{
    (void)state;
    struct page page;
    page_open(&page, true);
    struct muster_json *json = &page.json;
    muster_json_object(json, NULL);
    muster_json_array(json, "ranks");
    for (int i = 0; i < 2; i++) {
        muster_json_object(json, NULL);
        muster_json_i64(json, "rank", i);
        muster_json_bool(json, "late", false);
        muster_json_end(json);
    }
    muster_json_end(json);
    muster_json_array(json, "none");
    muster_json_end(json);
    muster_json_end(json);
    page_expect(&page, "{\n  \"ranks\": [\n    {\"rank\": 0,\"late\": false},\n"
                       "    {\"rank\": 1,\"late\": false}\n  ],\n  \"none\": []\n}\n");
}

static void strings_are_valid_json_whatever_they_hold(void **state)
{
    (void)state;
    struct page page;
    page_open(&page, false);
    struct muster_json *json = &page.json;
    muster_json_array(json, NULL);
    muster_json_str(json, NULL, "q\" b\\ n\n t\t e\x1b d\x7f");
    muster_json_str(json, NULL, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    muster_json_str(json, NULL, "\xff \xc3 \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82");
    muster_json_str(json, NULL, NULL);
    muster_json_end(json);
    page_expect(&page, "[\"q\\\" b\\\\ n\\n t\\t e\\u001b d\\u007f\","
                       "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\","
                       "\"\\ufffd \\ufffd \\ufffd\\ufffd \\ufffd\\ufffd\\ufffd "
                       "\\ufffd\\ufffd\\ufffd\\ufffd \\ufffd\\ufffd\",null]\n");
}

static void expect_real(double value, int decimals, const char *expected)
{
    struct page page;
    char line[400];
    page_open(&page, false);
    muster_json_array(&page.json, NULL);
    muster_json_real(&page.json, NULL, value, decimals);
    muster_json_end(&page.json);
    snprintf(line, sizeof(line), "[%s]\n", expected);
    page_expect(&page, line);
}

static void reals(void **state)
{
    (void)state;
    expect_real(1.5, 3, "1.5");
    expect_real(2, 3, "2");
    expect_real(0.0625, 3, "0.063");
    expect_real(-0.05, 2, "-0.05");
    expect_real(-0.0001, 2, "0");
    expect_real(0.999, 2, "1");
    expect_real(12.007, 3, "12.007");
    expect_real(7.6, 0, "8");
    expect_real(1e22, 2, "10000000000000000000000");
    expect_real((double)NAN, 2, "null");
    expect_real((double)-INFINITY, 2, "null");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commas_and_nesting),
        cmocka_unit_test(pretty_gives_a_line_per_member_near_the_top),
        cmocka_unit_test(strings_are_valid_json_whatever_they_hold),
        cmocka_unit_test(reals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
