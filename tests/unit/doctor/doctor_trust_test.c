#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

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

static void another_user_is_root_of_a_namespace(void **state)
{
    (void)state;
    assert_false(muster_library_root_is_another("         0          0 4294967295\n"));
    assert_false(muster_library_root_is_another("0 0 1\n"));
    assert_false(muster_library_root_is_another("1 1000 1\n0 0 1\n"));
    assert_true(muster_library_root_is_another("         0       1000          1\n"));
    assert_true(muster_library_root_is_another("1 100000 65536\n0 1000 1\n"));
    assert_false(muster_library_root_is_another("1 100000 65536\n"));
    assert_false(muster_library_root_is_another(""));
}

enum { LOADED = 1, NOT_LOADED, NO_NAMESPACE };

/* What root of a namespace of a user's own does. */
static int load_in_namespace(void)
{
    static const char map[] = "0 12345 1";
    char found[512];
    pid_t child = fork();
    if (child == 0) {
        int fd;
        if (setresuid(12345, 12345, 12345) != 0 || unshare(CLONE_NEWUSER) != 0 ||
            prctl(PR_SET_DUMPABLE, 1) != 0 || (fd = open("/proc/self/uid_map", O_WRONLY)) < 0 ||
            write(fd, map, sizeof map - 1) < 0 || geteuid() != 0)
            _exit(NO_NAMESPACE);
        _exit(muster_library_may_load(file, found, sizeof found) ? LOADED : NOT_LOADED);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_namespaces_root_loads_what_is_the_hosts_root_s(void **state)
{
    (void)state;
    assert_int_equal(chmod(folder, 0755), 0);
    int done = geteuid() == 0 ? load_in_namespace() : NO_NAMESPACE;
    if (done == NO_NAMESPACE)
        skip();
    assert_int_equal(done, LOADED);
    assert_int_equal(chmod(file, 0666), 0);
    assert_int_equal(load_in_namespace(), NOT_LOADED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_library, remove_library)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_what_root_alone_can_change_is_loaded_by_root),
        TEST(a_link_is_followed_to_what_it_names),
        TEST(what_is_not_loaded_is_named_and_can_be_asked_for),
        cmocka_unit_test(another_user_is_root_of_a_namespace),
        TEST(a_namespaces_root_loads_what_is_the_hosts_root_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
