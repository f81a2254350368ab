#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>

#include "launch/hooks.h"

static char folder[64], file[96];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/muster-hook-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/out", folder);
    return setenv("OUT", file, 1);
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(folder);
}

static size_t read_out(char *text, size_t size)
{
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    size_t n = fread(text, 1, size - 1, in);
    text[n] = '\0';
    fclose(in);
    return n;
}

static void run(const char *script, const char *text, size_t bytes, unsigned deadline_ms)
{
    const char *argv[MUSTER_ACTION_ARGS + 1] = {"sh", "-c", script};
    muster_hook_run("muster run", argv, text, bytes, deadline_ms, NULL);
}

static void a_hook_gets_the_finding_whole(void **state)
{
    (void)state;
    static char text[300000], got[300002];
    memset(text, 'x', sizeof text);
    run("cat > $OUT", text, sizeof text, 60000);
    assert_int_equal(read_out(got, sizeof got), sizeof text);
}

static void a_hook_that_reads_nothing_is_no_trouble(void **state)
{
    (void)state;
    static char text[300000], got[16];
    run("exec <&-; echo done > $OUT", text, sizeof text, 60000);
    read_out(got, sizeof got);
    assert_string_equal(got, "done\n");
}

static void expect_gone(void)
{
    char text[32];
    read_out(text, sizeof text);
    pid_t pid = (pid_t)atoi(text);
    assert_true(pid > 1);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
}

static void a_hook_that_hangs_is_ended(void **state)
{
    (void)state;
    run("echo $$ > $OUT; exec sleep 100000", "{}\n", 3, 2000);
    expect_gone();
}

static void a_hook_that_writes_without_end_is_ended(void **state)
{
    (void)state;
    run("echo $$ > $OUT; exec yes", "{}\n", 3, 60000);
    expect_gone();
}

static void a_hook_that_is_not_there_is_said(void **state)
{
    (void)state;
    const char *argv[MUSTER_ACTION_ARGS + 1] = {"/nonexistent/hook"};
    muster_hook_run("muster run", argv, "{}\n", 3, 1000, NULL);
    run("echo after > $OUT", "", 0, 60000);
    char got[16];
    read_out(got, sizeof got);
    assert_string_equal(got, "after\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_hook_gets_the_finding_whole),    TEST(a_hook_that_reads_nothing_is_no_trouble),
        TEST(a_hook_that_hangs_is_ended),       TEST(a_hook_that_writes_without_end_is_ended),
        TEST(a_hook_that_is_not_there_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
