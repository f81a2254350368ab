#include "segment_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/reap.h"

static char shm[64], dead[128]; /* a segment directory, and the only segment in it */
static pid_t forked;

/* Called when a stored segment is about to get its name. An errno: it gets none. */
static int (*before_rename)(void);

int renameat(int from, const char *old, int to, const char *new)
{
    errno = before_rename ? before_rename() : 0;
    return errno ? -1 : (int)syscall(SYS_renameat2, from, old, to, new, 0);
}

static void leave_segment(const struct fixture *fixture)
{
    struct muster_seg_identity identity;
    struct muster_segment_file file;
    struct muster_err err;
    fixture_identity(fixture, &identity);
    muster_segment_create(&file, fixture->shm, &identity, &err);
}

static void make_dead(const struct fixture *fixture)
{
    struct muster_found *found;
    fixture_killed_process(leave_segment, fixture);
    size_t n = muster_find_segments(fixture->shm, &found);
    assert_int_equal(n, 1);
    assert_false(found[0].alive);
    snprintf(shm, sizeof(shm), "%s", fixture->shm);
    snprintf(dead, sizeof(dead), "%s", found[0].path);
    muster_found_free(found, n);
}

static int reap_while(int (*hook)(void))
{
    struct muster_err err;
    before_rename = hook;
    int rc = muster_reap_one(dead, &err);
    before_rename = NULL;
    return rc;
}

static int reap_in_another_process(void)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(reap_while(NULL) & 0xff);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int look_and_let_another_try(void)
{
    struct muster_found *found;
    size_t n = muster_find_segments(shm, &found);
    muster_found_free(found, n);
    assert_int_equal(reap_in_another_process(), 1);
    return 0;
}

/* As muster-diag may look while muster-log reaps. */
static void a_look_lets_no_second_reaper_in(void **state)
{
    const struct fixture *fixture = *state;
    make_dead(fixture);
    assert_int_equal(reap_while(look_and_let_another_try), 0);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 1);
    assert_int_equal(fixture_count(fixture->run, ".part"), 0);
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 0);
    assert_int_equal(fixture_count(fixture->shm, ".lock"), 0);
}

/* A segment is a megabyte, and most of it is never written: neither goes to the disk. */
static void what_was_never_written_takes_no_room_on_the_disk(void **state)
{
    const struct fixture *fixture = *state;
    char path[256];
    struct stat file;
    make_dead(fixture);
    assert_int_equal(reap_in_another_process(), 0);
    DIR *dir = opendir(fixture->run);
    struct dirent *entry = dir ? readdir(dir) : NULL;
    while (entry && !strstr(entry->d_name, ".seg"))
        entry = readdir(dir);
    assert_non_null(entry);
    fixture_path(path, sizeof(path), fixture->run, entry->d_name);
    closedir(dir);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_size, sizeof(struct muster_segment));
    assert_in_range(file.st_blocks * 512, 1, sizeof(struct muster_segment) / 4);
}

static int fork_and_fail(void)
{
    forked = fork();
    if (forked == 0)
        for (;;)
            pause();
    return EIO;
}

/* As a data loader's process may begin while muster-log reaps. */
static void a_child_keeps_nothing_that_its_parent_gave_up(void **state)
{
    const struct fixture *fixture = *state;
    make_dead(fixture);
    int failed = reap_while(fork_and_fail);
    int again = reap_in_another_process();
    kill(forked, SIGKILL);
    waitpid(forked, NULL, 0);
    assert_int_equal(failed, -1);
    assert_int_equal(again, 0);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 1);
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 0);
}

/* One /dev/shm, one path, two directories. */
static void another_containers_segment_goes_into_no_directory_of_ours(void **state)
{
    const struct fixture *fixture = *state;
    char theirs[200], log[200];
    struct muster_err err;
    unsigned long long ns;
    unsigned uid, pid;
    char rest[64];
    make_dead(fixture);
    const char *name = strrchr(dead, '/') + 1;
    assert_int_equal(sscanf(name, "muster-%u-%llu-%u-%63s", &uid, &ns, &pid, rest), 4);
    snprintf(theirs, sizeof(theirs), "%s/muster-%u-%llu-%u-%s", shm, uid, ns + 1, pid, rest);
    assert_int_equal(rename(dead, theirs), 0);
    assert_int_equal(muster_reap_one(theirs, &err), -1);
    assert_non_null(strstr(err.text, "another container"));
    assert_int_equal(fixture_count(fixture->run, ".seg"), 0);
    /* A directory that both have holds its log. */
    snprintf(log, sizeof(log), "%s/host-%u.log", fixture->run, pid);
    FILE *made = fopen(log, "w");
    assert_non_null(made);
    fclose(made);
    assert_int_equal(muster_reap_one(theirs, &err), 0);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 1);
}

