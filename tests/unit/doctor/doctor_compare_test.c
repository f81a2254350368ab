/* What differs between hosts, worst first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "doctor/rules/doctor_compare.h"

#define REPORT(host, id, checks)                                                                   \
    "{\"version\":1,\"host\":\"" host "\",\"host_id\":\"" id "\",\"checks\":[" checks "]}"
#define CHECK(id, status, found)                                                                   \
    "{\"id\":\"" id "\",\"status\":\"" status "\",\"found\":\"" found "\",\"evidence\":[]}"

static int compare_after(const char *symptoms, const char *const *reports, int n, char **text,
                         struct muster_err *err)
{
    size_t size;
    struct muster_comparison *comparison = muster_comparison_new(err);
    int rc = 0;
    assert_non_null(comparison);
    muster_comparison_explain(comparison, symptoms);
    *text = NULL;
    for (int i = 0; i < n && rc == 0; i++)
        rc = muster_comparison_add(comparison, "file", reports[i], strlen(reports[i]), err);
    if (rc == 0) {
        FILE *out = open_memstream(text, &size);
        rc = muster_comparison_print(comparison, false, out, err);
        fclose(out);
    }
    muster_comparison_free(comparison);
    return rc;
}

static int compare(const char *const *reports, int n, char **text, struct muster_err *err)
{
    return compare_after(NULL, reports, n, text, err);
}

static void equal_hosts_do_not_differ(void **state)
{
    const char *const reports[] = {
        REPORT("a", "1", CHECK("version.nccl", "ok", "NCCL 2.28.9")),
        REPORT("b", "2", CHECK("version.nccl", "ok", "NCCL 2.28.9")),
    };
    char *text;
    (void)state;
    assert_int_equal(compare(reports, 2, &text, NULL), 0);
    assert_string_equal(text, "2 hosts, 0 differences\n");
    free(text);
}

static void differences_come_worst_first(void **state)
{
    const char *const reports[] = {
        REPORT("a", "1",
               CHECK("net.interface", "ok", "eth0") "," CHECK(
                   "version.nccl", "ok", "NCCL 2.28.9") "," CHECK("limit.shm", "ok", "64 GiB")),
        REPORT("b", "2",
               CHECK("net.interface", "ok",
                     "eth1") "," CHECK("version.nccl", "ok",
                                       "NCCL 2.27.7") "," CHECK("limit.shm", "problem", "64 MiB")),
    };
    char *text;
    (void)state;
    assert_int_equal(compare(reports, 2, &text, NULL), 1);
    const char *shm = strstr(text, "problem: limit.shm"),
               *nccl = strstr(text, "should be equal: version.nccl"),
               *net = strstr(text, "differs: net.interface");
    assert_non_null(shm);
    assert_true(shm < nccl && nccl < net);
    assert_non_null(strstr(text, "    b: ok, NCCL 2.27.7\n"));
    free(text);
}

static void a_host_that_stands_out_is_named_against_the_others(void **state)
{
    const char *const reports[] = {
        REPORT("a", "1", CHECK("ib.ports", "ok", "8 RDMA ports")),
        REPORT("b", "2", CHECK("ib.ports", "ok", "7 RDMA ports")),
        REPORT("c", "3", CHECK("ib.ports", "ok", "8 RDMA ports")),
        REPORT("d", "4", ""),
    };
    char *text;
    (void)state;
    assert_int_equal(compare(reports, 4, &text, NULL), 1);
    assert_non_null(strstr(text, "    a, c: ok, 8 RDMA ports\n    b: ok, 7 RDMA ports\n    d: not "
                                 "checked\n"));
    free(text);
}

/* What 1,024 reports cost is not timed here: it has to be as many lines as there are differences.
 */
static void a_thousand_hosts_are_grouped(void **state)
{
    enum { HOSTS = 1024 };
    char *reports[HOSTS], *text;
    (void)state;
    for (int i = 0; i < HOSTS; i++)
        assert_true(asprintf(&reports[i],
                             REPORT("h%04d", "%d", CHECK("ib.ports", "ok", "%d RDMA ports")), i, i,
                             i == 777 ? 7 : 8) > 0);
    assert_int_equal(compare((const char *const *)reports, HOSTS, &text, NULL), 1);
    assert_non_null(strstr(text, "h0000, h0001, "));
    assert_non_null(strstr(text, "h0015 and 1007 more: ok, 8 RDMA ports\n"));
    assert_non_null(strstr(text, "    h0777: ok, 7 RDMA ports\n1024 hosts, 1 difference\n"));
    for (int i = 0; i < HOSTS; i++)
        free(reports[i]);
    free(text);
}

