#include "record_testbed.h"

static void an_eager_collective_counts_once_with_its_bytes(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1024);
    testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_GATHER, 1024);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 1);
    assert_int_equal(testbed_bytes(&testbed, MUSTER_FUNC_ALL_REDUCE), 4096);
    assert_int_equal(testbed_bytes(&testbed, MUSTER_FUNC_ALL_GATHER), 4 * 4096);
    assert_int_equal(testbed_last(&testbed)->number, 1);
    assert_int_equal(testbed_last(&testbed)->source, MUSTER_SOURCE_NONE);
    testbed_close(&testbed);
}

/* NCCL's Coll event gives AllGather in bytes; the call gave elements, and those are kept. */
static void the_call_decides_count_and_type_the_launch_algorithm_and_channels(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    struct muster_event_op call = testbed_op(MUSTER_FUNC_BROADCAST, 100), launch = call;
    call.algo = MUSTER_ALGO_UNKNOWN;
    call.root_or_peer = 2;
    launch.count = 400;
    launch.dtype = MUSTER_DTYPE_INT8;
    launch.proto = MUSTER_PROTO_SIMPLE;
    testbed_launch(&testbed, testbed.ctx, testbed_call(&testbed, testbed.ctx, &call), &launch);
    testbed_drain(&testbed, 0);
    const struct muster_op *op = testbed_last(&testbed);
    assert_int_equal(op->count, 100);
    assert_int_equal(op->dtype, MUSTER_DTYPE_FLOAT32);
    assert_int_equal(op->algo, MUSTER_ALGO_RING);
    assert_int_equal(op->proto, MUSTER_PROTO_SIMPLE);
    assert_int_equal(op->channels, 8);
    assert_int_equal(op->peer, 2);
    assert_int_equal(testbed_bytes(&testbed, MUSTER_FUNC_BROADCAST), 400);
    testbed_close(&testbed);
}

static void tagged_calls_are_counted_by_their_tag(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 100);
    const struct muster_seg_tag *tag = testbed.rec->seg->tag;
    for (uint64_t i = 0; i < 3; i++) {
        op.user_tag = i < 2 ? UINT64_MAX : 0;
        testbed_launch(&testbed, testbed.ctx, testbed_call(&testbed, testbed.ctx, &op), &op);
    }
    testbed_drain(&testbed, 0);
    const struct muster_op *ring = testbed.rec->seg->ring;
    unsigned own = muster_op_tag(ring[0].flags);
    assert_in_range(own, 1, MUSTER_SEG_TAGS - 1);
    assert_int_equal(muster_op_tag(ring[1].flags), own);
    assert_int_equal(muster_op_tag(ring[2].flags), 0);
    assert_true(tag[own - 1].tag == UINT64_MAX);
    assert_int_equal(tag[own - 1].count, 2);
    assert_int_equal(tag[own - 1].bytes, 800);
    testbed_close(&testbed);
}

/* A tag for each call: the first keep their entries, all others share the last, none is lost. */
static void more_tags_than_room_share_the_last_entry(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    const struct muster_seg_tag *tag = testbed.rec->seg->tag;
    for (uint64_t i = 1; i <= 500; i++) {
        op.user_tag = i;
        testbed_launch(&testbed, testbed.ctx, testbed_call(&testbed, testbed.ctx, &op), &op);
    }
    uint64_t sum = 0, named = 0;
    for (unsigned i = 0; i < MUSTER_SEG_TAGS; i++) {
        sum += tag[i].count;
        named += tag[i].tag != 0;
    }
    assert_int_equal(sum, 500);
    assert_int_equal(named, MUSTER_SEG_TAGS - 1);
    assert_int_equal(tag[MUSTER_SEG_TAGS - 1].count, 500 - named);
    assert_true(tag[MUSTER_SEG_TAGS - 1].tag == 0);
    testbed_close(&testbed);
}

static void sends_and_receives_are_numbered_per_directed_pair(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    testbed_p2p(&testbed, testbed.ctx, MUSTER_FUNC_SEND, 2, 10, 4);
    testbed_p2p(&testbed, testbed.ctx, MUSTER_FUNC_SEND, 2, 10, 4);
    testbed_p2p(&testbed, testbed.ctx, MUSTER_FUNC_RECV, 2, 10, 4);
    testbed_drain(&testbed, 0);
    const struct muster_segment *seg = testbed.rec->seg;
    assert_int_equal(seg->ring[0].number, 0);
    assert_int_equal(seg->ring[1].number, 1);
    assert_int_equal(seg->ring[2].number, 0);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_SEND)->peer, 2);
    assert_int_equal(testbed_bytes(&testbed, MUSTER_FUNC_SEND), 80);
    testbed_close(&testbed);
}

