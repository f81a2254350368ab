#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "launch/library_trust.h"

static char folder[64], file[96];

static int make_library(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/muster-trust-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(file, sizeof file, "%s/libx.so", folder);
    FILE *made = fopen(file, "w");
    return made ? fclose(made) || setenv("LD_LIBRARY_PATH", folder, 1) : -1;
}

static int remove_library(void **state)
{
    (void)state;
    unsetenv("LD_LIBRARY_PATH");
    unlink(file);
    return rmdir(folder);
}

static void only_what_root_alone_can_change_is_loaded_by_root(void **state)
{
    char found[512];
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_true(muster_library_may_load(file, found, sizeof found));
    assert_true(muster_library_may_load("libx.so", found, sizeof found));
    assert_int_equal(chmod(file, 0666), 0); /* everybody's to write */
    assert_false(muster_library_may_load("libx.so", found, sizeof found));
    assert_string_equal(found, file);
    assert_int_equal(chmod(file, 0644), 0);
    assert_int_equal(chown(folder, 12345, 12345), 0); /* and to replace */
    assert_false(muster_library_may_load("libx.so", found, sizeof found));
    assert_false(muster_library_may_load(file, found, sizeof found));
    unsetenv("LD_LIBRARY_PATH");
    assert_true(muster_library_may_load("libx.so", found, sizeof found)); /* the system's */
    assert_true(muster_library_may_load("/nonexistent/libx.so", found, sizeof found));
}

static void a_link_is_followed_to_what_it_names(void **state)
{
    char link[128], found[512];
    (void)state;
    if (geteuid() != 0)
        skip();
    snprintf(link, sizeof link, "%s/liby.so", folder);
    assert_int_equal(symlink("/bin/sh", link), 0);
    assert_true(muster_library_may_load("liby.so", found, sizeof found));
    unlink(link);
    assert_int_equal(chown(file, 12345, 12345), 0);
    assert_int_equal(symlink(file, link), 0);
    assert_false(muster_library_may_load("liby.so", found, sizeof found));
    unlink(link);
}

static void what_is_not_loaded_is_named_and_can_be_asked_for(void **state)
{
    char expected[192];
    struct muster_err err = {""};
    (void)state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(muster_library_ask("libx.so", &err), 0);
    assert_int_equal(chown(folder, 12345, 12345), 0);
    assert_int_equal(muster_library_ask("libx.so", &err), -1);
    snprintf(expected, sizeof expected, "%s: not loaded by root, as others can change it", file);
    assert_string_equal(err.text, expected);
    setenv("MUSTER_LOAD_ANY", "0", 1);
    assert_int_equal(muster_library_ask("libx.so", &err), -1);
    setenv("MUSTER_LOAD_ANY", "1", 1);
    assert_int_equal(muster_library_ask("libx.so", &err), 0);
    unsetenv("MUSTER_LOAD_ANY");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_library, remove_library)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_what_root_alone_can_change_is_loaded_by_root),
        TEST(a_link_is_followed_to_what_it_names),
        TEST(what_is_not_loaded_is_named_and_can_be_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
