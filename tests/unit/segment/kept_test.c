#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/kept.h"

static const char text[] = "muster: 1\n";
static const char name[] = "policy-abababab.yaml";

static struct muster_kept *make(const char *what)
{
    struct muster_kept *kept = muster_kept_new(name, what, strlen(what));
    assert_non_null(kept);
    return kept;
}

static void write_file(const char *path, const char *what)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(what, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void assert_file(const char *path, const char *expected)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof(found) - 1, file), strlen(expected));
    assert_string_equal(found, expected);
    fclose(file);
}

static void the_first_to_come_writes_it(void **state)
{
    struct fixture *fixture = *state;
    char path[256];
    struct muster_kept *first = make(text), *second = make("another text\n");
    assert_int_equal(muster_kept_write(first, fixture->run, NULL), 0);
    assert_int_equal(muster_kept_write(second, fixture->run, NULL), 0);
    assert_file(fixture_path(path, sizeof(path), fixture->run, name), text);
    assert_int_equal(fixture_count(fixture->run, ""),
                     1 + 2); /* it, "." and "..": no temporary one */
    free(first);
    free(second);
}

/* On a shared file system a process of another host, in a container with the same pid, may be in
 * the middle of writing the same text. */
static void the_unfinished_file_of_another_host_is_left_alone(void **state)
{
    struct fixture *fixture = *state;
    char path[256], part[64];
    struct muster_kept *kept = make(text);
    snprintf(part, sizeof(part), ".%s.%d", name, (int)getpid());
    write_file(fixture_path(path, sizeof(path), fixture->run, part), "mus");
    assert_int_equal(muster_kept_write(kept, fixture->run, NULL), 0);
    assert_file(path, "mus");
    assert_file(fixture_path(path, sizeof(path), fixture->run, name), text);
    free(kept);
}

static void a_directory_that_is_gone_is_said(void **state)
{
    struct fixture *fixture = *state;
    struct muster_err err;
    char path[256];
    struct muster_kept *kept = make(text);
    fixture_path(path, sizeof(path), fixture->run, "gone");
    assert_int_equal(muster_kept_write(kept, path, &err), -1);
    assert_non_null(strstr(err.text, "gone"));
    assert_non_null(strstr(err.text, "No such file or directory"));
    free(kept);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_first_to_come_writes_it),
        TEST(the_unfinished_file_of_another_host_is_left_alone),
        TEST(a_directory_that_is_gone_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
