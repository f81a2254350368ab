#include "segment_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pages.h"
#include "segment/reap.h"
#include "segment/segment_reader.h"

static struct muster_segment_file create_ok(const struct fixture *fixture)
{
    struct muster_seg_identity identity;
    struct muster_segment_file file;
    struct muster_err err;
    fixture_identity(fixture, &identity);
    assert_int_equal(muster_segment_create(&file, fixture->shm, &identity, &err),
                     MUSTER_SEGMENT_OK);
    return file;
}

static void drop(struct muster_segment_file *file)
{
    munmap(file->map, sizeof(*file->map));
    if (file->lock_fd >= 0)
        close(file->lock_fd);
}

int __real_posix_fallocate(int fd, off_t offset, off_t len);
int __wrap_posix_fallocate(int fd, off_t offset, off_t len);

static bool promised; /* a file system whose allocations reserve nothing */

int __wrap_posix_fallocate(int fd, off_t offset, off_t len)
{
    return promised ? 0 : __real_posix_fallocate(fd, offset, len);
}

static void every_page_is_there_where_allocation_is_a_promise(void **state)
{
    promised = true;
    struct muster_segment_file file = create_ok(*state);
    promised = false;
    struct stat stat_seg;
    assert_true(file.shared);
    assert_int_equal(stat(file.path, &stat_seg), 0);
    assert_int_equal(stat_seg.st_size, sizeof(struct muster_segment));
    assert_true((size_t)stat_seg.st_blocks * 512 >= sizeof(struct muster_segment));
    drop(&file);
}

static void a_new_segment_can_be_read(void **state)
{
    struct muster_segment_file file = create_ok(*state);
    struct muster_segment *copy;
    struct muster_err err;
    struct stat stat_seg, stat_lock;
    unsigned unstable;
    assert_true(file.shared);
    assert_int_equal(stat(file.path, &stat_seg), 0);
    assert_int_equal(stat(file.lock_path, &stat_lock), 0);
    assert_int_equal(stat_seg.st_mode & 0777, 0600);
    assert_int_equal(stat_lock.st_mode & 0777, 0600);
    assert_int_equal(stat_seg.st_size, sizeof(struct muster_segment));
    assert_true((size_t)stat_seg.st_blocks * 512 >= sizeof(struct muster_segment));
    assert_int_equal(muster_segment_read_live(file.path, &copy, &unstable, &err), 0);
    assert_int_equal(unstable, 0);
    assert_int_equal(copy->identity.pid, getpid());
    assert_int_equal(copy->comm[MUSTER_SEG_COMMS].uid, MUSTER_SEG_OTHER_UID);
    free(copy);
    drop(&file);
}

static void a_second_copy_of_the_library_is_told(void **state)
{
    struct muster_segment_file file = create_ok(*state), second;
    struct muster_seg_identity identity;
    struct muster_err err;
    fixture_identity(*state, &identity);
    assert_int_equal(
        muster_segment_create(&second, ((struct fixture *)*state)->shm, &identity, &err),
        MUSTER_SEGMENT_DUPLICATE);
    assert_non_null(strstr(err.text, "another copy"));
    assert_int_equal(access(file.path, F_OK), 0);
    drop(&file);
}

/* exec: the map and the lock are gone, the pid stays, and no log says that the names are taken. */
static void two_programs_of_one_process_are_both_kept(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file before = create_ok(fixture);
    drop(&before);
    struct muster_segment_file after = create_ok(fixture);
    struct muster_found *found;
    struct muster_err err;
    assert_int_equal(muster_segment_archive(&after, &err), 0);
    size_t n = muster_find_segments(fixture->shm, &found);
    assert_int_equal(n, 1);
    assert_int_equal(muster_reap_one(found[0].path, &err), 0);
    muster_found_free(found, n);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 2);
    drop(&after);
}

