#include "lab.h"

static void an_eager_collective_counts_once_with_its_bytes(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, false, true);
    lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1024);
    lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_GATHER, 1024);
    lab_drain(&lab, 0);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 1);
    assert_int_equal(lab_bytes(&lab, MUSTER_FUNC_ALL_REDUCE), 4096);
    assert_int_equal(lab_bytes(&lab, MUSTER_FUNC_ALL_GATHER), 4 * 4096);
    assert_int_equal(lab_last(&lab)->number, 1);
    assert_int_equal(lab_last(&lab)->source, MUSTER_SOURCE_NONE);
    lab_close(&lab);
}

/* NCCL's Coll event gives AllGather in bytes; the call gave elements, and those are kept. */
static void the_call_decides_count_and_type_the_launch_algorithm_and_channels(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, false, true);
    struct muster_event_op call = lab_op(MUSTER_FUNC_BROADCAST, 100), launch = call;
    call.algo = MUSTER_ALGO_UNKNOWN;
    call.root_or_peer = 2;
    launch.count = 400;
    launch.dtype = MUSTER_DTYPE_INT8;
    launch.proto = MUSTER_PROTO_SIMPLE;
    lab_launch(&lab, lab.ctx, lab_call(&lab, lab.ctx, &call), &launch);
    lab_drain(&lab, 0);
    const struct muster_op *op = lab_last(&lab);
    assert_int_equal(op->count, 100);
    assert_int_equal(op->dtype, MUSTER_DTYPE_FLOAT32);
    assert_int_equal(op->algo, MUSTER_ALGO_RING);
    assert_int_equal(op->proto, MUSTER_PROTO_SIMPLE);
    assert_int_equal(op->channels, 8);
    assert_int_equal(op->peer, 2);
    assert_int_equal(lab_bytes(&lab, MUSTER_FUNC_BROADCAST), 400);
    lab_close(&lab);
}

static void sends_and_receives_are_numbered_per_directed_pair(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, false, true);
    lab_p2p(&lab, lab.ctx, MUSTER_FUNC_SEND, 2, 10, 4);
    lab_p2p(&lab, lab.ctx, MUSTER_FUNC_SEND, 2, 10, 4);
    lab_p2p(&lab, lab.ctx, MUSTER_FUNC_RECV, 2, 10, 4);
    lab_drain(&lab, 0);
    const struct muster_segment *seg = lab.rec->seg;
    assert_int_equal(seg->ring[0].number, 0);
    assert_int_equal(seg->ring[1].number, 1);
    assert_int_equal(seg->ring[2].number, 0);
    assert_int_equal(lab_row(&lab, MUSTER_FUNC_SEND)->peer, 2);
    assert_int_equal(lab_bytes(&lab, MUSTER_FUNC_SEND), 80);
    lab_close(&lab);
}

static void a_captured_call_is_no_operation_its_replays_are(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, false, true);
    struct muster_event_op op = lab_op(MUSTER_FUNC_ALL_GATHER, 100), in_bytes = op;
    op.graph = true;
    in_bytes.count = 400;
    in_bytes.dtype = MUSTER_DTYPE_INT8;
    void *group = lab_group(&lab, lab.ctx, true);
    void *call = lab_call(&lab, lab.ctx, &op);
    muster_track_stop(lab.rec, call);
    assert_null(lab_launch(&lab, lab.ctx, call, &in_bytes)); /* shown while it is captured */
    muster_track_stop(lab.rec, group);
    lab_drain(&lab, 0);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_GATHER), 0);
    for (int i = 0; i < 3; i++)
        assert_non_null(lab_launch(&lab, lab.ctx, call, &in_bytes));
    lab_drain(&lab, 0);
    assert_int_equal(lab_row(&lab, MUSTER_FUNC_ALL_GATHER)->graph, 3);
    assert_int_equal(lab_bytes(&lab, MUSTER_FUNC_ALL_GATHER), 3 * 4 * 400);
    assert_int_equal(lab_last(&lab)->dtype, MUSTER_DTYPE_FLOAT32);
    assert_int_equal(lab.rec->seg->comm[0].captured, 1);
    lab_close(&lab);
}

static void a_call_whose_launch_is_never_shown_counts_when_the_communicator_moves_on(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, false, true);
    struct muster_event_op op = lab_op(MUSTER_FUNC_ALL_REDUCE, 1);
    lab_group(&lab, lab.ctx, false);
    lab_call(&lab, lab.ctx, &op);
    lab_drain(&lab, 10 * MUSTER_NS_PER_S);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 0); /* it may be blocked in NCCL */
    lab_group(&lab, lab.ctx, false);
    lab_call(&lab, lab.ctx, &op);
    lab_drain(&lab, 10 * MUSTER_NS_PER_S);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 1);
    assert_int_equal(lab_row(&lab, MUSTER_FUNC_ALL_REDUCE)->api_only, 1);
    lab_close(&lab);
}