/* As when the process that was looked at ended between the look and the lock. */
static void a_segment_that_is_gone_leaves_no_lock(void **state)
{
    const struct fixture *fixture = *state;
    char path[256];
    struct muster_err err;
    fixture_path(path, sizeof(path), fixture->shm, "muster-0-1-2-3.seg");
    assert_int_equal(muster_reap_one(path, &err), 1);
    assert_int_equal(fixture_count(fixture->shm, ".lock"), 0);
}

/* After a week, when nothing could be done with it. */
static void what_cannot_be_read_goes_in_the_end_with_its_lock(void **state)
{
    const struct fixture *fixture = *state;
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    make_dead(fixture);
    int fd = open(dead, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "\xff", 1, offsetof(struct muster_segment, version)), 1);
    close(fd);
    muster_reap(fixture->shm);
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 1);
    assert_int_equal(utimensat(AT_FDCWD, dead, old, 0), 0);
    muster_reap(fixture->shm);
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 0);
    assert_int_equal(fixture_count(fixture->shm, ".lock"), 0);
}

/* ---- where paths are long ---- */

enum {
    DEEP = 940
}; /* bytes of the folder's path: names of segments and locks just fit behind it */
static char deep[MUSTER_SEG_PATH];

static void make_deep(const struct fixture *fixture)
{
    size_t n = (size_t)snprintf(deep, sizeof(deep), "%s", fixture->shm);
    while (n < DEEP) {
        size_t length = DEEP - n - 1 < 200 ? DEEP - n - 1 : 199;
        deep[n] = '/';
        memset(deep + n + 1, 'd', length);
        n += length + 1;
        deep[n] = '\0';
        assert_int_equal(mkdir(deep, 0700), 0);
    }
}

static void leave_deep_segment(const struct fixture *fixture)
{
    struct muster_seg_identity identity;
    struct muster_segment_file file;
    struct muster_err err;
    fixture_identity(fixture, &identity);
    muster_segment_create(&file, deep, &identity, &err);
}

static bool lives_for_another_process(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct muster_found *found;
        size_t n = muster_find_segments(deep, &found);
        _exit(n == 1 && found[0].alive && !found[0].own ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

static void make_old(const char *path)
{
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
}

static void a_deep_folder_is_looked_after_like_any_other(void **state)
{
    const struct fixture *fixture = *state;
    char lock[MUSTER_SEG_PATH + 64];
    make_deep(fixture);
    leave_deep_segment(fixture);
    assert_true(lives_for_another_process());
    muster_reap(deep);
    assert_int_equal(fixture_count(deep, ".seg"), 1);
    fixture_killed_process(leave_deep_segment, fixture);
    snprintf(lock, sizeof(lock), "%s/muster-%u-1-2-3.lock", deep, (unsigned)geteuid());
    close(open(lock, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    make_old(lock);
    muster_reap(deep);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 1);
    assert_int_equal(fixture_count(deep, ".seg"), 1);
    assert_int_equal(fixture_count(deep, ".lock"), 1);
}

static void what_cannot_be_read_in_a_deep_folder_goes_in_the_end(void **state)
{
    const struct fixture *fixture = *state;
    struct muster_found *found;
    make_deep(fixture);
    fixture_killed_process(leave_deep_segment, fixture);
    assert_int_equal(muster_find_segments(deep, &found), 1);
    assert_int_equal(truncate(found[0].path, 100), 0);
    make_old(found[0].path);
    muster_found_free(found, 1);
    muster_reap(deep);
    assert_int_equal(fixture_count(deep, ".seg"), 0);
    assert_int_equal(fixture_count(deep, ".lock"), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* Readers take what the name says for the owner: a number that no user has is nobody's. */
static void a_name_without_a_users_number_is_no_segment(void **state)
{
    const struct fixture *fixture = *state;
    struct muster_found *found;
    make_dead(fixture);
    /* 2^32 + the user, however the directory is read: before and behind the true one. */
    for (unsigned i = 0; i < 8; i++) {
        char path[160];
        snprintf(path, sizeof(path), "%s/muster-%llu-%u-1.seg", shm, (1ull << 32) + geteuid(), i);
        assert_int_equal(link(dead, path), 0);
        if (i == 3) { /* made anew, in the middle */
            char aside[160];
            snprintf(aside, sizeof(aside), "%s/aside", shm);
            assert_int_equal(rename(dead, aside), 0);
            assert_int_equal(rename(aside, dead), 0);
        }
    }
    size_t n = muster_find_segments(shm, &found);
    assert_int_equal(n, 1);
    assert_string_equal(found[0].path, dead);
    muster_found_free(found, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_name_without_a_users_number_is_no_segment),
        TEST(a_look_lets_no_second_reaper_in),
        TEST(what_was_never_written_takes_no_room_on_the_disk),
        TEST(a_child_keeps_nothing_that_its_parent_gave_up),
        TEST(a_segment_that_is_gone_leaves_no_lock),
        TEST(what_cannot_be_read_goes_in_the_end_with_its_lock),
        TEST(another_containers_segment_goes_into_no_directory_of_ours),
        TEST(a_deep_folder_is_looked_after_like_any_other),
        TEST(what_cannot_be_read_in_a_deep_folder_goes_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
