#include "segment_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "oplog/log_format.h"
#include "oplog/log_reader.h"
#include "oplog/log_writer.h"

enum { LONG_MS = 60000, BIG = 256 << 20 };

static struct muster_segment_file open_segment(const struct fixture *fixture, const char *run_dir)
{
    struct muster_seg_identity identity;
    struct muster_segment_file file;
    fixture_identity(fixture, &identity);
    if (run_dir)
        snprintf(identity.run_dir, sizeof(identity.run_dir), "%s", run_dir);
    assert_int_equal(muster_segment_create(&file, fixture->shm, &identity, NULL),
                     MUSTER_SEGMENT_OK);
    assert_true(file.shared);
    fixture_comm(file.map);
    return file;
}

static struct muster_log_writer *start(struct muster_segment_file *file, uint64_t max_bytes)
{
    struct muster_log_writer *writer;
    struct muster_err err;
    if (muster_log_writer_start(&writer, file, &(struct muster_log_options){.max_bytes = max_bytes},
                                &err) != 0)
        fail_msg("%s", err.text);
    return writer;
}

static void drop(struct muster_segment_file *file)
{
    munmap(file->map, sizeof(*file->map));
    close(file->lock_fd);
}

static void read_log(const struct muster_segment_file *file, struct muster_log *log)
{
    char path[MUSTER_SEG_PATH + 200];
    struct muster_err err;
    snprintf(path, sizeof(path), "%s/%s.log", file->map->identity.run_dir,
             file->map->identity.file_stem);
    if (muster_log_read(path, log, &err) != 0)
        fail_msg("%s", err.text);
}

static void put_all(struct muster_log_writer *writer, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++) {
        struct muster_op op = fixture_op(n);
        muster_log_put(writer, &op);
    }
}

/* The thread makes it. */
static void wait_for_log(const struct muster_segment_file *file)
{
    char path[MUSTER_SEG_PATH + 200];
    struct stat made;
    snprintf(path, sizeof(path), "%s/%s.log", file->map->identity.run_dir,
             file->map->identity.file_stem);
    while (stat(path, &made) != 0 || made.st_size == 0)
        usleep(1000);
}

/* In portions that the queue holds, each only when the log shows the one before: nothing is lost
 * however slow the machine is. */
static void put_without_loss(const struct muster_segment_file *file,
                             struct muster_log_writer *writer, uint64_t n)
{
    enum { PORTION = 5000 };
    wait_for_log(file);
    for (uint64_t from = 0; from < n; from += PORTION) {
        uint64_t to = from + PORTION < n ? from + PORTION : n, seen = 0;
        put_all(writer, from, to);
        while (seen < to) {
            struct muster_log log;
            read_log(file, &log);
            seen = log.next_op;
            muster_log_free(&log);
        }
    }
}

static void everything_put_is_in_the_log_and_the_segment_beside_it(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = open_segment(fixture, NULL);
    struct muster_log_writer *writer = start(&file, BIG);
    struct muster_log log;
    fixture_slot(file.map, 3, 5000, MUSTER_SLOT_LAUNCHED);
    fixture_slot(file.map, 4, 5001, MUSTER_SLOT_CALLED);
    put_all(writer, 0, 5000);
    file.map->identity.rank = 77; /* known late */
    assert_true(muster_log_writer_finish(writer, LONG_MS));
    read_log(&file, &log);
    assert_int_equal(log.ops, 5000);
    for (uint64_t n = 0; n < 5000; n++) {
        struct muster_op expected = fixture_op(n);
        assert_memory_equal(&log.op[n], &expected, sizeof(expected));
    }
    assert_int_equal(log.identity.rank, 77);
    assert_int_equal(atomic_load(&log.image->slot_state[3]), MUSTER_SLOT_LAUNCHED);
    assert_int_equal(atomic_load(&log.image->slot_state[4]), MUSTER_SLOT_CALLED);
    assert_int_equal(log.image->slot[3].number, 5000);
    assert_int_equal(log.image->slot[4].number, 5001);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 1);
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 0);
    muster_log_free(&log);
    drop(&file);
}

static void the_last_calls_are_in_the_log(void **state)
{
    struct muster_segment_file file = open_segment(*state, NULL);
    struct muster_seg_comm *comm = &file.map->comm[0];
    struct muster_log log;
    for (uint64_t n = 0; n < 20; n++)
        comm->call[n % MUSTER_SEG_CALLS] =
            (struct muster_seg_call){100 + n, -1, MUSTER_FUNC_ALL_REDUCE, 0, (uint16_t)n};
    atomic_store(&comm->calls, 20);
    assert_true(muster_log_writer_finish(start(&file, BIG), LONG_MS));
    read_log(&file, &log);
    assert_int_equal(atomic_load(&log.image->comm[0].calls), 20);
    assert_memory_equal(log.image->comm[0].call, comm->call, sizeof(comm->call));
    muster_log_free(&log);
    drop(&file);
}

