#include "segment_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segment/image.h"
#include "segment/segment_reader.h"
#include "segment/segment_sparse.h"
#include "segment/seqlock.h"
#include "segment/totals.h"

static struct muster_segment *fresh(void **state)
{
    struct muster_seg_identity identity;
    struct muster_segment *segment = aligned_alloc(64, sizeof(*segment));
    memset(segment, 0, sizeof(*segment));
    fixture_identity(*state, &identity);
    muster_segment_init(segment, &identity);
    fixture_comm(segment);
    return segment;
}

static void expect_refused(const struct muster_segment *segment, size_t bytes, const char *why)
{
    struct muster_segment *copy;
    struct muster_err err;
    assert_int_equal(muster_segment_parse("x.seg", segment, bytes, &copy, &err), -1);
    assert_non_null(strstr(err.text, "x.seg"));
    if (!strstr(err.text, why))
        fail_msg("\"%s\" does not say \"%s\"", err.text, why);
}

static void foreign_segments_are_refused_in_words(void **state)
{
    struct muster_segment *segment = fresh(state);
    size_t bytes = sizeof(*segment);
    expect_refused(segment, 0, "0 bytes are too few");
    expect_refused(segment, bytes - 1, "cut short");
    segment->version = 99;
    expect_refused(segment, bytes, "segment format 99, this muster reads 7");
    segment->version = 3;
    expect_refused(segment, bytes, "segment format 3");
    segment->version = 0;
    expect_refused(segment, bytes, "segment format 0");
    segment->version = MUSTER_SEG_VERSION;
    segment->magic = 0;
    expect_refused(segment, bytes, "not finished being created");
    segment->magic = 0x464c457f;
    expect_refused(segment, bytes, "not a muster segment");
    segment->magic = MUSTER_SEG_MAGIC;
    strcpy(segment->identity.file_stem, "../../etc/passwd");
    expect_refused(segment, bytes, "no file name");
    strcpy(segment->identity.file_stem, "x");
    strcpy(segment->identity.run_dir, "relative");
    expect_refused(segment, bytes, "not absolute");
    free(segment);
}

/* Each size by itself: another build may differ in any one of them. */
static void each_size_of_another_layout_is_refused(void **state)
{
    struct muster_segment *segment = fresh(state);
    uint32_t *sizes[] = {&segment->size,      &segment->header_bytes, &segment->comm_bytes,
                         &segment->row_bytes, &segment->net_bytes,    &segment->slot_bytes,
                         &segment->op_bytes};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int by = -64; by <= 64; by += 128) {
            *sizes[i] += (uint32_t)by;
            expect_refused(segment, sizeof(*segment), "another layout");
            *sizes[i] -= (uint32_t)by;
        }
    free(segment);
}

static void a_segment_cut_off_anywhere_is_refused(void **state)
{
    struct muster_segment *segment = fresh(state), *copy;
    struct muster_err err;
    for (size_t bytes = 0; bytes < sizeof(*segment); bytes += bytes < 512 ? 1 : 4093) {
        void *part = malloc(bytes ? bytes : 1);
        memcpy(part, segment, bytes);
        assert_int_equal(muster_segment_parse("x", part, bytes, &copy, &err), -1);
        free(part);
    }
    free(segment);
}

