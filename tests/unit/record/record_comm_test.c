#include "record_testbed.h"

static void a_context_ends_with_its_communicator(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    assert_non_null(muster_recorder_comm(testbed.rec, testbed.ctx));
    muster_recorder_comm_close(testbed.rec, testbed.ctx);
    muster_recorder_comm_close(testbed.rec, testbed.ctx);
    assert_null(muster_recorder_comm(testbed.rec, testbed.ctx));
    assert_null(testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1));
    assert_int_equal(atomic_load(&testbed.rec->seg->comms_alive), 0);
    assert_int_equal(atomic_load(&testbed.rec->seg->exit_state), MUSTER_EXIT_FINALIZED);
    void *again = testbed_comm(&testbed, 0xc0ffee, 4, 1, 5);
    assert_ptr_not_equal(again, testbed.ctx);
    assert_int_equal(atomic_load(&testbed.rec->seg->exit_state), MUSTER_EXIT_OPEN);
    testbed_close(&testbed);
}

static void totals_survive_more_communicators_than_the_segment_names(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    enum { MANY = 1000 };
    for (unsigned i = 0; i < MANY; i++) {
        void *ctx = testbed_comm(&testbed, i, 2, 1, 5);
        testbed_collective(&testbed, ctx, MUSTER_FUNC_ALL_REDUCE, 1);
        muster_recorder_comm_close(testbed.rec, ctx);
        testbed_drain(&testbed,
                      i * MUSTER_NS_PER_S); /* each pass stamps a heartbeat and makes room */
    }
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), MANY);
    assert_true(testbed.rec->seg->comm[MUSTER_SEG_COMMS].folded >= MANY - MUSTER_SEG_COMMS);
    testbed_close(&testbed);
}

/* The row of a communicator's only class of operations. */
static struct muster_seg_row *row_of(struct muster_segment *segment, uint32_t uid)
{
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        if (segment->row[i].comm == uid)
            return &segment->row[i];
    return NULL;
}

static void what_is_folded_keeps_how_it_was_timed(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    struct muster_segment *segment = testbed.rec->seg;
    for (unsigned i = 0; i < 2; i++) {
        void *ctx = testbed_comm(&testbed, 10 + i, 2, 1, 5);
        testbed_collective(&testbed, ctx, MUSTER_FUNC_ALL_REDUCE, 1);
        testbed_drain(&testbed, 0);
        uint32_t uid = testbed.rec->next_uid;
        struct muster_seg_row *row = row_of(segment, uid);
        assert_non_null(row);
        row->timed = 3;
        row->event_timed = 4;
        row->graph = 5;
        muster_rows_merge(segment, &testbed.rec->rows, uid);
        assert_null(row_of(segment, uid));
    }
    const struct muster_seg_row *other = row_of(segment, MUSTER_SEG_OTHER_UID);
    assert_non_null(other);
    assert_int_equal(other->count, 2);
    assert_int_equal(other->timed, 6);
    assert_int_equal(other->event_timed, 8);
    assert_int_equal(other->graph, 10);
    testbed_close(&testbed);
}

static void communicators_beyond_the_segment_count_under_other(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    for (unsigned i = 0; i < 2 * MUSTER_SEG_COMMS; i++)
        testbed_collective(&testbed, testbed_comm(&testbed, i, 2, 1, 5), MUSTER_FUNC_ALL_REDUCE, 1);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 2 * MUSTER_SEG_COMMS);
    testbed_close(&testbed);
}

static void more_classes_than_rows_keep_count_and_bytes(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    uint64_t bytes = 0;
    for (int peer = 0; peer < 1000; peer++) {
        assert_non_null(testbed_p2p(&testbed, testbed.ctx, MUSTER_FUNC_SEND, peer, 10, 1));
        bytes += 40;
    }
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_SEND), 1000);
    assert_int_equal(testbed_bytes(&testbed, MUSTER_FUNC_SEND), bytes);
    testbed_close(&testbed);
}

static void old_interfaces_name_the_communicator_in_the_event(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    testbed.rec->options.named_by_event = true;
    struct muster_event event = {
        .kind = MUSTER_EVENT_COLL, .rank = 2, .op = testbed_op(MUSTER_FUNC_REDUCE_SCATTER, 8)};
    event.op.comm_hash = 0xabc;
    event.op.traffic_bytes = 4 * 8 * 4;
    for (int i = 0; i < 3; i++)
        assert_non_null(muster_track_start(testbed.rec, testbed.ctx, &event));
    event.op.comm_hash = 0xdef;
    assert_non_null(muster_track_start(testbed.rec, NULL, &event));
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_REDUCE_SCATTER), 4);
    assert_int_equal(testbed_bytes(&testbed, MUSTER_FUNC_REDUCE_SCATTER), 4 * 4 * 8 * 4);
    assert_int_equal(testbed.rec->seg->comm[1].id, 0xabc);
    assert_int_equal(testbed.rec->seg->comm[1].rank, 2);
    assert_int_equal(atomic_load(&testbed.rec->seg->comm[1].calls), 3);
    muster_recorder_comm_close_all(testbed.rec);
    assert_int_equal(atomic_load(&testbed.rec->seg->comms_alive), 0);
    testbed_close(&testbed);
}