/* The lock must survive whatever the same process does with segments. */
static void others_see_that_the_owner_lives(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = create_ok(fixture);
    struct muster_found *found;
    muster_reap(fixture->shm);
    size_t n = muster_find_segments(fixture->shm, &found);
    assert_int_equal(n, 1);
    assert_true(found[0].alive && found[0].own);
    muster_found_free(found, n);
    pid_t pid = fork();
    if (pid == 0) {
        n = muster_find_segments(fixture->shm, &found);
        _exit(n == 1 && found[0].alive && !found[0].own ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    drop(&file);
}

static void expect_anonymous(const char *dir, const struct fixture *fixture, const char *why)
{
    struct muster_seg_identity identity;
    struct muster_segment_file file;
    struct muster_err err = {""};
    fixture_identity(fixture, &identity);
    assert_int_equal(muster_segment_create(&file, dir, &identity, &err), MUSTER_SEGMENT_OK);
    assert_false(file.shared);
    assert_int_equal(file.lock_fd, -1);
    assert_string_equal(file.path, "");
    assert_int_equal(file.map->magic, MUSTER_SEG_MAGIC);
    if (!strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
    drop(&file);
}

static void a_disk_is_no_place_for_segments(void **state)
{
    struct fixture *fixture = *state;
    expect_anonymous("/proc/self", fixture, "not a tmpfs");
    expect_anonymous("/dev/shm/there-is-no-such", fixture, "No such file");
    expect_anonymous("/dev/null", fixture, "Not a directory");
}

static void a_link_of_another_user_is_refused(void **state)
{
    struct fixture *fixture = *state;
    char link[128];
    if (geteuid() != 0)
        skip();
    fixture_path(link, sizeof(link), fixture->run, "link");
    assert_int_equal(symlink(fixture->shm, link), 0);
    assert_int_equal(lchown(link, 12345, 12345), 0);
    expect_anonymous(link, fixture, "symbolic link of another user");
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 0);
}

static void a_file_of_another_user_is_left_alone(void **state)
{
    struct fixture *fixture = *state;
    if (geteuid() != 0)
        skip();
    struct muster_segment_file file = create_ok(fixture);
    char path[MUSTER_SEG_PATH];
    strcpy(path, file.path);
    unlink(file.lock_path);
    drop(&file);
    assert_int_equal(chown(path, 12345, 12345), 0);
    expect_anonymous(fixture->shm, fixture, "another user");
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(fixture_count(fixture->shm, ".lock"), 0);
}

static void a_link_in_place_of_the_lock_is_not_followed(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = create_ok(fixture);
    char target[128], lock[MUSTER_SEG_PATH];
    strcpy(lock, file.lock_path);
    unlink(file.path);
    unlink(lock);
    drop(&file);
    fixture_path(target, sizeof(target), fixture->run, "target");
    assert_int_equal(symlink(target, lock), 0);
    expect_anonymous(fixture->shm, fixture, "no file stands there");
    assert_int_not_equal(access(target, F_OK), 0);
}

/* Needs the right to mount; without it nothing is shown here. */
/* Writing beyond the limit would end the job by SIGXFSZ. */
static void a_small_file_size_limit_costs_the_live_view_only(void **state)
{
    const struct fixture *fixture = *state;
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 100 << 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    expect_anonymous(fixture->shm, fixture, "File too large");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static void a_full_tmpfs_costs_the_live_view_only(void **state)
{
    struct fixture *fixture = *state;
    if (mount("none", fixture->shm, "tmpfs", 0, "size=4m,mode=700") != 0)
        skip();
    expect_anonymous(fixture->shm, fixture, "too full");
    assert_int_equal(fixture_count(fixture->shm, ".lock"), 0);
    assert_int_equal(umount(fixture->shm), 0);
    assert_int_equal(mount("none", fixture->shm, "tmpfs", 0, "size=64m,nr_inodes=2"), 0);
    expect_anonymous(fixture->shm, fixture, "No space left");
    assert_int_equal(fixture_count(fixture->shm, ".lock"), 0);
    assert_int_equal(umount(fixture->shm), 0);
}

static void archiving_moves_it_to_the_run_directory(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = create_ok(fixture);
    struct muster_segment *copy;
    struct muster_err err;
    char path[256], name[64];
    fixture_comm(file.map);
    assert_int_equal(muster_segment_archive(&file, &err), 0);
    snprintf(name, sizeof(name), "host-%d.seg", (int)getpid());
    assert_int_equal(
        muster_segment_read(fixture_path(path, sizeof(path), fixture->run, name), &copy, &err), 0);
    assert_string_equal(copy->comm[0].name, "dp");
    assert_memory_equal(copy, file.map, sizeof(*copy));
    free(copy);
    struct stat kept;
    assert_int_equal(stat(path, &kept), 0);
    assert_int_equal(kept.st_size, sizeof(*copy));
    assert_true(kept.st_blocks * 512 < kept.st_size / 4); /* zeros take no room */
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 0);
    assert_int_equal(fixture_count(fixture->shm, ".lock"), 0);
    assert_int_equal(fixture_count(fixture->run, ""), 3); /* with . and .. */
    drop(&file);
}

static uint64_t bytes_of_used_pages(const void *memory, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t used = 0;
    for (size_t at = 0; at < bytes; at += page) {
        size_t n = bytes - at < page ? bytes - at : page;
        used += muster_is_zero((const char *)memory + at, n) ? 0 : page;
    }
    return used;
}

/* On a tmpfs, which counts by the page. */
static void only_pages_that_hold_something_are_written_at_exit(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = create_ok(fixture);
    struct muster_segment *map = file.map, *copy;
    struct muster_err err;
    struct stat kept;
    char dir[200], path[256], name[64];
    snprintf(map->identity.run_dir, sizeof(map->identity.run_dir), "%s",
             fixture_path(dir, sizeof(dir), fixture->shm, "kept"));
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i += MUSTER_SEG_ROWS / 8)
        map->row[i].count = 1;
    map->ring[MUSTER_SEG_RING - 1].number = 7;
    assert_int_equal(muster_segment_archive(&file, &err), 0);
    snprintf(name, sizeof(name), "host-%d.seg", (int)getpid());
    assert_int_equal(stat(fixture_path(path, sizeof(path), dir, name), &kept), 0);
    assert_int_equal(kept.st_size, sizeof(*map));
    assert_int_equal(kept.st_blocks * 512, bytes_of_used_pages(map, sizeof(*map)));
    assert_int_equal(muster_segment_read(path, &copy, &err), 0);
    assert_memory_equal(copy, map, sizeof(*map));
    free(copy);
    drop(&file);
}

static void a_failed_archive_keeps_the_segment(void **state)
{
    struct muster_segment_file file = create_ok(*state);
    struct muster_err err;
    strcpy(file.map->identity.run_dir, "/dev/null/no");
    assert_int_equal(muster_segment_archive(&file, &err), -1);
    assert_non_null(strstr(err.text, "/dev/null/no"));
    assert_int_equal(access(file.path, F_OK), 0);
    drop(&file);
}

static void a_forked_child_archives_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = create_ok(fixture);
    pid_t pid = fork();
    if (pid == 0)
        _exit(muster_segment_archive(&file, NULL) == -1 ? 0 : 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(access(file.path, F_OK), 0);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 0);
    drop(&file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_segment_can_be_read),
        TEST(every_page_is_there_where_allocation_is_a_promise),
        TEST(a_second_copy_of_the_library_is_told),
        TEST(two_programs_of_one_process_are_both_kept),
        TEST(others_see_that_the_owner_lives),
        TEST(a_disk_is_no_place_for_segments),
        TEST(a_link_of_another_user_is_refused),
        TEST(a_file_of_another_user_is_left_alone),
        TEST(a_link_in_place_of_the_lock_is_not_followed),
        TEST(a_small_file_size_limit_costs_the_live_view_only),
        TEST(a_full_tmpfs_costs_the_live_view_only),
        TEST(archiving_moves_it_to_the_run_directory),
        TEST(only_pages_that_hold_something_are_written_at_exit),
        TEST(a_failed_archive_keeps_the_segment),
        TEST(a_forked_child_archives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
