#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "config/settings.h"
#include "failing_memory.h"

static void parse_with_every_allocation_failing(const char *yaml, int expected)
{
    for (long n = 0;; n++) {
        struct muster_settings settings;
        struct muster_err err = {""};
        long before = failing_memory_live();
        failing_memory_begin(n);
        int failed = muster_settings_parse(&settings, "f", yaml, strlen(yaml), &err);
        bool refused = failing_memory_end();
        assert_int_equal(failing_memory_live(), before);
        if (!refused) {
            assert_int_equal(failed, expected);
            assert_true(n > 3);
            return;
        }
        assert_int_equal(settings.timing, MUSTER_TIMING_AUTO);
        assert_int_equal(failed, -1);
        assert_string_equal(err.text, "out of memory for f");
    }
}

static void a_good_document(void **state)
{
    (void)state;
    parse_with_every_allocation_failing("%YAML 1.1\n---\nmuster: 1\ncapture:\n  timing: full\n"
                                        "  dir: \"a\\tb c\" # x\n",
                                        -1);
    parse_with_every_allocation_failing("muster: 1\ncapture: {timing: full, dir: 'a b'}\n", 0);
}

static void an_empty_document(void **state)
{
    (void)state;
    parse_with_every_allocation_failing("#\n", -1);
}

static void every_kind_of_node(void **state)
{
    (void)state;
    parse_with_every_allocation_failing("muster: 1\npolity: [[a, {b: 'x'}], !t d]\n", -1);
    parse_with_every_allocation_failing("muster: 1\npolity:\n- - >\n    x\n- {a: [b]}\n", -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_document),
        cmocka_unit_test(an_empty_document),
        cmocka_unit_test(every_kind_of_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