static void a_full_log_gives_up_the_oldest(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = open_segment(fixture, NULL);
    uint64_t max_bytes = 3 * MUSTER_LOG_SLOT_BYTES, n = 60000;
    struct muster_log_writer *writer = start(&file, max_bytes);
    struct muster_log log;
    struct stat size;
    char path[MUSTER_SEG_PATH + 200];
    put_without_loss(&file, writer, n);
    muster_log_writer_finish(writer, LONG_MS);
    snprintf(path, sizeof(path), "%s/%s.log", fixture->run, file.map->identity.file_stem);
    assert_int_equal(stat(path, &size), 0);
    assert_true((uint64_t)size.st_size <= max_bytes + MUSTER_LOG_HEADER_BYTES);
    read_log(&file, &log);
    assert_true(log.ops > 5000);
    assert_int_equal(log.next_op, n);
    assert_int_equal(log.damaged, 0);
    assert_int_equal(log.comms, 1);
    assert_string_equal(log.image->comm[0].name, "dp"); /* told again as the log went round */
    struct muster_op last = fixture_op(n - 1);
    assert_memory_equal(&log.op[log.ops - 1], &last, sizeof(last));
    uint64_t overwritten = atomic_load(&file.map->log_overwritten);
    uint64_t lost = atomic_load(&file.map->lost_log);
    assert_true(overwritten > 0);
    assert_int_equal(log.ops_missing, overwritten + lost);
    muster_log_free(&log);
    drop(&file);
}

static void without_a_log_the_totals_are_kept(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = open_segment(fixture, NULL);
    struct muster_log_writer *writer = start(&file, 0);
    struct muster_op op = fixture_op(0);
    assert_false(muster_log_put(writer, &op));
    assert_true(muster_log_writer_finish(writer, LONG_MS));
    assert_int_equal(atomic_load(&file.map->lost_log), 0);
    assert_int_equal(fixture_count(fixture->run, ".log"), 0);
    assert_int_equal(fixture_count(fixture->run, ".seg"), 1);
    drop(&file);
}

static void a_taken_name_gets_a_number(void **state)
{
    struct fixture *fixture = *state;
    struct muster_segment_file file = open_segment(fixture, NULL);
    char path[MUSTER_SEG_PATH + 200], stem[160];
    snprintf(stem, sizeof(stem), "host-%d.2", (int)getpid());
    snprintf(path, sizeof(path), "%s/host-%d.log", fixture->run, (int)getpid());
    FILE *old = fopen(path, "w");
    assert_non_null(old);
    fputs("of somebody before", old);
    fclose(old);
    assert_true(muster_log_writer_finish(start(&file, BIG), LONG_MS));
    assert_string_equal(file.map->identity.file_stem, stem);
    struct stat kept;
    assert_int_equal(stat(path, &kept), 0);
    assert_int_equal(kept.st_size, strlen("of somebody before"));
    drop(&file);
}

static void missing_directories_are_made(void **state)
{
    struct fixture *fixture = *state;
    char dir[256];
    struct stat made;
    fixture_path(dir, sizeof(dir), fixture->run, "a/b/c");
    struct muster_segment_file file = open_segment(fixture, dir);
    assert_true(muster_log_writer_finish(start(&file, BIG), LONG_MS));
    assert_int_equal(stat(dir, &made), 0);
    assert_int_equal(made.st_mode & 0777, 0700);
    assert_int_equal(fixture_count(dir, ".log"), 1);
    assert_int_equal(fixture_count(dir, ".seg"), 1);
    drop(&file);
}

static void an_unwritable_run_directory_moves_under_tmpdir(void **state)
{
    struct fixture *fixture = *state;
    char there[256];
    setenv("TMPDIR", fixture->run, 1);
    struct muster_segment_file file = open_segment(fixture, "/proc/nowhere/muster-5");
    assert_true(muster_log_writer_finish(start(&file, BIG), LONG_MS));
    fixture_path(there, sizeof(there), fixture->run, "muster-5");
    assert_string_equal(file.map->identity.run_dir, there);
    assert_int_equal(fixture_count(there, ".log"), 1);
    assert_int_equal(fixture_count(there, ".seg"), 1);
    drop(&file);
    setenv("TMPDIR", "/proc", 1);
    struct muster_log_writer *writer;
    file = open_segment(fixture, "/proc/nowhere/muster-5");
    writer = start(&file, BIG);
    assert_false(muster_log_writer_finish(writer, LONG_MS));
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 1);
    unsetenv("TMPDIR");
    drop(&file);
}