static void a_captured_call_is_no_operation_its_replays_are(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_GATHER, 100), in_bytes = op;
    op.graph = true;
    in_bytes.count = 400;
    in_bytes.dtype = MUSTER_DTYPE_INT8;
    void *group = testbed_group(&testbed, testbed.ctx, true);
    void *call = testbed_call(&testbed, testbed.ctx, &op);
    muster_track_stop(testbed.rec, call);
    assert_null(
        testbed_launch(&testbed, testbed.ctx, call, &in_bytes)); /* shown while it is captured */
    muster_track_stop(testbed.rec, group);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_GATHER), 0);
    for (int i = 0; i < 3; i++)
        assert_non_null(testbed_launch(&testbed, testbed.ctx, call, &in_bytes));
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_GATHER)->graph, 3);
    assert_int_equal(testbed_bytes(&testbed, MUSTER_FUNC_ALL_GATHER), 3 * 4 * 400);
    assert_int_equal(testbed_last(&testbed)->dtype, MUSTER_DTYPE_FLOAT32);
    assert_int_equal(testbed.rec->seg->comm[0].captured, 1);
    testbed_close(&testbed);
}

static void a_call_whose_launch_is_never_shown_counts_when_the_communicator_moves_on(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    testbed_group(&testbed, testbed.ctx, false);
    testbed_call(&testbed, testbed.ctx, &op);
    testbed_drain(&testbed, 10 * MUSTER_NS_PER_S);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE),
                     0); /* it may be blocked in NCCL */
    testbed_group(&testbed, testbed.ctx, false);
    testbed_call(&testbed, testbed.ctx, &op);
    testbed_drain(&testbed, 10 * MUSTER_NS_PER_S);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 1);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->api_only, 1);
    testbed_close(&testbed);
}

/* A thousand broadcasts a second would fill the slots while each waits for its launch. */
static void calls_without_launch_leave_when_room_is_needed(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    struct muster_event_op op = testbed_op(MUSTER_FUNC_BROADCAST, 1);
    for (unsigned round = 0; round < 8; round++) {
        for (unsigned i = 0; i < MUSTER_SEG_SLOTS * 7 / 8; i++) {
            testbed_group(&testbed, testbed.ctx, false);
            testbed_call(&testbed, testbed.ctx, &op);
        }
        testbed_drain(&testbed, 0); /* sees that it is crowded */
        testbed_drain(&testbed, 0);
        testbed_drain(&testbed, MUSTER_NS_PER_S / 10); /* and what was given up is free again */
    }
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_NO_SLOT), 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_BROADCAST),
                     8 * MUSTER_SEG_SLOTS * 7 / 8 - 1);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_BROADCAST)->bytes,
                     4 * (8 * MUSTER_SEG_SLOTS * 7 / 8 - 1));
    testbed_close(&testbed);
}

static void the_order_of_calls_is_kept_even_without_a_free_slot(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, true);
    unsigned issued = MUSTER_SEG_SLOTS + 500;
    for (unsigned i = 0; i < issued; i++)
        testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, i);
    assert_int_equal(atomic_load(&testbed.rec->seg->comm[0].calls), issued);
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_NO_SLOT), 500);
    assert_int_equal(testbed.rec->seg->comm[0].call[(issued - 1) % MUSTER_SEG_CALLS].count,
                     issued - 1);
    testbed_close(&testbed);
}

static void a_neighbours_many_operations_leave_a_free_slot(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    void *other = testbed_comm(&testbed, 0xb, 4, 1, 5);
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS * 3 / 4; i++)
        assert_non_null(testbed_call(&testbed, testbed.ctx, &op));
    for (unsigned i = 0; i < 100; i++)
        assert_non_null(testbed_call(&testbed, other, &op));
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_NO_SLOT), 0);
    testbed_close(&testbed);
}

static void slots_are_used_again_after_they_are_retired(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    for (unsigned i = 0; i < 5 * MUSTER_SEG_SLOTS; i++) {
        assert_non_null(testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1));
        if (i % 1000 == 999)
            testbed_drain(&testbed, 0);
    }
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 5 * MUSTER_SEG_SLOTS);
    testbed_close(&testbed);
}