static void evidence_that_others_lack_is_shown(void **state)
{
    static const char all[] = "{\"version\":1,\"host\":\"%s\",\"host_id\":\"%s\",\"checks\":[{"
                              "\"id\":\"env.set\",\"status\":\"ok\",\"found\":\"x\","
                              "\"evidence\":[\"NCCL_DEBUG=INFO\"%s]}]}";
    char *reports[3], *text;
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(asprintf(&reports[i], all, (char[]){(char)('a' + i), '\0'},
                             (char[]){(char)('1' + i), '\0'}, i ? "" : ",\"NCCL_ALGO=ring\"") > 0);
    assert_int_equal(compare((const char *const *)reports, 3, &text, NULL), 1);
    assert_non_null(strstr(text, "    a: ok, x\n      NCCL_ALGO=ring\n    b, c: ok, x\n"));
    for (int i = 0; i < 3; i++)
        free(reports[i]);
    free(text);
}

static void two_hosts_of_one_identity_are_a_problem(void **state)
{
    const char *const reports[] = {REPORT("a", "same", ""), REPORT("b", "same", "")};
    char *text;
    (void)state;
    assert_int_equal(compare(reports, 2, &text, NULL), 1);
    assert_non_null(strstr(text, "NCCL takes for one"));
    free(text);
}

static void what_is_no_report_is_refused_with_a_place(void **state)
{
    static const char *const bad[][2] = {
        {"{", "file:1:1"},
        {"[]", "no \"checks\""},
        {"{\"checks\":[]}", "version 0, expected 1"},
        {"{\"version\":1,\"checks\":[{\"id\":3}]}", "check 0"},
        {"{\"version\":1,\"checks\":[7]}", "check 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct muster_err err;
        char *text;
        assert_int_equal(compare(&bad[i][0], 1, &text, &err), -1);
        assert_non_null(strstr(err.text, bad[i][1]));
    }
}

/* Of a job that hung, the versions and HCAs in which its hosts differ go before a problem of one.
 */
static void what_explains_the_hang_comes_first(void **state)
{
#define HOST(nccl, ports, shm)                                                                     \
    CHECK("limit.shm", shm, "/dev/shm of " shm)                                                    \
    "," CHECK("ib.ports", "ok", ports) "," CHECK("version.nccl", "ok", nccl)
    const char *const differ[] = {
        REPORT("a", "1", HOST("NCCL 2.28.9", "mlx5_0", "ok")),
        REPORT("b", "2", HOST("NCCL 2.27.7", "mlx5_0, mlx5_1", "problem")),
    };
    const char *const alike[] = {
        REPORT("a", "1", HOST("NCCL 2.28.9", "mlx5_0", "ok")),
        REPORT("b", "2", HOST("NCCL 2.28.9", "mlx5_0", "problem")),
    };
    char *text;
    (void)state;
    assert_int_equal(compare_after("late_rank,hang_stuck", differ, 2, &text, NULL), 1);
    const char *nccl = strstr(text, "should be equal: version.nccl\n");
    const char *ports = strstr(text, "should be equal: ib.ports\n");
    const char *shm = strstr(text, "problem: limit.shm\n");
    assert_ptr_equal(nccl, text);
    assert_true(ports && shm && nccl < ports && ports < shm);
    const char *described = strstr(text, "    may explain: late_rank,hang_stuck\n");
    assert_true(described && described < ports && strstr(ports, "may explain") < shm);
    assert_null(strstr(shm, "may explain"));
    free(text);
    assert_int_equal(compare_after("hang_stuck", alike, 2, &text, NULL), 1);
    assert_null(strstr(text, "may explain"));
    free(text);
    assert_int_equal(compare(differ, 2, &text, NULL), 1);
    assert_ptr_equal(strstr(text, "problem: limit.shm\n"), text);
    assert_null(strstr(text, "may explain"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_explains_the_hang_comes_first),
        cmocka_unit_test(equal_hosts_do_not_differ),
        cmocka_unit_test(differences_come_worst_first),
        cmocka_unit_test(a_host_that_stands_out_is_named_against_the_others),
        cmocka_unit_test(a_thousand_hosts_are_grouped),
        cmocka_unit_test(evidence_that_others_lack_is_shown),
        cmocka_unit_test(two_hosts_of_one_identity_are_a_problem),
        cmocka_unit_test(what_is_no_report_is_refused_with_a_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