/* Needs root, who can give a directory away. */
static void a_directory_that_another_user_put_there_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct muster_log_writer *writer;
    char theirs[256], mine[256], path[256];
    fixture_path(theirs, sizeof(theirs), fixture->run, "muster-5");
    fixture_path(mine, sizeof(mine), fixture->run, "tmp");
    if (mkdir(theirs, 0777) != 0 || mkdir(mine, 0700) != 0 || chown(theirs, 12345, 12345) != 0)
        skip();
    setenv("TMPDIR", mine, 1);
    struct muster_segment_file file = open_segment(fixture, theirs);
    assert_int_equal(muster_log_writer_start(&writer, &file,
                                             &(struct muster_log_options){.max_bytes = BIG}, NULL),
                     0);
    assert_true(muster_log_writer_finish(writer, LONG_MS));
    assert_int_equal(fixture_count(theirs, ".log"), 0);
    assert_int_equal(fixture_count(fixture_path(path, sizeof(path), mine, "muster-5"), ".log"), 1);
    drop(&file);
    /* Where the user named it, it is theirs to give. */
    file = open_segment(fixture, theirs);
    assert_int_equal(
        muster_log_writer_start(
            &writer, &file, &(struct muster_log_options){.max_bytes = BIG, .named = true}, NULL),
        0);
    assert_true(muster_log_writer_finish(writer, LONG_MS));
    assert_int_equal(fixture_count(theirs, ".log"), 1);
    unsetenv("TMPDIR");
    drop(&file);
}

/* Needs the right to mount. */
static void a_full_disk_is_counted_and_survived(void **state)
{
    struct fixture *fixture = *state;
    struct muster_log log;
    if (mount("none", fixture->run, "tmpfs", 0, "size=64k,mode=700") != 0)
        skip();
    struct muster_segment_file file = open_segment(fixture, NULL);
    struct muster_log_writer *writer = start(&file, BIG);
    put_all(writer, 0, 30000);
    assert_false(muster_log_writer_finish(writer, LONG_MS));
    read_log(&file, &log);
    assert_true(log.ops > 0);
    assert_int_equal(log.ops + atomic_load(&file.map->lost_log), 30000);
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 1); /* not even the segment fitted */
    muster_log_free(&log);
    drop(&file);
    assert_int_equal(umount(fixture->run), 0);
}

static void a_forked_child_neither_waits_nor_writes(void **state)
{
    struct muster_segment_file file = open_segment(*state, NULL);
    struct muster_log_writer *writer = start(&file, BIG);
    pid_t pid = fork();
    if (pid == 0)
        _exit(muster_log_writer_finish(writer, LONG_MS));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(muster_log_writer_finish(writer, LONG_MS));
    assert_false(muster_log_writer_finish(NULL, LONG_MS));
    drop(&file);
}

static void die_with_a_segment(const struct fixture *fixture)
{
    struct muster_segment_file file = open_segment(fixture, NULL);
    struct muster_op op = fixture_op(0);
    fixture_retire(file.map, &op);
}

static void die_without_a_run_directory(const struct fixture *fixture)
{
    open_segment(fixture, "/tmp/muster-there-is-none/x");
}

static void the_next_process_reaps_the_dead(void **state)
{
    struct fixture *fixture = *state;
    char name[64], path[256];
    pid_t dead = fixture_killed_process(die_with_a_segment, fixture);
    fixture_killed_process(die_without_a_run_directory, fixture);
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 2);
    struct muster_segment_file file = open_segment(fixture, NULL);
    assert_true(muster_log_writer_finish(start(&file, BIG), LONG_MS));
    snprintf(name, sizeof(name), "host-%d.seg", (int)dead);
    assert_int_equal(access(fixture_path(path, sizeof(path), fixture->run, name), F_OK), 0);
    /* The one without a place stays, for seven days. */
    assert_int_equal(fixture_count(fixture->shm, ".seg"), 1);
    drop(&file);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(everything_put_is_in_the_log_and_the_segment_beside_it),
        TEST(the_last_calls_are_in_the_log),
        TEST(a_full_log_gives_up_the_oldest),
        TEST(without_a_log_the_totals_are_kept),
        TEST(a_taken_name_gets_a_number),
        TEST(missing_directories_are_made),
        TEST(an_unwritable_run_directory_moves_under_tmpdir),
        TEST(a_directory_that_another_user_put_there_is_refused),
        TEST(a_full_disk_is_counted_and_survived),
        TEST(a_forked_child_neither_waits_nor_writes),
        TEST(the_next_process_reaps_the_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
