#include "segment_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segment/artifact.h"

static const char text[] = "muster: 1\n";
static const char name[] = "policy-abababab.yaml";

/* An errno: the next file gets no name. */
static int rename_error;

int rename(const char *old, const char *new)
{
    errno = rename_error;
    return errno ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0);
}

static struct muster_artifact *make(const char *what)
{
    struct muster_artifact *kept = muster_artifact_new(name, what, strlen(what));
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
    struct muster_artifact *first = make(text), *second = make("another text\n");
    assert_int_equal(muster_artifact_write(first, fixture->run, NULL), 0);
    assert_int_equal(muster_artifact_write(second, fixture->run, NULL), 0);
    assert_file(fixture_path(path, sizeof(path), fixture->run, name), text);
    assert_int_equal(fixture_count(fixture->run, ""),
                     1 + 2); /* it, "." and "..": no temporary one */
    free(first);
    free(second);
}

static char *part_path(char *path, size_t size, const struct fixture *fixture)
{
    char part[64];
    snprintf(part, sizeof(part), ".%s.part", name);
    return fixture_path(path, size, fixture->run, part);
}

static void what_a_killed_one_left_is_finished(void **state)
{
    struct fixture *fixture = *state;
    char path[256];
    struct muster_artifact *kept = make(text);
    write_file(part_path(path, sizeof(path), fixture), "mus");
    assert_int_equal(muster_artifact_write(kept, fixture->run, NULL), 0);
    assert_file(fixture_path(path, sizeof(path), fixture->run, name), text);
    assert_int_equal(fixture_count(fixture->run, ""), 1 + 2);
    free(kept);
}

static void what_a_killed_one_left_after_another_was_done_is_removed(void **state)
{
    struct fixture *fixture = *state;
    char path[256];
    struct muster_artifact *kept = make(text);
    assert_int_equal(muster_artifact_write(kept, fixture->run, NULL), 0);
    write_file(part_path(path, sizeof(path), fixture), "mus");
    assert_int_equal(muster_artifact_write(kept, fixture->run, NULL), 0);
    assert_file(fixture_path(path, sizeof(path), fixture->run, name), text);
    assert_int_equal(fixture_count(fixture->run, ""), 1 + 2);
    free(kept);
}

/* As long a run directory as a segment tells. */
static void a_deep_folder_takes_it_like_any_other(void **state)
{
    struct fixture *fixture = *state;
    char deep[MUSTER_SEG_PATH], path[MUSTER_SEG_PATH + 80];
    size_t length = (size_t)snprintf(deep, sizeof(deep), "%s", fixture->run);
    while (length + 2 < sizeof(deep)) {
        size_t n = sizeof(deep) - 2 - length;
        n = n > 200 ? 150 : n;
        deep[length] = '/';
        memset(deep + length + 1, 'd', n);
        length += n + 1;
        deep[length] = 0;
        assert_int_equal(mkdir(deep, 0700), 0);
    }
    struct muster_artifact *kept = make(text);
    assert_int_equal(muster_artifact_write(kept, deep, NULL), 0);
    assert_file(fixture_path(path, sizeof(path), deep, name), text);
    assert_int_equal(fixture_count(deep, ""), 1 + 2);
    free(kept);
}

static void a_name_that_cannot_be_given_is_an_error(void **state)
{
    struct fixture *fixture = *state;
    struct muster_err err;
    struct muster_artifact *kept = make(text);
    rename_error = EACCES;
    int rc = muster_artifact_write(kept, fixture->run, &err);
    rename_error = 0;
    assert_int_equal(rc, -1);
    assert_non_null(strstr(err.text, strerror(EACCES)));
    assert_int_equal(fixture_count(fixture->run, ""), 2);
    free(kept);
}

/* On a shared file system a process of another host may be in the middle of writing the same text:
 * neither harms the other. */
static void two_that_write_at_once_do_not_disturb_each_other(void **state)
{
    struct fixture *fixture = *state;
    char path[256], part[256];
    struct muster_artifact *kept = make(text);
    int other = open(part_path(part, sizeof(part), fixture), O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(other >= 0);
    assert_int_equal(pwrite(other, text, 3, 0), 3);
    assert_int_equal(muster_artifact_write(kept, fixture->run, NULL), 0);
    fixture_path(path, sizeof(path), fixture->run, name);
    assert_file(path, text);
    assert_int_equal(pwrite(other, text + 3, strlen(text) - 3, 3), strlen(text) - 3);
    close(other);
    assert_file(path, text);
    free(kept);
}

enum { WRITERS = 4, ROUNDS = 200 };

struct crowd {
    const char *dir;
    pthread_barrier_t start;
    char path[256];
};

static void *write_with_others(void *arg)
{
    struct crowd *crowd = arg;
    struct muster_artifact *kept = make(text);
    intptr_t failed = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (pthread_barrier_wait(&crowd->start) != 0) /* one of them */
            unlink(crowd->path);
        pthread_barrier_wait(&crowd->start);
        failed += muster_artifact_write(kept, crowd->dir, NULL) != 0;
        failed += access(crowd->path, F_OK) != 0;
    }
    free(kept);
    return (void *)failed;
}

static void a_crowd_that_writes_at_once_leaves_one_file(void **state)
{
    struct fixture *fixture = *state;
    struct crowd crowd = {.dir = fixture->run};
    pthread_t writer[WRITERS];
    void *failed;
    fixture_path(crowd.path, sizeof(crowd.path), fixture->run, name);
    pthread_barrier_init(&crowd.start, NULL, WRITERS);
    for (unsigned i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writer[i], NULL, write_with_others, &crowd), 0);
    for (unsigned i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_join(writer[i], &failed), 0);
        assert_null(failed);
    }
    pthread_barrier_destroy(&crowd.start);
    assert_file(crowd.path, text);
    assert_int_equal(fixture_count(fixture->run, ""), 1 + 2);
}

/* One byte more than `ulimit -f` allows would be a signal that ends the job. */
static void a_limit_on_files_ends_no_job(void **state)
{
    struct fixture *fixture = *state;
    struct muster_err err;
    struct rlimit before;
    struct muster_artifact *kept = make(text);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit small = {.rlim_cur = strlen(text) - 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = muster_artifact_write(kept, fixture->run, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(rc, -1);
    assert_non_null(strstr(err.text, "File too large"));
    assert_int_equal(fixture_count(fixture->run, ""), 2);
    free(kept);
}

static void a_directory_that_is_gone_is_said(void **state)
{
    struct fixture *fixture = *state;
    struct muster_err err;
    char path[256];
    struct muster_artifact *kept = make(text);
    fixture_path(path, sizeof(path), fixture->run, "gone");
    assert_int_equal(muster_artifact_write(kept, path, &err), -1);
    assert_non_null(strstr(err.text, "gone"));
    assert_non_null(strstr(err.text, "No such file or directory"));
    free(kept);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_first_to_come_writes_it),
        TEST(what_a_killed_one_left_is_finished),
        TEST(what_a_killed_one_left_after_another_was_done_is_removed),
        TEST(a_deep_folder_takes_it_like_any_other),
        TEST(a_name_that_cannot_be_given_is_an_error),
        TEST(two_that_write_at_once_do_not_disturb_each_other),
        TEST(a_crowd_that_writes_at_once_leaves_one_file),
        TEST(a_limit_on_files_ends_no_job),
        TEST(a_directory_that_is_gone_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
