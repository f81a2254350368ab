/* Prometheus' text formats, line by line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "agent/exposition.h"

static const struct muster_family bytes = {"muster_bytes_total", MUSTER_FAMILY_COUNTER, "Bytes"};
static const struct muster_family info = {"muster_rank_info", MUSTER_FAMILY_INFO, "Who"};
static const struct muster_family took = {"muster_took_seconds", MUSTER_FAMILY_HISTOGRAM, "Took"};

static char *print(bool open_metrics)
{
    const struct muster_label rank[] = {
        {"run", "a\"b\\c\nd"}, {"pod", ""}, {"rank", "3"}, {NULL, NULL}};
    const struct muster_label le[] = {{"le", "+Inf"}, {NULL, NULL}};
    struct muster_exposition to;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    muster_exposition_begin(&to, out, open_metrics);
    muster_exposition_family(&to, &info);
    muster_exposition_count(&to, "", rank, 1);
    muster_exposition_family(&to, &bytes);
    muster_exposition_count(&to, "", NULL, UINT64_MAX);
    muster_exposition_family(&to, &took);
    muster_exposition_count(&to, "_bucket", le, 2);
    muster_exposition_seconds(&to, "_sum", NULL, 1500000001);
    muster_exposition_real(&to, "_count", NULL, 0.25);
    muster_exposition_end(&to);
    assert_int_equal(to.series, 5);
    fclose(out);
    return text;
}

static void the_classic_format(void **state)
{
    (void)state;
    char *text = print(false);
    assert_string_equal(text, "# HELP muster_rank_info Who\n# TYPE muster_rank_info gauge\n"
                              "muster_rank_info{run=\"a\\\"b\\\\c\\nd\",rank=\"3\"} 1\n"
                              "# HELP muster_bytes_total Bytes\n# TYPE muster_bytes_total counter\n"
                              "muster_bytes_total 18446744073709551615\n"
                              "# HELP muster_took_seconds Took\n"
                              "# TYPE muster_took_seconds histogram\n"
                              "muster_took_seconds_bucket{le=\"+Inf\"} 2\n"
                              "muster_took_seconds_sum 1.500000001\n"
                              "muster_took_seconds_count 0.25\n");
    free(text);
}

static void openmetrics_names_families_without_their_suffix(void **state)
{
    (void)state;
    char *text = print(true);
    assert_non_null(strstr(text, "# TYPE muster_rank info\nmuster_rank_info{"));
    assert_non_null(strstr(text, "# TYPE muster_bytes counter\nmuster_bytes_total 1844"));
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    free(text);
}

static void what_is_not_utf8_does_not_leave(void **state)
{
    (void)state;
    const struct muster_label label[] = {{"run", "\xff\x01\xc3\xa9"}, {NULL, NULL}};
    struct muster_exposition to;
    char text[128] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    muster_exposition_begin(&to, out, false);
    to.family = &bytes;
    muster_exposition_count(&to, "", label, 1);
    fclose(out);
    assert_string_equal(text, "muster_bytes_total{run=\"?\?\xc3\xa9\"} 1\n");
}

static void clients_ask_for_what_they_read(void **state)
{
    (void)state;
    /* Prometheus 2.42, curl, and some odd ones. */
    assert_true(muster_exposition_wants_open_metrics(
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
        "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
    assert_true(muster_exposition_wants_open_metrics("application/openmetrics-text"));
    assert_false(muster_exposition_wants_open_metrics(NULL));
    assert_false(muster_exposition_wants_open_metrics("*/*"));
    assert_false(muster_exposition_wants_open_metrics("text/plain;version=0.0.4"));
    assert_false(
        muster_exposition_wants_open_metrics("application/openmetrics-text;version=2.0.0"));
    assert_false(
        muster_exposition_wants_open_metrics("application/openmetrics-text;version=1.0.0;q=0"));
    assert_true(
        muster_exposition_wants_open_metrics("application/openmetrics-text;version=1.0.0;q=0.5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_classic_format),
        cmocka_unit_test(openmetrics_names_families_without_their_suffix),
        cmocka_unit_test(what_is_not_utf8_does_not_leave),
        cmocka_unit_test(clients_ask_for_what_they_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
