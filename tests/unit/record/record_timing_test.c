#include "record_testbed.h"

enum { CHANNELS = 8, GPU_NOW = 1000000000 };

/* Eight channels that start at begin + channel and stop at begin + length - channel. */
static void kernels(struct testbed *testbed, void *op, uint64_t begin, uint64_t length)
{
    void *kernel[CHANNELS];
    for (unsigned c = 0; c < CHANNELS; c++)
        kernel[c] = testbed_kernel(testbed, op, c, begin + c);
    for (unsigned c = 0; c < CHANNELS; c++)
        testbed_kernel_stop(testbed, kernel[c], begin + length - c);
}

static void duration_is_first_start_to_last_stop(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    kernels(&testbed, testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1024),
            GPU_NOW, 50000);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_last(&testbed)->source, MUSTER_SOURCE_GPU);
    assert_int_equal(testbed_last(&testbed)->begin_ns, GPU_NOW);
    assert_int_equal(testbed_last(&testbed)->end_ns, GPU_NOW + 50000);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->timed, 1);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->sum_ns, 50000);
    testbed_close(&testbed);
}

static void an_operation_waits_in_flight_for_its_last_channel(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1024);
    void *first = testbed_kernel(&testbed, op, 0, GPU_NOW);
    testbed_kernel_stop(&testbed, first, GPU_NOW + 10);
    testbed_drain(&testbed, 60 * MUSTER_NS_PER_S);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 0);
    for (unsigned c = 1; c < CHANNELS; c++)
        testbed_kernel_stop(&testbed, testbed_kernel(&testbed, op, c, GPU_NOW), GPU_NOW + 20);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_last(&testbed)->end_ns, GPU_NOW + 20);
    testbed_close(&testbed);
}

/* NCCL issue 2056: a send or receive announces more channels than it uses. */
static void a_send_ends_when_its_channels_are_quiet(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    uint64_t before = muster_now_ns();
    void *op = testbed_p2p(&testbed, testbed.ctx, MUSTER_FUNC_SEND, 2, 1024, 16);
    for (unsigned c = 0; c < 4; c++)
        testbed_kernel_stop(&testbed, testbed_kernel(&testbed, op, c, GPU_NOW + c), GPU_NOW + 100);
    muster_drain_pass(testbed.rec, before); /* however slow this machine is */
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_SEND), 0);
    testbed_drain(&testbed, MUSTER_NS_PER_S);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_SEND)->sum_ns, 100);
    testbed_close(&testbed);
}

static void implausible_stamps_are_refused_by_reason_and_the_operation_still_counts(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, true);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&testbed, op, GPU_NOW, 3600 * MUSTER_NS_PER_S); /* an hour since just now */
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_TIME_LONG), 1);
    op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&testbed, op, 4 * (uint64_t)GPU_NOW, 0); /* stop at and before start */
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_TIME_ORDER), CHANNELS);
    op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&testbed, op, 2 * (uint64_t)GPU_NOW, 20); /* good, in spite of the first one's stop */
    op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&testbed, op, GPU_NOW, 20); /* before the good one's stop */
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_TIME_BACK), CHANNELS);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 4);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->timed, 1);
    testbed_close(&testbed);
}

static void operations_of_one_kernel_share_their_stamps(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    void *a = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    void *b = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&testbed, a, GPU_NOW, 100);
    kernels(&testbed, b, GPU_NOW, 100);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->timed, 2);
    testbed_close(&testbed);
}

static void a_channel_out_of_range_is_refused(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    assert_null(testbed_kernel(&testbed, op, 64, GPU_NOW));
    assert_null(testbed_kernel(&testbed, op, 255, GPU_NOW));
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_CHANNEL), 2);
    testbed_close(&testbed);
}

static void a_second_stop_of_the_same_kernel_changes_nothing(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    void *kernel = testbed_kernel(&testbed, op, 0, GPU_NOW);
    for (int i = 0; i < CHANNELS; i++)
        testbed_kernel_stop(&testbed, kernel, GPU_NOW + 100);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE),
                     0); /* seven channels are missing */
    testbed_close(&testbed);
}

static void what_never_ended_is_retired_without_times_after_finalize(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, true, false);
    void *op = testbed_collective(&testbed, testbed.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    testbed_kernel(&testbed, op, 0, GPU_NOW);
    muster_recorder_comm_close(testbed.rec, testbed.ctx);
    testbed_drain(&testbed, 5 * MUSTER_NS_PER_S);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 1);
    assert_int_equal(testbed_last(&testbed)->source, MUSTER_SOURCE_NONE);
    assert_true(testbed_last(&testbed)->flags & MUSTER_OP_INCOMPLETE);
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_INCOMPLETE), 1);
    testbed_close(&testbed);
}

/* A report says how sparsely auto timed. With full and light, and where nothing is known of the
 * GPU, there is nothing of it to say, whatever timing costs. */
static void only_auto_with_a_gpu_has_levels(void **state)
{
    (void)state;
    static const struct muster_recorder_options without[] = {
        {.timing = MUSTER_TIMING_FULL, .played = true, .cpus = 8},
        {.timing = MUSTER_TIMING_LIGHT, .played = true, .cpus = 8},
        {.timing = MUSTER_TIMING_AUTO, .cpus = 8},
    };
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    struct muster_event send = {.kind = MUSTER_EVENT_P2P_API,
                                .op = testbed_op(MUSTER_FUNC_SEND, 1024)};
    for (unsigned i = 0; i < sizeof without / sizeof *without; i++) {
        struct testbed testbed;
        testbed_open_with(&testbed, &without[i]);
        void *ctx = testbed_comm(&testbed, 0xabc, 4, 1, 5);
        atomic_store(&testbed.rec->meter.load_ppm, 1000000);
        atomic_store(&testbed.rec->meter.since_ns, UINT64_MAX / 2);
        for (unsigned k = 0; k <= MUSTER_SAMPLING_WINDOW; k++) {
            testbed_group(&testbed, ctx, false);
            testbed_launch(&testbed, ctx, testbed_call(&testbed, ctx, &op), &op);
            testbed_group(&testbed, ctx, false);
            muster_track_start(testbed.rec, ctx, &send);
        }
        assert_int_equal(atomic_load(&testbed.rec->seg->comm[1].timing), 0);
        testbed_close(&testbed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(duration_is_first_start_to_last_stop),
        cmocka_unit_test(an_operation_waits_in_flight_for_its_last_channel),
        cmocka_unit_test(a_send_ends_when_its_channels_are_quiet),
        cmocka_unit_test(implausible_stamps_are_refused_by_reason_and_the_operation_still_counts),
        cmocka_unit_test(operations_of_one_kernel_share_their_stamps),
        cmocka_unit_test(a_channel_out_of_range_is_refused),
        cmocka_unit_test(a_second_stop_of_the_same_kernel_changes_nothing),
        cmocka_unit_test(what_never_ended_is_retired_without_times_after_finalize),
        cmocka_unit_test(only_auto_with_a_gpu_has_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
