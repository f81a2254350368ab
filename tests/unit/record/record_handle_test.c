/* Handles outlive what they name: a slot's next life is another operation. */
#include "record_testbed.h"

static unsigned slot_of(const void *handle)
{
    return muster_handle_unpack(handle).index;
}

/* Makes operations until one takes the slot of `old`, whose operation is over. */
static void *next_in_slot_of(struct testbed *testbed, const void *old,
                             void *(*make)(struct testbed *testbed))
{
    for (unsigned i = 0; i < 4 * MUSTER_SEG_SLOTS; i++) {
        void *handle = make(testbed);
        if (slot_of(handle) == slot_of(old))
            return handle;
        testbed_drain(testbed, 10 * MUSTER_NS_PER_S);
    }
    fail_msg("no operation took slot %u again", slot_of(old));
    return NULL;
}

static void *make_launched(struct testbed *testbed)
{
    return testbed_collective(testbed, testbed->ctx, MUSTER_FUNC_ALL_REDUCE, 1);
}

static void *make_called(struct testbed *testbed)
{
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    testbed_group(testbed, testbed->ctx, false);
    return testbed_call(testbed, testbed->ctx, &op);
}

static void a_handle_names_one_life_of_its_slot(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    void *old = make_launched(&testbed);
    assert_non_null(muster_track_slot(testbed.rec, old));
    testbed_drain(&testbed, 0);
    void *later = next_in_slot_of(&testbed, old, make_launched);
    uint64_t refused = testbed_drops(&testbed, MUSTER_DROP_STALE);
    assert_null(muster_track_slot(testbed.rec, old));
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_STALE), refused + 1);
    assert_non_null(muster_track_slot(testbed.rec, later));
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_STALE), refused + 1);
    testbed_close(&testbed);
}

/* All channels of an operation's kernel; returns channel 0's handle, which is over. */
static void *run_kernels(struct testbed *testbed, void *op, uint64_t *now)
{
    unsigned channels = testbed->rec->seg->slot[slot_of(op)].channels;
    void *first = NULL;
    for (unsigned c = 0; c < channels; c++) {
        void *kernel = testbed_kernel(testbed, op, c, *now += 1000);
        first = c == 0 ? kernel : first;
        testbed_kernel_stop(testbed, kernel, *now += 1000);
    }
    testbed_drain(testbed, 0);
    return first;
}

/* A stop comes once more, while the next operation's kernel runs on the same channel. */
static void a_kernels_handle_names_one_life_of_its_slot(void **state)
{
    (void)state;
    struct testbed testbed;
    uint64_t now = 0;
    testbed_open(&testbed, true, false);
    void *old = make_launched(&testbed), *later = NULL;
    void *over = run_kernels(&testbed, old, &now);
    for (unsigned i = 0; i < 4 * MUSTER_SEG_SLOTS && !later; i++) {
        void *op = make_launched(&testbed);
        if (slot_of(op) == slot_of(old))
            later = op;
        else
            run_kernels(&testbed, op, &now);
    }
    assert_non_null(later);
    assert_non_null(testbed_kernel(&testbed, later, 0, now += 1000));
    uint64_t refused = testbed_drops(&testbed, MUSTER_DROP_STALE);
    testbed_kernel_stop(&testbed, over, now + 1000);
    assert_int_equal(testbed_drops(&testbed, MUSTER_DROP_STALE), refused + 1);
    assert_int_equal(testbed.rec->seg->slot[slot_of(later)].ended, 0);
    testbed_close(&testbed);
}

/* The call was given up before its launch came; another call waits in its slot. */
static void a_late_launch_is_not_taken_for_the_next_calls(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    void *old = make_called(&testbed);
    make_called(&testbed);
    testbed_drain(&testbed, 10 * MUSTER_NS_PER_S); /* given up, */
    testbed_drain(&testbed, 20 * MUSTER_NS_PER_S); /* and free */
    void *later = next_in_slot_of(&testbed, old, make_called);
    struct muster_event_op launch = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    launch.algo = MUSTER_ALGO_TREE;
    assert_null(testbed_launch(&testbed, testbed.ctx, old, &launch));
    launch.algo = MUSTER_ALGO_NVLS;
    assert_non_null(testbed_launch(&testbed, testbed.ctx, later, &launch));
    testbed_drain(&testbed, 0);
    uint64_t launched = 0;
    for (unsigned r = 0; r < MUSTER_SEG_ROWS; r++) {
        const struct muster_seg_row *row = &testbed.rec->seg->row[r];
        launched += row->count - row->api_only;
        if (row->count > row->api_only)
            assert_int_equal(row->algo, MUSTER_ALGO_NVLS);
    }
    assert_int_equal(launched, 1);
    testbed_close(&testbed);
}

/* A process may be killed while a launch is written into its call's slot, or while the drain thread
 * gives the call up: it counts all the same, and only one of the two gets it. */
static void a_call_stays_a_call_for_readers_until_who_took_it_is_done(void **state)
{
    (void)state;
    struct testbed testbed;
    testbed_open(&testbed, false, true);
    void *call = make_called(&testbed);
    struct muster_handle h = muster_handle_unpack(call);
    assert_true(muster_track_take_call(testbed.rec, h.index, h.generation));
    assert_int_equal(atomic_load(&testbed.rec->seg->slot_state[h.index]),
                     muster_slot_word(h.generation, MUSTER_SLOT_CALLED));
    assert_false(muster_track_take_call(testbed.rec, h.index, h.generation));
    struct muster_event_op launch = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    assert_null(testbed_launch(&testbed, testbed.ctx, call, &launch));
    make_called(&testbed);
    testbed_drain(&testbed, 10 * MUSTER_NS_PER_S); /* would give it up */
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 0);
    assert_int_equal(atomic_load(&testbed.rec->seg->slot_state[h.index]),
                     muster_slot_word(h.generation, MUSTER_SLOT_CALLED));
    testbed_close(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handle_names_one_life_of_its_slot),
        cmocka_unit_test(a_kernels_handle_names_one_life_of_its_slot),
        cmocka_unit_test(a_late_launch_is_not_taken_for_the_next_calls),
        cmocka_unit_test(a_call_stays_a_call_for_readers_until_who_took_it_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
