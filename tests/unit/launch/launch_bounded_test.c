/* Work that crashes, fails, floods or never returns. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "launch/bounded.h"

static int answers(void *arg, int fd, struct muster_err *err)
{
    return muster_bounded_write(fd, arg, strlen(arg), err);
}

static int refuses(void *arg, int fd, struct muster_err *err)
{
    (void)arg;
    (void)fd;
    return muster_fail(err, "no such thing");
}

static int dies(void *arg, int fd, struct muster_err *err)
{
    (void)arg;
    (void)fd;
    (void)err;
    raise(SIGKILL);
    return 0;
}

/* Together with a child of its own that keeps the pipe open. */
static int hangs(void *arg, int fd, struct muster_err *err)
{
    signal(SIGTERM, SIG_IGN);
    if (muster_bounded_write(fd, arg, strlen(arg), err))
        return -1;
    fork();
    for (;;)
        pause();
}

static int floods(void *arg, int fd, struct muster_err *err)
{
    static char block[1 << 20];
    (void)arg;
    for (;;)
        if (muster_bounded_write(fd, block, sizeof block, err))
            return -1;
}

static void an_answer_comes_back_whole(void **state)
{
    struct muster_err err;
    char *bytes;
    size_t n;
    (void)state;
    assert_int_equal(muster_bounded("it", answers, (char *)"hello", 10000, &bytes, &n, &err), 0);
    assert_int_equal(n, 5);
    assert_string_equal(bytes, "hello");
    free(bytes);
}

static void reasons_are_passed_on(void **state)
{
    struct muster_err err;
    char *bytes;
    size_t n;
    (void)state;
    assert_int_equal(muster_bounded("it", refuses, NULL, 10000, &bytes, &n, &err), -1);
    assert_string_equal(err.text, "no such thing");
    assert_int_equal(muster_bounded("it", dies, NULL, 10000, &bytes, &n, &err), -1);
    assert_non_null(strstr(err.text, "it: crashed (signal 9"));
    assert_int_equal(muster_bounded("it", floods, NULL, 60000, &bytes, &n, &err), -1);
    assert_non_null(strstr(err.text, "too large"));
}

static void what_hangs_is_ended_and_what_it_said_is_kept(void **state)
{
    struct muster_err err;
    char *bytes;
    size_t n;
    (void)state;
    assert_int_equal(muster_bounded_partly("it", hangs, (char *)"so far", 300, 0, &bytes, &n, &err),
                     -1);
    assert_string_equal(err.text, "it: no answer in 300 ms");
    assert_string_equal(bytes, "so far");
    free(bytes);
    assert_int_equal(
        muster_bounded_partly("it", hangs, (char *)"so far", 3600000, 200, &bytes, &n, &err), -1);
    assert_string_equal(err.text, "it: no further answer in 200 ms");
    assert_string_equal(bytes, "so far");
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_comes_back_whole),
        cmocka_unit_test(reasons_are_passed_on),
        cmocka_unit_test(what_hangs_is_ended_and_what_it_said_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
