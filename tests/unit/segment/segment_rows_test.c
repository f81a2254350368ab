/* Rows of communicators that are gone, in the rows of `other`. */
#include "segment_fixture.h"

#include <stdlib.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_of_a_worse_clock_are_not_mixed_in),
        cmocka_unit_test(durations_of_a_better_clock_take_their_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