static void two_ranks_that_call_the_same_have_the_same_hash(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    void *other = testbed_comm(&testbed, 0xc0ffee, 4, 1, 5);
    for (unsigned i = 0; i < 20; i++) {
        testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, i);
        testbed_collective(&testbed, other, MUSTER_FUNC_ALL_REDUCE, i);
    }
    const struct muster_seg_comm *a = &testbed.rec->seg->comm[0], *b = &testbed.rec->seg->comm[1];
    assert_int_equal(atomic_load(&a->call_hash), atomic_load(&b->call_hash));
    testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 7);
    testbed_collective(&testbed, other, MUSTER_FUNC_ALL_REDUCE, 8);
    assert_int_not_equal(atomic_load(&a->call_hash), atomic_load(&b->call_hash));
    testbed_close(&testbed);
}

static void handles_that_are_stale_foreign_or_nonsense_change_nothing(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    for (unsigned c = 0; c < 8; c++)
        testbed_kernel_stop(&testbed, testbed_kernel(&testbed, op, c, 1000), 2000);
    testbed_drain(&testbed, 0);
    assert_null(testbed_kernel(&testbed, op, 0, 1000));
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_STALE), 1);
    assert_null(testbed_kernel(&testbed, (void *)(uintptr_t)0x7f0012345678, 0, 1000));
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_FOREIGN), 1);
    for (unsigned kind = 0; kind < 16; kind++) {
        void *wild = muster_handle_pack(testbed.rec->nonce, kind, 0xffffff, 0xffff);
        struct muster_event_args args = {.given = true, .ptimer = 1};
        for (unsigned s = 0; s < 40; s++)
            muster_track_state(testbed.rec, wild, s, &args);
        muster_track_stop(testbed.rec, wild);
        muster_recorder_comm_close(testbed.rec, wild);
    }
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 1);
    testbed_close(&testbed);
}

/* As NCCL's PXN and a second libnccl in the process bring them. */
static void copy_engines_take_no_call_of_another_recorder(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_GATHER, 1);
    testbed_group(&testbed, testbed.ctx, false);
    void *call = testbed_call(&testbed, testbed.ctx, &op);
    struct muster_handle h = muster_handle_unpack(call);
    struct muster_event event = {.kind = MUSTER_EVENT_CE_COLL, .op = op};
    event.parent = muster_handle_pack(testbed.rec->nonce + 1, h.kind, h.generation, h.index);
    assert_null(muster_track_start(testbed.rec, testbed.ctx, &event));
    event.parent = call;
    assert_non_null(muster_track_start(testbed.rec, testbed.ctx, &event));
    testbed_close(&testbed);
}

static void after_the_exit_nothing_is_taken_any_more(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    pthread_mutex_unlock(&testbed.rec->drain_lock);
    muster_recorder_exit(testbed.rec);
    pthread_mutex_lock(&testbed.rec->drain_lock);
    assert_true(atomic_load(&testbed.rec->closed));
    assert_int_equal(atomic_load(&testbed.rec->seg->exit_state), MUSTER_EXIT_EXITED);
    testbed_close(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_eager_collective_counts_once_with_its_bytes),
        cmocka_unit_test(the_call_decides_count_and_type_the_launch_algorithm_and_channels),
        cmocka_unit_test(tagged_calls_are_counted_by_their_tag),
        cmocka_unit_test(more_tags_than_room_share_the_last_entry),
        cmocka_unit_test(sends_and_receives_are_numbered_per_directed_pair),
        cmocka_unit_test(a_captured_call_is_no_operation_its_replays_are),
        cmocka_unit_test(a_call_whose_launch_is_never_shown_counts_when_the_communicator_moves_on),
        cmocka_unit_test(calls_without_launch_leave_when_room_is_needed),
        cmocka_unit_test(the_order_of_calls_is_kept_even_without_a_free_slot),
        cmocka_unit_test(a_neighbours_many_operations_leave_a_free_slot),
        cmocka_unit_test(slots_are_used_again_after_they_are_retired),
        cmocka_unit_test(two_ranks_that_call_the_same_have_the_same_hash),
        cmocka_unit_test(copy_engines_take_no_call_of_another_recorder),
        cmocka_unit_test(after_the_exit_nothing_is_taken_any_more),
        cmocka_unit_test(handles_that_are_stale_foreign_or_nonsense_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
