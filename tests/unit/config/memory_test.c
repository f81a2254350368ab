#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"

/* Every allocation of the parser and of libyaml comes through here (--wrap). */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);

static long left = -1; /* allocations until one fails; negative: none does */
static int refused;
static long live;

static int refuse(void)
{
    if (left < 0)
        return 0;
    if (left > 0) {
        left--;
        return 0;
    }
    refused = 1; /* and every later one */
    errno = ENOMEM;
    return 1;
}

static void *counted(void *memory)
{
    live += memory != NULL;
    return memory;
}

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return refuse() ? NULL : counted(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (refuse())
        return NULL;
    void *memory = __real_realloc(old, size);
    live += !old && memory;
    return memory;
}

char *__wrap_strdup(const char *text)
{
    return refuse() ? NULL : counted(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    live -= memory != NULL;
    __real_free(memory);
}

static void parse_with_every_allocation_failing(const char *yaml, int expected)
{
    for (long n = 0;; n++) {
        struct muster_settings settings;
        struct muster_err err = {""};
        long before = live;
        left = n;
        refused = 0;
        int failed = muster_settings_parse(&settings, "f", yaml, strlen(yaml), &err);
        left = -1;
        assert_int_equal(live, before);
        if (!refused) {
            assert_int_equal(failed, expected);
            assert_true(n > 3);
            return;
        }
        assert_int_equal(settings.timing, MUSTER_TIMING_AUTO);
        assert_int_equal(failed, -1);
        assert_string_equal(err.text, "f: out of memory");
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
