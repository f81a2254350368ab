/* Logs on disk that are larger than what was written to them. */
#include "segment_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "oplog/log_encode.h"
#include "oplog/log_reader.h"
#include "oplog/log_tail.h"

enum { OPS = 9, MIB = 1 << 20 };

static const struct muster_log_comm dp = {
    .uid = 1, .id = 0x1122334455667788, .rank = 2, .nranks = 4, .nnodes = 1, .name = "dp"};

static struct muster_log_encoder encoder;

struct file {
    char path[64];
    int fd;
    uint64_t bytes;
};

static void put_header(struct file *file)
{
    struct muster_log_header header;
    memset(&header, 0, sizeof header);
    header.magic = MUSTER_LOG_MAGIC;
    header.version = MUSTER_LOG_VERSION;
    header.bytes = sizeof header;
    header.slot_bytes = MUSTER_LOG_SLOT_BYTES;
    header.segment_version = MUSTER_SEG_VERSION;
    header.identity.pid = 4711;
    strcpy(header.identity.run_dir, "/run/dir");
    strcpy(header.identity.file_stem, "host-4711");
    header.crc = muster_log_header_crc(&header);
    assert_int_equal(pwrite(file->fd, &header, sizeof header, 0), sizeof header);
}

/* A frame of OPS operations, the first of a slot. */
static void put_frame(struct file *file, uint64_t at, uint32_t sequence)
{
    muster_log_encode_begin(&encoder, MUSTER_LOG_FRAME_BYTES);
    for (uint64_t n = sequence * OPS; n < (sequence + 1) * OPS; n++) {
        struct muster_op op = fixture_op(n);
        assert_true(muster_log_encode_op(&encoder, &dp, &op, n));
    }
    size_t bytes = muster_log_encode_end(&encoder, sequence, sequence);
    assert_int_equal(pwrite(file->fd, encoder.buffer, bytes, (off_t)at), bytes);
}

static struct file make_log(void)
{
    struct file file = {.path = "/tmp/muster-load-XXXXXX"};
    file.fd = mkstemp(file.path);
    assert_true(file.fd >= 0);
    put_header(&file);
    put_frame(&file, MUSTER_LOG_HEADER_BYTES, 0);
    return file;
}

static void remove_log(struct file *file)
{
    close(file->fd);
    unlink(file->path);
}

static void read_log(const struct file *file, struct muster_log *log)
{
    struct muster_err err;
    if (muster_log_read(file->path, log, &err) != 0)
        fail_msg("%s", err.text);
}

static long most_kib(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss;
}

static void a_sparse_terabyte_costs_what_was_written(void **state)
{
    (void)state;
    struct file file = make_log();
    struct muster_log log;
    long before = most_kib();
    put_frame(&file, MUSTER_LOG_HEADER_BYTES + (600ull << 30), 1); /* a whole number of slots */
    if (ftruncate(file.fd, 1ll << 40) != 0)
        skip(); /* a file system with a smaller limit */
    read_log(&file, &log);
    assert_int_equal(log.ops, 2 * OPS);
    assert_int_equal(log.ops_missing, 0);
    assert_int_equal(log.damaged, 0);
    assert_in_range(most_kib() - before, 0, 64 * 1024);
    muster_log_free(&log);
    remove_log(&file);
}

static unsigned reads;

ssize_t __real_pread(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at);

ssize_t __wrap_pread(int fd, void *to, size_t bytes, off_t at)
{
    reads++;
    return __real_pread(fd, to, bytes, at);
}

static bool count_ops(void *to, const struct muster_op *op, size_t n)
{
    (void)op;
    *(size_t *)to += n;
    return true;
}

/* The operations that a look at a log finds which somebody still writes, in at most 50 reads. */
static size_t look_at(const struct file *file, struct muster_log_tail *tail)
{
    struct muster_err err;
    size_t ops = 0;
    reads = 0;
    if (muster_log_tail_read(tail, file->path, count_ops, &ops, &err) != 0)
        fail_msg("%s", err.text);
    assert_in_range(reads, 1, 50);
    return ops;
}

static void a_look_at_a_sparse_terabyte_costs_what_was_written(void **state)
{
    (void)state;
    struct file file = make_log();
    struct muster_log_tail tail = {0};
    if (ftruncate(file.fd, 1ll << 40) != 0)
        skip(); /* a file system with a smaller limit */
    assert_int_equal(look_at(&file, &tail), OPS);
    /* Behind the hole: not where the log goes on, but all that is new. */
    put_frame(&file, MUSTER_LOG_HEADER_BYTES + (600ull << 30), 1);
    assert_int_equal(look_at(&file, &tail), OPS);
    assert_int_equal(look_at(&file, &tail), 0);
    muster_log_tail_free(&tail);
    remove_log(&file);
}

