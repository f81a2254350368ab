/* Every allocation of the report fails once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "report_fixture.h"

static bool counting;
static size_t left; /* allocations until one fails */

static bool fails(void)
{
    return counting && left-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_reallocarray(void *old, size_t n, size_t size);
int __real_vasprintf(char **text, const char *fmt, va_list args);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_reallocarray(void *old, size_t n, size_t size);
int __wrap_vasprintf(char **text, const char *fmt, va_list args);

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_reallocarray(void *old, size_t n, size_t size)
{
    return fails() ? NULL : __real_reallocarray(old, n, size);
}

__attribute__((format(printf, 2, 0))) int __wrap_vasprintf(char **text, const char *fmt,
                                                           va_list args)
{
    return fails() ? -1 : __real_vasprintf(text, fmt, args);
}

static struct muster_run *sample(void)
{
    struct muster_run *run = fixture_run(2);
    for (size_t p = 0; p < 2; p++) {
        fixture_comm(run, p, 1, 0xabc, (int32_t)p, 4);
        for (uint64_t i = 0; i < 1500; i++) {
            fixture_add(run, p, fixture_op(1, i, (100 + p) * US));
        }
        run->process[p].segment->net[0].comm = 1;
        run->process[p].segment->drops[MUSTER_DROP_CHANNEL] = 1;
    }
    return run;
}

static void no_failed_allocation_goes_unnoticed(void **state)
{
    struct muster_run *run = sample();
    size_t n = 0;
    (void)state;
    for (;; n++) {
        struct muster_report report;
        struct muster_err err = {""};
        left = n;
        counting = true;
        int result = muster_report_of_run(run, MUSTER_BY_OP, &report, &err);
        counting = false;
        if (result == 0) {
            muster_report_free(&report);
            break;
        }
        assert_non_null(strstr(err.text, "out of memory"));
    }
    assert_true(n > 20);
    fixture_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_failed_allocation_goes_unnoticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