/* Whoever misses operations is told: a communicator without a place is counted, its calls are not
 * another's. */
static void communicators_beyond_the_recorder_are_counted_as_dropped(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    void *full = testbed.ctx; /* the first of MUSTER_COMMS */
    for (unsigned i = 1; i < MUSTER_COMMS; i++)
        testbed_comm(&testbed, i, 2, 1, 5);
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_NO_COMM), 0);
    void *beyond = testbed_comm(&testbed, MUSTER_COMMS, 2, 1, 5);
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_NO_COMM), 1);
    assert_non_null(beyond); /* NCCL would take NULL for a plugin that wants no events */
    assert_null(testbed_collective(&testbed, beyond, MUSTER_FUNC_ALL_REDUCE, 1));

    muster_recorder_comm_close(testbed.rec, full);
    assert_non_null(muster_recorder_comm(testbed.rec, testbed_comm(&testbed, 0xfee, 2, 1, 5)));
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_NO_COMM), 1);
    testbed_close(&testbed);
}

static void operations_that_name_no_known_communicator_are_counted_as_dropped(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    for (unsigned i = 1; i < MUSTER_COMMS; i++)
        testbed_comm(&testbed, i, 2, 1, 3);
    testbed.rec->options.named_by_event = true;
    struct muster_event event = {
        .kind = MUSTER_EVENT_COLL, .rank = 2, .op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 8)};
    event.op.comm_hash = 0xabc;
    for (unsigned i = 1; i <= 3; i++) {
        assert_null(muster_track_start(testbed.rec, NULL, &event));
        assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_NO_COMM), i);
    }
    testbed_close(&testbed);
}

static void a_retirement_cut_short_is_undone(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    testbed_drain(&testbed, 0);
    struct muster_segment *seg = testbed.rec->seg;
    struct muster_seg_row before = *testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE);
    testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 2);
    atomic_store(&seg->undo.armed, 1); /* as if the process had died inside the second */
    muster_rows_undo(seg);
    const struct muster_seg_row *after = testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE);
    assert_int_equal(after->count, before.count);
    assert_int_equal(after->bytes, before.bytes);
    assert_int_equal(seg->comm[0].retired, 1);
    uint32_t word = atomic_load(&seg->slot_state[seg->undo.slot]);
    assert_int_equal(word & 0xff, MUSTER_SLOT_LAUNCHED);
    testbed_close(&testbed);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

static size_t refused; /* so many bytes are not there */

void *__wrap_calloc(size_t n, size_t size)
{
    return refused && n * size == refused ? NULL : __real_calloc(n, size);
}

/* Its sends could not be told from each other: it is not recorded, which is counted. */
static void a_communicator_without_memory_for_its_peers_is_counted(void **state)
{
    (void)state;
    enum { RANKS = 777 };
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    refused = 2 * RANKS * sizeof(uint32_t);
    void *none = testbed_comm(&testbed, 0xabc, RANKS, 1, 5);
    refused = 0;
    assert_null(muster_recorder_comm(testbed.rec, none));
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_NO_COMM), 1);
    assert_int_equal(atomic_load(&testbed.rec->seg->comms_alive), 1);
    assert_non_null(muster_recorder_comm(testbed.rec, testbed_comm(&testbed, 0xabc, RANKS, 1, 5)));
    testbed_close(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_context_ends_with_its_communicator),
        cmocka_unit_test(a_communicator_without_memory_for_its_peers_is_counted),
        cmocka_unit_test(totals_survive_more_communicators_than_the_segment_names),
        cmocka_unit_test(what_is_folded_keeps_how_it_was_timed),
        cmocka_unit_test(communicators_beyond_the_segment_count_under_other),
        cmocka_unit_test(more_classes_than_rows_keep_count_and_bytes),
        cmocka_unit_test(old_interfaces_name_the_communicator_in_the_event),
        cmocka_unit_test(communicators_beyond_the_recorder_are_counted_as_dropped),
        cmocka_unit_test(operations_that_name_no_known_communicator_are_counted_as_dropped),
        cmocka_unit_test(a_retirement_cut_short_is_undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
