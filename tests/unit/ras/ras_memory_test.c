/* Every allocation fails by itself of what is read of RAS. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "failing_memory.h"
#include "ras/ras_report.h"

static const char answer[] =
    "{\"communicators\":[{\"hash\":\"0xabc\",\"ranks\":[{\"rank\":0,\"host\":\"a\"}],"
    "\"missing_ranks\":[{\"rank\":1,\"host\":\"b\"}]},{\"hash\":\"0xdef\",\"ranks\":[]}]}";

static void a_report_is_whole_or_fails(void **state)
{
    bool failed = true;
    (void)state;
    for (long n = 0; failed; n++) {
        struct muster_ras_report report;
        struct muster_err err = {""};
        long before = failing_memory_live();
        failing_memory_once(n);
        int result = muster_ras_read("RAS", answer, sizeof answer - 1, &report, &err);
        failed = failing_memory_end();
        assert_int_equal(result, failed ? -1 : 0);
        assert_int_equal(strstr(err.text, "out of memory") != NULL, failed);
        if (!failed) {
            assert_int_equal(report.comms, 2);
            assert_int_equal(report.comm[0].ranks, 2);
        }
        muster_ras_free(&report);
        assert_int_equal(failing_memory_live(), before);
        assert_true(n > 1 || failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_report_is_whole_or_fails)};
    json_set_alloc_funcs(failing_memory_spare, free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