/* 0xff everywhere behind the strides: nothing may come out that indexes or prints badly. */
static void what_is_out_of_range_becomes_unknown(void **state)
{
    struct muster_segment *segment = fresh(state), *copy;
    struct muster_err err;
    size_t from = offsetof(struct muster_segment, heartbeat_mono_ns);
    memset((char *)segment + from, 0xff, sizeof(*segment) - from);
    memset(segment->identity.hostname, '\n', sizeof(segment->identity.hostname));
    memset(segment->identity.recorded_by, '\033', sizeof(segment->identity.recorded_by));
    assert_int_equal(muster_segment_parse("x", segment, sizeof(*segment), &copy, &err), 0);
    assert_int_equal(strlen(copy->identity.hostname), sizeof(copy->identity.hostname) - 1);
    assert_null(strchr(copy->identity.hostname, '\n'));
    assert_int_equal(strlen(copy->identity.recorded_by), sizeof(copy->identity.recorded_by) - 1);
    assert_null(strchr(copy->identity.recorded_by, '\033'));
    assert_true(strlen(copy->comm[0].name) < MUSTER_SEG_NAME);
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        assert_true(copy->row[i].func < MUSTER_FUNCS && copy->row[i].algo < MUSTER_ALGOS &&
                    copy->row[i].proto < MUSTER_PROTOS);
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++) {
        assert_int_equal(atomic_load(&copy->slot_state[i]), 0);
        assert_true(copy->slot[i].func < MUSTER_FUNCS && copy->slot[i].algo < MUSTER_ALGOS);
    }
    for (unsigned i = 0; i < MUSTER_SEG_RING; i++)
        assert_true(copy->ring[i].source < MUSTER_SOURCES);
    assert_int_equal(atomic_load(&copy->exit_state), MUSTER_EXIT_OPEN);
    assert_int_equal(atomic_load(&copy->policy.state), MUSTER_POLICY_NONE);
    for (unsigned i = 0; i < MUSTER_SEG_RULES; i++)
        assert_true(strlen(copy->policy.rule[i].name) < MUSTER_SEG_NAME);
    muster_rows_undo(copy);
    free(copy);
    free(segment);
}

static void files_that_are_none_are_errors(void **state)
{
    struct muster_segment *copy;
    struct muster_err err;
    unsigned unstable;
    char fifo[256];
    fixture_path(fifo, sizeof(fifo), ((struct fixture *)*state)->run, "fifo.seg");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(muster_segment_read(fifo, &copy, &err), -1);
    assert_int_equal(muster_segment_read("/nowhere", &copy, &err), -1);
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(muster_segment_read_live("/nowhere", &copy, &unstable, &err), -1);
    assert_int_equal(muster_segment_read_live("/dev/null", &copy, &unstable, &err), -1);
}

/* A service may run with its standard input closed; the next file then has its number. */
static void a_file_may_be_descriptor_0(void **state)
{
    char path[256];
    struct muster_err err;
    void *data;
    size_t bytes = 0;
    fixture_path(path, sizeof(path), ((struct fixture *)*state)->run, "some");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("text", file);
    fclose(file);
    int kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
    close(STDIN_FILENO);
    int rc = muster_file_load(path, 100, &data, &bytes, &err);
    if (kept >= 0) {
        dup2(kept, STDIN_FILENO);
        close(kept);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(bytes, 4);
    free(data);
}

/* What happens right behind the next read of a whole segment. */
static void (*behind_whole_read)(int fd);

ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    ssize_t n = (ssize_t)syscall(SYS_pread64, fd, to, bytes, at);
    if (n == (ssize_t)sizeof(struct muster_segment) && behind_whole_read) {
        void (*happens)(int) = behind_whole_read;
        behind_whole_read = NULL;
        happens(fd);
    }
    return n;
}

static void count_one_more(int fd)
{
    char path[64];
    struct muster_seg_row row = {.seq = 4, .comm = 1, .count = 8};
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int writer = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(writer, &row, sizeof(row), offsetof(struct muster_segment, row)),
                     sizeof(row));
    close(writer);
}

static void write_segment(const char *path, const struct muster_segment *segment)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(segment, sizeof(*segment), 1, file), 1);
    fclose(file);
}

