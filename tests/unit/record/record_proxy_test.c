#include "record_testbed.h"

static void *proxy(struct testbed *testbed, void *parent, bool send, pid_t pid)
{
    struct muster_event event = {
        .kind = MUSTER_EVENT_PROXY_OP,
        .parent = parent,
        .proxy_op = {.pid = pid, .peer = 3, .steps = 4, .chunk = 4096, .send = send}};
    return muster_track_start(testbed->rec, testbed->ctx, &event);
}

static void state(struct testbed *testbed, void *handle, unsigned what, uint64_t bytes)
{
    struct muster_event_args args = {.given = true, .trans_bytes = bytes};
    muster_track_state(testbed->rec, handle, what, &args);
}

static const struct muster_seg_net *only_net(const struct testbed *testbed)
{
    assert_int_equal(testbed->rec->seg->net[3].comm, 0);
    assert_int_not_equal(testbed->rec->seg->net[2].comm, 0);
    return &testbed->rec->seg->net[2];
}

static void steps_give_bytes_and_waits(void **unused)
{
    (void)unused;
    struct testbed testbed;
    testbed_open(&testbed, true, true);
    const uint64_t before = muster_now_ns();
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1024);
    void *p = proxy(&testbed, op, true, testbed.rec->pid);
    state(&testbed, p, MUSTER_STATE_PROXY_OP_IN_PROGRESS, 0);
    for (int s = 0; s < 4; s++) {
        struct muster_event event = {
            .kind = MUSTER_EVENT_PROXY_STEP, .parent = p, .proxy_step = {s}};
        void *step = muster_track_start(testbed.rec, testbed.ctx, &event);
        state(&testbed, step, MUSTER_STATE_SEND_GPU_WAIT, 0);
        state(&testbed, step, MUSTER_STATE_SEND_PEER_WAIT, 100);
        state(&testbed, step, MUSTER_STATE_SEND_WAIT, 100);
        muster_track_stop(testbed.rec, step);
    }
    muster_track_stop(testbed.rec, p);
    testbed_drain(&testbed, 0);
    const struct muster_seg_net *net = only_net(&testbed);
    assert_int_equal(net->peer, 3);
    assert_int_equal(net->send, 1);
    assert_int_equal(net->count, 1);
    assert_int_equal(net->steps, 4);
    assert_int_equal(net->bytes, 400);
    assert_true(net->gpu_wait_ns > 0 && net->credit_wait_ns > 0 && net->net_wait_ns > 0);
    /* One step after the other: their waits fit between begin and end. */
    const uint64_t took = muster_now_ns() - before;
    assert_in_range(net->gpu_wait_ns, 1, took);
    assert_in_range(net->credit_wait_ns, 1, took);
    assert_in_range(net->net_wait_ns, 1, took);
    assert_in_range(net->gpu_wait_ns + net->credit_wait_ns + net->net_wait_ns, 3, took);
    assert_int_equal(net->flush_ns, 0);
    testbed_close(&testbed);
}

/* 4 KiB over a ring of 4 in 8 channels: 2 * 3 / 4 of it, an eighth per channel. */
static void without_steps_a_ring_gives_the_bytes_and_the_proxy_the_time(void **unused)
{
    (void)unused;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    testbed.ctx = testbed_comm(&testbed, 0xbeef, 4, 2, 5);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1024);
    void *p = proxy(&testbed, op, false, testbed.rec->pid);
    testbed_drain(&testbed, 60 * MUSTER_NS_PER_S);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 0); /* outstanding */
    state(&testbed, p, MUSTER_STATE_PROXY_OP_IN_PROGRESS, 0);
    muster_track_stop(testbed.rec, p);
    testbed_drain(&testbed, MUSTER_NS_PER_S);
    assert_int_equal(only_net(&testbed)->bytes, 4096 * 6 / 4 / 8);
    assert_int_equal(only_net(&testbed)->unsized, 0);
    assert_int_equal(testbed_last(&testbed)->source, MUSTER_SOURCE_PROXY);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->proxy_timed, 1);
    testbed_close(&testbed);
}

