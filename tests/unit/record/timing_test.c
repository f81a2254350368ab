#include "lab.h"

enum { CHANNELS = 8, GPU_NOW = 1000000000 };

/* Eight channels that start at begin + channel and stop at begin + length - channel. */
static void kernels(struct lab *lab, void *op, uint64_t begin, uint64_t length)
{
    void *kernel[CHANNELS];
    for (unsigned c = 0; c < CHANNELS; c++)
        kernel[c] = lab_kernel(lab, op, c, begin + c);
    for (unsigned c = 0; c < CHANNELS; c++)
        lab_kernel_stop(lab, kernel[c], begin + length - c);
}

static void duration_is_first_start_to_last_stop(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, true, false);
    kernels(&lab, lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1024), GPU_NOW, 50000);
    lab_drain(&lab, 0);
    assert_int_equal(lab_last(&lab)->source, MUSTER_SOURCE_GPU);
    assert_int_equal(lab_last(&lab)->begin_ns, GPU_NOW);
    assert_int_equal(lab_last(&lab)->end_ns, GPU_NOW + 50000);
    assert_int_equal(lab_row(&lab, MUSTER_FUNC_ALL_REDUCE)->timed, 1);
    assert_int_equal(lab_row(&lab, MUSTER_FUNC_ALL_REDUCE)->sum_ns, 50000);
    lab_close(&lab);
}

static void an_operation_waits_in_flight_for_its_last_channel(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, true, false);
    void *op = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1024);
    void *first = lab_kernel(&lab, op, 0, GPU_NOW);
    lab_kernel_stop(&lab, first, GPU_NOW + 10);
    lab_drain(&lab, 60 * MUSTER_NS_PER_S);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 0);
    for (unsigned c = 1; c < CHANNELS; c++)
        lab_kernel_stop(&lab, lab_kernel(&lab, op, c, GPU_NOW), GPU_NOW + 20);
    lab_drain(&lab, 0);
    assert_int_equal(lab_last(&lab)->end_ns, GPU_NOW + 20);
    lab_close(&lab);
}

/* NCCL issue 2056: a send or receive announces more channels than it uses. */
static void a_send_ends_when_its_channels_are_quiet(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, true, false);
    uint64_t before = muster_now_ns();
    void *op = lab_p2p(&lab, lab.ctx, MUSTER_FUNC_SEND, 2, 1024, 16);
    for (unsigned c = 0; c < 4; c++)
        lab_kernel_stop(&lab, lab_kernel(&lab, op, c, GPU_NOW + c), GPU_NOW + 100);
    muster_drain_pass(lab.rec, before); /* however slow this machine is */
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_SEND), 0);
    lab_drain(&lab, MUSTER_NS_PER_S);
    assert_int_equal(lab_row(&lab, MUSTER_FUNC_SEND)->sum_ns, 100);
    lab_close(&lab);
}

static void implausible_stamps_are_refused_by_reason_and_the_operation_still_counts(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, true, true);
    void *op = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&lab, op, GPU_NOW, 3600 * MUSTER_NS_PER_S); /* an hour since just now */
    assert_int_equal(lab_drops(&lab, MUSTER_DROP_TIME_LONG), 1);
    op = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&lab, op, 4 * (uint64_t)GPU_NOW, 0); /* stop at and before start */
    assert_int_equal(lab_drops(&lab, MUSTER_DROP_TIME_ORDER), CHANNELS);
    op = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&lab, op, 2 * (uint64_t)GPU_NOW, 20); /* good, in spite of the first one's stop */
    op = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&lab, op, GPU_NOW, 20); /* before the good one's stop */
    assert_int_equal(lab_drops(&lab, MUSTER_DROP_TIME_BACK), CHANNELS);
    lab_drain(&lab, 0);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 4);
    assert_int_equal(lab_row(&lab, MUSTER_FUNC_ALL_REDUCE)->timed, 1);
    lab_close(&lab);
}

static void operations_of_one_kernel_share_their_stamps(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, true, false);
    void *a = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    void *b = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    kernels(&lab, a, GPU_NOW, 100);
    kernels(&lab, b, GPU_NOW, 100);
    lab_drain(&lab, 0);
    assert_int_equal(lab_row(&lab, MUSTER_FUNC_ALL_REDUCE)->timed, 2);
    lab_close(&lab);
}

static void a_channel_out_of_range_is_refused(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, true, false);
    void *op = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    assert_null(lab_kernel(&lab, op, 64, GPU_NOW));
    assert_null(lab_kernel(&lab, op, 255, GPU_NOW));
    assert_int_equal(lab_drops(&lab, MUSTER_DROP_CHANNEL), 2);
    lab_close(&lab);
}

static void a_second_stop_of_the_same_kernel_changes_nothing(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, true, false);
    void *op = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    void *kernel = lab_kernel(&lab, op, 0, GPU_NOW);
    for (int i = 0; i < CHANNELS; i++)
        lab_kernel_stop(&lab, kernel, GPU_NOW + 100);
    lab_drain(&lab, 0);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 0); /* seven channels are missing */
    lab_close(&lab);
}

static void what_never_ended_is_retired_without_times_after_finalize(void **state)
{
    (void)state;
    struct lab lab;
    lab_open(&lab, true, false);
    void *op = lab_collective(&lab, lab.ctx, MUSTER_FUNC_ALL_REDUCE, 1);
    lab_kernel(&lab, op, 0, GPU_NOW);
    muster_recorder_comm_close(lab.rec, lab.ctx);
    lab_drain(&lab, 5 * MUSTER_NS_PER_S);
    assert_int_equal(lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 1);
    assert_int_equal(lab_last(&lab)->source, MUSTER_SOURCE_NONE);
    assert_true(lab_last(&lab)->flags & MUSTER_OP_INCOMPLETE);
    assert_int_equal(lab_drops(&lab, MUSTER_DROP_INCOMPLETE), 1);
    lab_close(&lab);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
