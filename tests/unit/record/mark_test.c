#include "lab.h"

#include <string.h>

/* A driver whose events are over when the test says so. */
static struct {
    int recorded, queries, over, capturing, failing, capture_mode;
    char event[MUSTER_MARKS];
    int made;
} gpu;

static int get_current(void **ctx)
{
    *ctx = &gpu;
    return 0;
}
static int set_current(void *ctx)
{
    assert_ptr_equal(ctx, &gpu);
    return 0;
}
static int create(void **event, unsigned flags)
{
    assert_int_equal(flags, 2); /* CU_EVENT_DISABLE_TIMING */
    *event = &gpu.event[gpu.made++];
    return 0;
}
static int record(void *event, void *stream)
{
    (void)event;
    assert_ptr_equal(stream, (void *)0x57);
    gpu.recorded++;
    return 0;
}
static int query(void *event)
{
    (void)event;
    gpu.queries++;
    return gpu.failing ? 700 : gpu.over ? 0 : 600;
}
static int is_capturing(void *stream, int *status)
{
    (void)stream;
    *status = gpu.capturing;
    return 0;
}
static int exchange(int *mode)
{
    __atomic_store_n(&gpu.capture_mode, *mode, __ATOMIC_RELEASE);
    return 0;
}

static void *begin(struct lab *lab)
{
    memset(&gpu, 0, sizeof gpu);
    lab_open(lab, false, true);
    lab->rec->marks.cuda = (struct muster_mark_driver){get_current, set_current,  create,  record,
                                                       query,       is_capturing, exchange};
    lab->rec->marks.possible = true;
    return lab_comm(lab, 0xabc, 4, 1, 5);
}

/* A collective and the launch before it, as NCCL shows them; the clock says when. */
static void step(struct lab *lab, void *ctx)
{
    struct muster_event_op op = lab_op(MUSTER_FUNC_ALL_REDUCE, 1);
    void *call = lab_call(lab, ctx, &op);
    struct muster_event launch = {.kind = MUSTER_EVENT_KERNEL_LAUNCH,
                                  .kernel_launch = {.stream = (void *)0x57}};
    muster_track_stop(lab->rec, muster_track_start(lab->rec, ctx, &launch));
    lab_launch(lab, ctx, call, &op);
}

static const struct muster_seg_comm *entry(const struct lab *lab)
{
    return &lab->rec->seg->comm[1];
}

static void a_finished_mark_proves_the_launches_before_it(void **state)
{
    (void)state;
    struct lab lab;
    void *ctx = begin(&lab);
    step(&lab, ctx);
    assert_int_equal(gpu.recorded, 1);
    atomic_store(&lab.rec->marks.last_ns, UINT64_MAX / 2); /* none for the next two */
    step(&lab, ctx);
    step(&lab, ctx);
    assert_int_equal(gpu.recorded, 1);
    muster_marks_poll(&lab.rec->marks);
    assert_int_equal(atomic_load(&entry(&lab)->launches_ended), 0);
    gpu.over = 1;
    muster_marks_poll(&lab.rec->marks);
    assert_int_equal(atomic_load(&entry(&lab)->launches), 3);
    assert_int_equal(atomic_load(&entry(&lab)->launches_ended), 1);
    lab_close(&lab);
}

static void marks_keep_their_distance(void **state)
{
    (void)state;
    struct lab lab;
    void *ctx = begin(&lab);
    uint64_t before = muster_now_ns();
    for (int i = 0; i < 200; i++)
        step(&lab, ctx);
    uint64_t took = muster_now_ns() - before;
    assert_true((uint64_t)gpu.recorded <= took / MUSTER_MARK_INTERVAL_NS + 1);
    lab_close(&lab);
}