/* The operation's GPU times are whole and it is over; NCCL's proxy takes its part up only then. */
static void a_part_that_begins_after_its_operation_is_counted_and_no_drop(void **unused)
{
    (void)unused;
    struct testbed testbed;
    testbed_open(&testbed, true, true);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_BROADCAST, 1024);
    for (unsigned c = 0; c < 8; c++)
        testbed_kernel_stop(&testbed, testbed_kernel(&testbed, op, c, 1000), 2000);
    testbed_drain(&testbed, 60 * MUSTER_NS_PER_S);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_BROADCAST), 1);
    void *p = proxy(&testbed, op, true, testbed.rec->pid);
    assert_non_null(p);
    state(&testbed, p, MUSTER_STATE_PROXY_OP_IN_PROGRESS, 0);
    muster_track_stop(testbed.rec, p);
    testbed_drain(&testbed, 0);
    assert_int_equal(only_net(&testbed)->count, 1);
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_STALE), 0);
    testbed_close(&testbed);
}

/* Its kernels have ended, and NCCL's proxy has not yet said so of its part. */
static void a_part_that_ends_after_the_kernels_leaves_their_times(void **unused)
{
    (void)unused;
    struct testbed testbed;
    testbed_open(&testbed, true, true);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1024);
    void *p = proxy(&testbed, op, true, testbed.rec->pid);
    for (unsigned c = 0; c < 8; c++)
        testbed_kernel_stop(&testbed, testbed_kernel(&testbed, op, c, 1000), 2000);
    testbed_drain(&testbed, 60 * MUSTER_NS_PER_S);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 0);
    muster_track_stop(testbed.rec, p);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_last(&testbed)->source, MUSTER_SOURCE_GPU);
    assert_int_equal(testbed_last(&testbed)->flags & MUSTER_OP_INCOMPLETE, 0);
    testbed_close(&testbed);
}

static void a_proxys_handle_ends_with_it(void **unused)
{
    (void)unused;
    struct testbed testbed;
    testbed_open(&testbed, true, true);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1024);
    void *p = proxy(&testbed, op, true, testbed.rec->pid);
    muster_track_stop(testbed.rec, p);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_STALE), 0);
    state(&testbed, p, MUSTER_STATE_PROXY_OP_IN_PROGRESS, 0);
    muster_track_stop(testbed.rec, p);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_STALE), 2);
    assert_int_equal(only_net(&testbed)->count, 1);
    testbed_close(&testbed);
}

static void work_for_another_process_is_not_ours(void **unused)
{
    (void)unused;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    assert_null(proxy(&testbed, (void *)(uintptr_t)0x55aa55aa55aa, true, testbed.rec->pid + 1));
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_FOREIGN), 1);
    testbed_close(&testbed);
}

static void steps_of_a_refused_operation_are_ignored(void **unused)
{
    (void)unused;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    struct muster_event event = {.kind = MUSTER_EVENT_PROXY_STEP};
    assert_null(muster_track_start(testbed.rec, testbed.ctx, &event));
    event.parent = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    assert_null(muster_track_start(testbed.rec, testbed.ctx, &event));
    testbed_close(&testbed);
}

static void more_proxy_operations_than_slots_are_dropped_and_counted(void **unused)
{
    (void)unused;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    for (unsigned i = 0; i < MUSTER_PROXY_SLOTS + 7; i++)
        proxy(&testbed, NULL, true, testbed.rec->pid);
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_NO_PROXY_SLOT), 7);
    testbed_close(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_give_bytes_and_waits),
        cmocka_unit_test(without_steps_a_ring_gives_the_bytes_and_the_proxy_the_time),
        cmocka_unit_test(a_part_that_begins_after_its_operation_is_counted_and_no_drop),
        cmocka_unit_test(a_part_that_ends_after_the_kernels_leaves_their_times),
        cmocka_unit_test(a_proxys_handle_ends_with_it),
        cmocka_unit_test(work_for_another_process_is_not_ours),
        cmocka_unit_test(steps_of_a_refused_operation_are_ignored),
        cmocka_unit_test(more_proxy_operations_than_slots_are_dropped_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
