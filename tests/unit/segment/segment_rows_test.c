/* Rows of communicators that are gone, in the rows of `other`; what goes into rows and files. */
#include "segment_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "segment/image.h"
#include "segment/totals.h"

enum { BYTES = 4096, GPU_NS = 500, PROXY_NS = 9000 };

static void add(struct muster_segment *segment, struct muster_row_index *index, uint32_t uid,
                enum muster_source source, uint64_t ns)
{
    struct muster_op op = fixture_op(0);
    op.comm = uid;
    op.source = (uint8_t)source;
    op.begin_ns = 1000;
    op.end_ns = op.begin_ns + ns;
    muster_rows_add(segment, index, &op, BYTES);
}

static const struct muster_seg_row *row_of_other(const struct muster_segment *segment)
{
    const struct muster_seg_row *found = NULL;
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        if (segment->row[i].comm == MUSTER_SEG_OTHER_UID && segment->row[i].count) {
            assert_null(found);
            found = &segment->row[i];
        }
    assert_non_null(found);
    return found;
}

/* Whoever reads a row whose number stays odd waits for its writer for ever. */
static void assert_all_readable(const struct muster_segment *segment)
{
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        assert_int_equal(segment->row[i].seq % 2, 0);
}

/* One operation of each source, of two communicators that are gone, in this order. */
static struct muster_segment *merge(enum muster_source first, enum muster_source second)
{
    static struct muster_row_index index;
    struct muster_seg_identity identity = {.pid = 7};
    struct muster_segment *segment = muster_segment_new(&identity);
    assert_non_null(segment);
    muster_rows_index(segment, &index);
    add(segment, &index, 1, first, first == MUSTER_SOURCE_GPU ? GPU_NS : PROXY_NS);
    add(segment, &index, 2, second, second == MUSTER_SOURCE_GPU ? GPU_NS : PROXY_NS);
    muster_rows_merge(segment, &index, 1);
    muster_rows_merge(segment, &index, 2);
    return segment;
}

static void durations_of_a_worse_clock_are_not_mixed_in(void **state)
{
    (void)state;
    struct muster_segment *segment = merge(MUSTER_SOURCE_GPU, MUSTER_SOURCE_PROXY);
    const struct muster_seg_row *row = row_of_other(segment);
    assert_int_equal(row->count, 2);
    assert_int_equal(row->bytes, 2 * BYTES);
    assert_int_equal(row->timed, 1);
    assert_int_equal(row->proxy_timed, 1);
    assert_int_equal(row->min_ns, GPU_NS);
    assert_int_equal(row->max_ns, GPU_NS);
    assert_int_equal(row->sum_ns, GPU_NS);
    assert_all_readable(segment);
    free(segment);
}

static void durations_of_a_better_clock_take_their_place(void **state)
{
    (void)state;
    struct muster_segment *segment = merge(MUSTER_SOURCE_PROXY, MUSTER_SOURCE_GPU);
    const struct muster_seg_row *row = row_of_other(segment);
    assert_int_equal(row->count, 2);
    assert_int_equal(row->max_ns, GPU_NS);
    assert_int_equal(row->sum_ns, GPU_NS);
    assert_all_readable(segment);
    free(segment);
}

/* As many as there are places for, so that many of them meet in the index. */
static void rows_of_different_operations_stay_apart(void **state)
{
    (void)state;
    static struct muster_row_index index;
    struct muster_seg_identity identity = {.pid = 7};
    struct muster_segment *segment = muster_segment_new(&identity);
    assert_non_null(segment);
    muster_rows_index(segment, &index);
    const uint32_t uids = MUSTER_SEG_ROWS - 32;
    for (unsigned pass = 0; pass < 2; pass++)
        for (uint32_t uid = 1; uid <= uids; uid++)
            add(segment, &index, uid, MUSTER_SOURCE_GPU, GPU_NS + uid);
    uint32_t found = 0;
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++) {
        const struct muster_seg_row *row = &segment->row[i];
        if (!row->count || row->comm == MUSTER_SEG_OTHER_UID)
            continue;
        found++;
        assert_int_equal(row->count, 2);
        assert_int_equal(row->sum_ns, 2 * (GPU_NS + row->comm));
    }
    assert_int_equal(found, uids);
    free(segment);
}