static void slots_that_only_seem_newer_do_not_keep_a_look(void **state)
{
    (void)state;
    struct file file = make_log();
    struct muster_log_tail tail = {0};
    struct muster_log_frame seems = {.magic = MUSTER_LOG_FRAME_MAGIC, .sequence = 9, .length = 64};
    assert_int_equal(look_at(&file, &tail), OPS);
    if (ftruncate(file.fd, 1ll << 40) != 0)
        skip(); /* a file system with a smaller limit */
    static const uint64_t places[] = {0, MUSTER_LOG_SLOT_BYTES, 100ull << 30, 200ull << 30};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(
            pwrite(file.fd, &seems, sizeof seems, (off_t)(MUSTER_LOG_HEADER_BYTES + places[i])),
            sizeof seems);
    assert_int_equal(look_at(&file, &tail), 0);
    muster_log_tail_free(&tail);
    remove_log(&file);
}

static void zeros_and_rubbish_behind_a_log_take_no_memory(void **state)
{
    (void)state;
    struct file file = make_log();
    struct muster_log log;
    char *rubbish = malloc(MIB);
    memset(rubbish, 'x', MIB);
    uint64_t at = MUSTER_LOG_HEADER_BYTES + MUSTER_LOG_SLOT_BYTES;
    for (unsigned i = 0; i < 96; i++, at += MIB) {
        memset(rubbish, i < 48 ? 0 : 'x', MIB);
        assert_int_equal(pwrite(file.fd, rubbish, MIB, (off_t)at), MIB);
    }
    free(rubbish);
    put_frame(&file, at, 1);
    long before = most_kib();
    read_log(&file, &log);
    assert_int_equal(log.ops, 2 * OPS);
    assert_int_equal(log.damaged, 48 * (MIB / MUSTER_LOG_SLOT_BYTES));
    assert_int_equal(log.damaged_at, MUSTER_LOG_HEADER_BYTES + MUSTER_LOG_SLOT_BYTES + 48ull * MIB);
    assert_in_range(most_kib() - before, 0, 32 * 1024);
    muster_log_free(&log);
    remove_log(&file);
}

static void damage_behind_a_hole_is_placed_in_the_file(void **state)
{
    (void)state;
    struct file file = make_log();
    struct muster_log log;
    uint64_t at = MUSTER_LOG_HEADER_BYTES + 1000ull * MUSTER_LOG_SLOT_BYTES;
    put_frame(&file, at, 1);
    assert_int_equal(pwrite(file.fd, "!", 1, (off_t)at + 60), 1); /* in its payload */
    assert_int_equal(ftruncate(file.fd, (off_t)at + 10 * MUSTER_LOG_SLOT_BYTES), 0);
    read_log(&file, &log);
    assert_int_equal(log.ops, OPS);
    assert_int_equal(log.damaged, 1);
    assert_int_equal(log.damaged_at, at);
    muster_log_free(&log);
    remove_log(&file);
}

struct growing {
    struct file *file;
    uint64_t ops;
    uint32_t frames;
};

/* Its writer is quicker than the reader. */
static bool take_and_grow(void *to, const struct muster_op *op, size_t n)
{
    struct growing *growing = to;
    (void)op;
    growing->ops += n;
    growing->frames++;
    put_frame(growing->file,
              MUSTER_LOG_HEADER_BYTES + (uint64_t)growing->frames * MUSTER_LOG_SLOT_BYTES,
              growing->frames);
    return growing->frames < 100;
}

static void a_log_that_grows_ends_where_it_ended_when_it_was_opened(void **state)
{
    (void)state;
    struct file file = make_log();
    struct growing growing = {.file = &file};
    struct muster_err err;
    assert_int_equal(muster_log_read_ops(file.path, UINT64_MAX, take_and_grow, &growing, &err), 0);
    assert_int_equal(growing.ops, OPS);
    assert_int_equal(growing.frames, 1);
    remove_log(&file);
}

static void a_log_cut_off_in_its_header_is_refused(void **state)
{
    (void)state;
    struct file file = make_log();
    struct muster_log log;
    struct muster_err err;
    assert_int_equal(ftruncate(file.fd, 100), 0);
    assert_int_equal(muster_log_read(file.path, &log, &err), -1);
    assert_non_null(strstr(err.text, "100 bytes are too few"));
    remove_log(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sparse_terabyte_costs_what_was_written),
        cmocka_unit_test(a_look_at_a_sparse_terabyte_costs_what_was_written),
        cmocka_unit_test(slots_that_only_seem_newer_do_not_keep_a_look),
        cmocka_unit_test(zeros_and_rubbish_behind_a_log_take_no_memory),
        cmocka_unit_test(damage_behind_a_hole_is_placed_in_the_file),
        cmocka_unit_test(a_log_that_grows_ends_where_it_ended_when_it_was_opened),
        cmocka_unit_test(a_log_cut_off_in_its_header_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