static void the_order_of_calls_is_kept_even_without_a_free_slot(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, true, true);
    unsigned issued = MUSTER_SEG_SLOTS + 500;
    for (unsigned i = 0; i < issued; i++)
        lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, i);
    assert_int_equal(atomic_load(&lab.rec->seg->comm[0].calls), issued);
    assert_int_equal(lab_drops(&lab, MUSTER_DROP_NO_SLOT), 500);
    assert_int_equal(lab.rec->seg->comm[0].call[(issued - 1) % MUSTER_SEG_CALLS].count, issued - 1);
    lab_close(&lab);
}

static void a_neighbours_many_operations_leave_a_free_slot(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, false, true);
    void *other = lab_comm(&lab, 0xb, 4, 1, 5);
    struct muster_event_op op = lab_op(MUSTER_FUNC_ALL_REDUCE, 1);
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS * 3 / 4; i++)
        assert_non_null(lab_call(&lab, lab.ctx, &op));
    for (unsigned i = 0; i < 100; i++)
        assert_non_null(lab_call(&lab, other, &op));
    assert_int_equal(lab_drops(&lab, MUSTER_DROP_NO_SLOT), 0);
    lab_close(&lab);
}

static void slots_are_used_again_after_they_are_retired(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, false, true);
    for (unsigned i = 0; i < 5 * MUSTER_SEG_SLOTS; i++) {
        assert_non_null(lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1));
        if (i % 1000 == 999)
            lab_drain(&lab, 0);
    }
    lab_drain(&lab, 0);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 5 * MUSTER_SEG_SLOTS);
    lab_close(&lab);
}

static void two_ranks_that_call_the_same_have_the_same_hash(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, false, true);
    void *other = lab_comm(&lab, 0xc0ffee, 4, 1, 5);
    for (unsigned i = 0; i < 20; i++) {
        lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, i);
        lab_collective(&lab, other, MUSTER_FUNC_ALL_REDUCE, i);
    }
    const struct muster_seg_comm *a = &lab.rec->seg->comm[0], *b = &lab.rec->seg->comm[1];
    assert_int_equal(atomic_load(&a->call_hash), atomic_load(&b->call_hash));
    lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 7);
    lab_collective(&lab, other, MUSTER_FUNC_ALL_REDUCE, 8);
    assert_int_not_equal(atomic_load(&a->call_hash), atomic_load(&b->call_hash));
    lab_close(&lab);
}

static void handles_that_are_stale_foreign_or_nonsense_change_nothing(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, false, true);
    void *op = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    lab_drain(&lab, 0);
    assert_null(lab_kernel(&lab, op, 0, 1000));
    assert_int_equal(lab_drops(&lab, MUSTER_DROP_STALE), 1);
    assert_null(lab_kernel(&lab, (void *)(uintptr_t)0x7f0012345678, 0, 1000));
    assert_int_equal(lab_drops(&lab, MUSTER_DROP_FOREIGN), 1);
    for (unsigned kind = 0; kind < 16; kind++) {
        void *wild = muster_handle_pack(lab.rec->nonce, kind, 0xffffff, 0xffff);
        struct muster_event_args args = {.given = true, .ptimer = 1};
        for (unsigned s = 0; s < 40; s++)
            muster_track_state(lab.rec, wild, s, &args);
        muster_track_stop(lab.rec, wild);
        muster_recorder_comm_close(lab.rec, wild);
    }
    lab_drain(&lab, 0);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 1);
    lab_close(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_eager_collective_counts_once_with_its_bytes),
        cmocka_unit_test(the_call_decides_count_and_type_the_launch_algorithm_and_channels),
        cmocka_unit_test(sends_and_receives_are_numbered_per_directed_pair),
        cmocka_unit_test(a_captured_call_is_no_operation_its_replays_are),
        cmocka_unit_test(a_call_whose_launch_is_never_shown_counts_when_the_communicator_moves_on),
        cmocka_unit_test(the_order_of_calls_is_kept_even_without_a_free_slot),
        cmocka_unit_test(a_neighbours_many_operations_leave_a_free_slot),
        cmocka_unit_test(slots_are_used_again_after_they_are_retired),
        cmocka_unit_test(two_ranks_that_call_the_same_have_the_same_hash),
        cmocka_unit_test(handles_that_are_stale_foreign_or_nonsense_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