/* A process that was killed while it counted an operation leaves it half done. */
static void only_what_is_half_done_is_undone(void **state)
{
    (void)state;
    static struct muster_row_index index;
    struct muster_seg_identity identity = {.pid = 7};
    struct muster_segment *segment = muster_segment_new(&identity);
    assert_non_null(segment);
    muster_rows_index(segment, &index);
    const struct muster_op op = fixture_op(0);
    muster_rows_retire(segment, &index, 3, 0, 0, &op, BYTES);
    muster_rows_retire(segment, &index, 3, 0, 0, &op, BYTES);
    const struct muster_seg_row *row = &segment->row[segment->undo.row];
    muster_rows_undo(segment);
    assert_int_equal(row->count, 2);
    assert_int_equal(segment->comm[0].retired, 2);
    atomic_store(&segment->undo.armed, 1);
    muster_rows_undo(segment);
    assert_int_equal(row->count, 1);
    assert_int_equal(row->bytes, BYTES);
    assert_int_equal(segment->comm[0].retired, 1);
    assert_all_readable(segment);
    muster_rows_undo(segment); /* once */
    assert_int_equal(row->count, 1);
    free(segment);
}

/* A report counts what is incomplete; the times of parts that have not all ended are no times. */
static void an_operation_is_complete_when_all_that_began_has_ended(void **state)
{
    (void)state;
    static const struct {
        unsigned started, ended, proxy_started, proxy_ended, source;
        bool complete;
    } cases[] = {
        {0, 0, 0, 0, MUSTER_SOURCE_NONE, true},   {8, 8, 0, 0, MUSTER_SOURCE_GPU, true},
        {0, 0, 2, 2, MUSTER_SOURCE_PROXY, true},  {8, 8, 2, 2, MUSTER_SOURCE_GPU, true},
        {8, 7, 0, 0, MUSTER_SOURCE_NONE, false},  {7, 7, 0, 0, MUSTER_SOURCE_NONE, false},
        {0, 0, 2, 1, MUSTER_SOURCE_NONE, false},  {8, 8, 2, 1, MUSTER_SOURCE_GPU, false},
        {8, 7, 2, 2, MUSTER_SOURCE_PROXY, false},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct muster_seg_slot slot = {.channels = 8, .algo = MUSTER_ALGO_RING};
        struct muster_op op;
        atomic_store(&slot.started, cases[i].started);
        atomic_store(&slot.ended, cases[i].ended);
        atomic_store(&slot.proxy_started, cases[i].proxy_started);
        atomic_store(&slot.proxy_ended, cases[i].proxy_ended);
        muster_slot_op(&slot, &op);
        assert_int_equal(op.source, cases[i].source);
        assert_int_equal(!(op.flags & MUSTER_OP_INCOMPLETE), cases[i].complete);
    }
}

/* Whoever names a segment may be another user's file: no path leaves the folder. */
static void a_segment_is_stored_under_a_plain_name_only(void **state)
{
    const struct fixture *fixture = *state;
    static const char image[4096] = "MUSTER";
    char long_name[300];
    struct muster_err err;
    memset(long_name, 'a', sizeof long_name);
    long_name[252] = 0; /* with .seg one more than a file's name may have */
    const char *refused[] = {"", "../up", long_name};
    for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_not_equal(
            muster_segment_store(fixture->run, refused[i], image, sizeof image, &err), 0);
        assert_non_null(strstr(err.text, "no file name for a segment"));
    }
    assert_int_equal(fixture_count(fixture->run, ".seg"), 0);
    assert_int_equal(muster_segment_store(fixture->run, "a", image, sizeof image, &err), 0);
    assert_int_equal(fixture_count(fixture->run, "a.seg"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_of_a_worse_clock_are_not_mixed_in),
        cmocka_unit_test(durations_of_a_better_clock_take_their_place),
        cmocka_unit_test(rows_of_different_operations_stay_apart),
        cmocka_unit_test(only_what_is_half_done_is_undone),
        cmocka_unit_test(an_operation_is_complete_when_all_that_began_has_ended),
        cmocka_unit_test_setup_teardown(a_segment_is_stored_under_a_plain_name_only, fixture_setup,
                                        fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