static void nothing_is_recorded_into_a_capture_or_a_timed_block(void **state)
{
    (void)state;
    struct lab lab;
    void *ctx = begin(&lab);
    gpu.capturing = 1;
    step(&lab, ctx);
    assert_int_equal(gpu.recorded, 0);
    gpu.capturing = 0;
    lab.rec->arming.always = true;
    atomic_store(&lab.rec->marks.last_ns, 0);
    step(&lab, ctx);
    assert_int_equal(gpu.recorded, 0);
    assert_int_equal(atomic_load(&entry(&lab)->launches), 2);
    lab_close(&lab);
}

static void more_unfinished_marks_than_events_are_left_out(void **state)
{
    (void)state;
    struct lab lab;
    void *ctx = begin(&lab);
    for (int i = 0; i < 2 * MUSTER_MARKS; i++) {
        atomic_store(&lab.rec->marks.last_ns, 0);
        step(&lab, ctx);
    }
    assert_int_equal(gpu.recorded, MUSTER_MARKS);
    gpu.over = 1;
    muster_marks_poll(&lab.rec->marks);
    assert_int_equal(atomic_load(&entry(&lab)->launches_ended), MUSTER_MARKS);
    atomic_store(&lab.rec->marks.last_ns, 0);
    step(&lab, ctx);
    assert_int_equal(gpu.recorded, MUSTER_MARKS + 1);
    lab_close(&lab);
}

/* Communicators that come and go share the entries of the segment. */
static void a_mark_in_flight_says_nothing_of_who_gets_the_entry(void **state)
{
    (void)state;
    enum { KEPT_FREE = 16 };
    struct lab lab;
    void *ctx = begin(&lab);
    step(&lab, ctx);
    assert_int_equal(gpu.recorded, 1);
    lab_drain(&lab, 0);
    muster_recorder_comm_close(lab.rec, ctx);
    for (unsigned i = 2; i < MUSTER_SEG_COMMS - KEPT_FREE + 1; i++)
        lab_comm(&lab, 0x1000 + i, 4, 1, 5);
    lab_drain(&lab, MUSTER_NS_PER_S);
    assert_int_equal(entry(&lab)->uid, 0);
    lab_comm(&lab, 0xdef, 4, 1, 5);
    assert_int_equal(entry(&lab)->id, 0xdef);
    gpu.over = 1;
    muster_marks_poll(&lab.rec->marks);
    assert_true(gpu.queries > 0);
    assert_int_equal(atomic_load(&entry(&lab)->launches_ended), 0);
    lab_close(&lab);
}

static void a_driver_that_fails_is_not_asked_again(void **state)
{
    (void)state;
    struct lab lab;
    void *ctx = begin(&lab);
    step(&lab, ctx);
    gpu.failing = 1;
    muster_marks_poll(&lab.rec->marks);
    int queries = gpu.queries;
    muster_marks_poll(&lab.rec->marks);
    atomic_store(&lab.rec->marks.last_ns, 0);
    step(&lab, ctx);
    assert_int_equal(gpu.queries, queries);
    assert_int_equal(gpu.recorded, 1);
    assert_int_equal(atomic_load(&entry(&lab)->launches_ended), 0);
    lab_close(&lab);
}

/* A query in the default mode would break another thread's capture. */
static void the_thread_relaxes_its_capture_mode_before_it_asks(void **state)
{
    (void)state;
    struct lab lab;
    begin(&lab);
    assert_int_equal(muster_marks_start(&lab.rec->marks), 0);
    while (__atomic_load_n(&gpu.capture_mode, __ATOMIC_ACQUIRE) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(gpu.capture_mode, 2);
    atomic_store(&lab.rec->marks.stopped, true);
    lab_close(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_finished_mark_proves_the_launches_before_it),
        cmocka_unit_test(marks_keep_their_distance),
        cmocka_unit_test(nothing_is_recorded_into_a_capture_or_a_timed_block),
        cmocka_unit_test(more_unfinished_marks_than_events_are_left_out),
        cmocka_unit_test(a_mark_in_flight_says_nothing_of_who_gets_the_entry),
        cmocka_unit_test(a_driver_that_fails_is_not_asked_again),
        cmocka_unit_test(the_thread_relaxes_its_capture_mode_before_it_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