static void an_entry_that_changed_meanwhile_is_read_again(void **state)
{
    struct muster_segment *segment = fresh(state), *copy;
    struct muster_err err;
    unsigned unstable = 9;
    char path[256];
    segment->row[0] = (struct muster_seg_row){.seq = 2, .comm = 1, .count = 7};
    fixture_path(path, sizeof(path), ((struct fixture *)*state)->run, "live.seg");
    write_segment(path, segment);
    behind_whole_read = count_one_more;
    assert_int_equal(muster_segment_read_live(path, &copy, &unstable, &err), 0);
    assert_int_equal(copy->row[0].count, 8);
    assert_int_equal(unstable, 0);
    free(copy);
    free(segment);
}

static unsigned used_comms(const struct muster_segment *segment)
{
    unsigned n = 0;
    for (unsigned i = 0; i <= MUSTER_SEG_COMMS; i++)
        n += segment->comm[i].uid != 0;
    return n;
}

/* Long gaps of entries that were given back hide nothing behind them, and what is given back is
 * gone with the next look. */
static void what_was_given_back_in_a_table_hides_nothing(void **state)
{
    enum { USED = 100, GAP = 80 };
    struct muster_segment *segment = fresh(state), *copy = calloc(1, sizeof(*copy));
    struct muster_err err;
    char path[256];
    for (unsigned i = 0; i < USED; i++) {
        bool back = i > 0 && i <= GAP;
        segment->comm[i].seq = segment->row[MUSTER_FUNCS + i].seq = back ? 2 : 0;
        segment->comm[i].uid = segment->row[MUSTER_FUNCS + i].comm = back ? 0 : i + 1;
        segment->net[2 + i].comm = i + 1;
    }
    segment->comm[MUSTER_SEG_COMMS].uid = MUSTER_SEG_OTHER_UID;
    segment->row[MUSTER_FUNC_ALL_REDUCE].comm = MUSTER_SEG_OTHER_UID;
    fixture_path(path, sizeof(path), ((struct fixture *)*state)->run, "tables.seg");
    write_segment(path, segment);
    assert_int_equal(muster_segment_read_tables(path, copy, &err), 0);
    assert_int_equal(used_comms(copy), USED - GAP + 1);
    assert_int_equal(copy->comm[USED - 1].uid, USED);
    assert_int_equal(copy->row[MUSTER_FUNCS + USED - 1].comm, USED);
    assert_int_equal(copy->row[MUSTER_FUNC_ALL_REDUCE].comm, MUSTER_SEG_OTHER_UID);
    assert_int_equal(copy->net[1 + USED].comm, USED);
    for (unsigned i = GAP + 1; i < USED; i++) {
        segment->comm[i].seq = 2;
        segment->comm[i].uid = 0;
    }
    write_segment(path, segment);
    assert_int_equal(muster_segment_read_tables(path, copy, &err), 0);
    assert_int_equal(used_comms(copy), 2);
    free(copy);
    free(segment);
}

/* Only the pages that hold something are in the file. Memory that was used before is as good as
 * any. */
static void holes_of_a_file_are_zeros(void **state)
{
    struct muster_segment *segment = fresh(state), *copy;
    struct muster_err err;
    char path[256];
    fixture_path(path, sizeof(path), ((struct fixture *)*state)->shm, "sparse.seg");
    segment->row[MUSTER_SEG_ROWS - 1].count = 7;
    segment->row[MUSTER_SEG_ROWS - 1].comm = 1;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(ftruncate(fd, sizeof(*segment)), 0);
    for (size_t at = 0; at < sizeof(*segment); at += 4096) {
        size_t n = sizeof(*segment) - at < 4096 ? sizeof(*segment) - at : 4096;
        const char *page = (const char *)segment + at;
        if (page[0] || memcmp(page, page + 1, n - 1) != 0)
            assert_int_equal(pwrite(fd, page, n, (off_t)at), n);
    }
    close(fd);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(muster_segment_read(path, &copy, &err), 0);
        assert_memory_equal(copy, segment, sizeof(*segment));
        memset((void *)copy, 0xa5, sizeof(*copy));
        free(copy);
    }
    assert_int_equal(truncate(path, sizeof(*segment) - 1), 0);
    assert_int_equal(muster_segment_read(path, &copy, &err), -1);
    assert_non_null(strstr(err.text, "cut short"));
    free(segment);
}

