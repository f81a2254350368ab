/* What NCCL's RAS says, as words beside a finding. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ras/ras_report.h"

#define RANK(rank, count)                                                                          \
    "{\"rank\": " rank ", \"host\": \"node" rank "\", \"pid\": 70" rank ", \"status\": "           \
    "{\"async_error\": 0}, \"collective_counts\": {\"Broadcast\": 1, \"AllReduce\": " count "}}"
#define MISSING(rank, dead)                                                                        \
    "{\"rank\": " rank ", \"host\": \"node" rank "\", \"pid\": 70" rank                            \
    ", \"status\": {\"unresponsive\": true, \"considered_dead\": " dead "}}"
#define REPORT(ranks, missing)                                                                     \
    "{\"nccl_version\": \"2.28.9\", \"communicators\": [{\"hash\": \"0x1234abcd\", \"size\": 3, "  \
    "\"ranks\": [" ranks "], \"missing_ranks\": [" missing "]}]}"

static struct muster_finding_lines described(const char *text, uint64_t comm)
{
    struct muster_ras_report report;
    struct muster_finding_lines lines = {.n = 0};
    struct muster_err err;
    int rc = muster_ras_read("test", text, strlen(text), &report, &err);
    if (rc != 0)
        fail_msg("%s", err.text);
    muster_ras_describe(&report, comm, &lines);
    muster_ras_free(&report);
    return lines;
}

static void test_who_launched_fewer_is_named(void **state)
{
    (void)state;
    struct muster_finding_lines lines =
        described(REPORT(RANK("0", "12") "," RANK("1", "11") "," RANK("2", "12"), ""), 0x1234abcd);
    assert_int_equal(lines.n, 1);
    assert_string_equal(lines.line[0],
                        "NCCL's RAS counts 11 AllReduce on rank 1 (node1, pid 701) of this "
                        "communicator, 12 on the other 2");
}

static void test_who_does_not_answer_and_who_is_dead(void **state)
{
    (void)state;
    struct muster_finding_lines lines = described(
        REPORT(RANK("0", "12"), MISSING("1", "false") "," MISSING("2", "true")), 0x1234abcd);
    assert_int_equal(lines.n, 2);
    assert_non_null(strstr(lines.line[0], "rank 1 (node1, pid 701) does not answer"));
    assert_non_null(strstr(lines.line[1], "rank 2 (node2, pid 702) is dead"));
}

static void test_commas_that_nccl_2_28_leaves_out(void **state)
{
    (void)state;
    struct muster_finding_lines lines = described(
        REPORT(RANK("0", "12"), MISSING("1", "false") "\n  " MISSING("2", "false")), 0x1234abcd);
    assert_int_equal(lines.n, 1);
    assert_non_null(
        strstr(lines.line[0], "rank 1 (node1, pid 701), 2 (node2, pid 702) does not answer"));
}

static void test_braces_in_texts_stay(void **state)
{
    (void)state;
    const char *text =
        "{\"communicators\": [{\"hash\": \"0x7\", \"ranks\": [{\"rank\": 0, \"host\": "
        "\"a}{\\\"}\\n{\", \"status\": {\"async_error\": 3}}]}]}";
    struct muster_finding_lines lines = described(text, 7);
    assert_int_equal(lines.n, 1);
    assert_string_equal(lines.line[0], "NCCL's RAS knows of an error (ncclResult_t 3) on rank 0 "
                                       "(a}{\"}?{, pid 0)");
}

static void test_that_nothing_is_added_is_said(void **state)
{
    (void)state;
    struct muster_finding_lines lines =
        described(REPORT(RANK("0", "12") "," RANK("1", "12"), ""), 0x1234abcd);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.line[0], "does not see what has ended"));
    lines = described(REPORT(RANK("0", "12"), ""), 5);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.line[0], "does not know this communicator"));
}

static void test_many_are_counted(void **state)
{
    (void)state;
    struct muster_finding_lines lines = described(
        REPORT("",
               MISSING("1", "true") "," MISSING("2", "true") "," MISSING("3", "true") "," MISSING(
                   "4", "true") "," MISSING("5", "true") "," MISSING("6", "true")),
        0x1234abcd);
    assert_int_equal(lines.n, 1);
    assert_non_null(strstr(lines.line[0], "4 (node4, pid 704) and 2 more is dead"));
}

static void test_what_is_no_report_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const texts[][2] = {{"", "test:1:0: no report of NCCL's RAS as JSON"},
                                           {"{\"communicators\": [", "test:1:"},
                                           {"{\"a\": 1}", "expected \"communicators\""},
                                           {"[]", "expected \"communicators\""},
                                           {"Job summary\n===", "test:1:"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct muster_ras_report report;
        struct muster_err err;
        assert_int_equal(muster_ras_read("test", texts[i][0], strlen(texts[i][0]), &report, &err),
                         -1);
        assert_non_null(strstr(err.text, texts[i][1]));
        muster_ras_free(&report);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_launched_fewer_is_named),
        cmocka_unit_test(test_who_does_not_answer_and_who_is_dead),
        cmocka_unit_test(test_commas_that_nccl_2_28_leaves_out),
        cmocka_unit_test(test_braces_in_texts_stay),
        cmocka_unit_test(test_that_nothing_is_added_is_said),
        cmocka_unit_test(test_many_are_counted),
        cmocka_unit_test(test_what_is_no_report_is_refused_with_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