struct writer {
    struct muster_segment *segment;
    _Atomic bool stop;
};

/* Changes two rows and the ring without pause, as the drain thread does. In each row bytes is 64
 * times count, in each ring entry end_ns twice begin_ns. */
static void *write_always(void *arg)
{
    struct writer *writer = arg;
    struct muster_segment *segment = writer->segment;
    for (uint64_t n = 0; !atomic_load(&writer->stop); n++) {
        struct muster_seg_row *row = &segment->row[20 + n % 2];
        muster_seg_write_begin(&row->seq);
        row->count++;
        row->bytes += 64;
        muster_seg_write_end(&row->seq);
        struct muster_op *op = &segment->ring[n % MUSTER_SEG_RING];
        op->comm = 1;
        op->begin_ns = n;
        op->end_ns = 2 * n;
        atomic_store_explicit(&segment->ring_head, n + 1, memory_order_release);
    }
    return NULL;
}

static void a_segment_in_motion_is_never_read_mixed(void **state)
{
    struct fixture *fixture = *state;
    struct muster_seg_identity identity;
    struct muster_segment_file file;
    fixture_identity(fixture, &identity);
    assert_int_equal(muster_segment_create(&file, fixture->shm, &identity, NULL),
                     MUSTER_SEGMENT_OK);
    file.map->row[20].comm = file.map->row[21].comm = 1;
    struct writer writer = {.segment = file.map};
    pthread_t thread;
    pthread_create(&thread, NULL, write_always, &writer);
    for (int i = 0; i < 30; i++) {
        struct muster_segment *copy;
        unsigned unstable;
        assert_int_equal(muster_segment_read_live(file.path, &copy, &unstable, NULL), 0);
        for (unsigned r = 20; r < 22; r++)
            assert_int_equal(copy->row[r].bytes, 64 * copy->row[r].count);
        for (unsigned n = 0; n < MUSTER_SEG_RING; n++)
            if (copy->ring[n].comm)
                assert_int_equal(copy->ring[n].end_ns, 2 * copy->ring[n].begin_ns);
        free(copy);
    }
    atomic_store(&writer.stop, true);
    pthread_join(thread, NULL);
    munmap(file.map, sizeof(*file.map));
    close(file.lock_fd);
}

/* It may grow while it is read, and a hostile one is as large as it likes. */
static void no_more_is_read_than_was_asked_for(void **state)
{
    enum { ASKED = 8192, GUARD = 64 };
    const struct fixture *fixture = *state;
    static char to[ASKED + GUARD], data[5 * ASKED];
    static struct muster_seg_parts parts;
    char path[128];
    memset(data, 'x', sizeof(data));
    int fd = open(fixture_path(path, sizeof(path), fixture->shm, "large"), O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
    assert_int_equal(ftruncate(fd, 10 * sizeof(data)), 0); /* behind it a hole */
    assert_int_equal(muster_read_sparse(fd, to, ASKED, &parts), ASKED);
    for (unsigned i = 0; i < ASKED + GUARD; i++)
        assert_int_equal(to[i], i < ASKED ? 'x' : 0);
    close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(no_more_is_read_than_was_asked_for),
        TEST(foreign_segments_are_refused_in_words),
        TEST(each_size_of_another_layout_is_refused),
        TEST(a_segment_cut_off_anywhere_is_refused),
        TEST(what_is_out_of_range_becomes_unknown),
        TEST(files_that_are_none_are_errors),
        TEST(what_was_given_back_in_a_table_hides_nothing),
        TEST(holes_of_a_file_are_zeros),
        TEST(a_file_may_be_descriptor_0),
        TEST(an_entry_that_changed_meanwhile_is_read_again),
        TEST(a_segment_in_motion_is_never_read_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
