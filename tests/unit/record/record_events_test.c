/* Launches timed by events, on a driver whose events are over when the test says so. */
#include "record_testbed.h"

#include <string.h>
#include <time.h>

#include "record/event_reader.h"
#include "record/launch_price.h"

enum { EVENTS = 4 * MUSTER_LAUNCHES * 3, RANKS = 4 };
#define STREAM ((void *)0x57)

struct event {
    unsigned flags;
    uint64_t order; /* of its last recording; 0: never */
    double at_ms;
};

static struct {
    struct event event[EVENTS];
    unsigned made, recorded, queries;
    uint64_t order, over; /* events recorded up to `over` are over */
    double now_ms;
    unsigned long long id;
    int capturing, failing, refusing, capture_mode;
} gpu;

static int get_current(void **ctx)
{
    *ctx = &gpu;
    return 0;
}
static int set_current(void *ctx)
{
    return ctx == &gpu ? 0 : 201;
}
static int get_id(void *ctx, unsigned long long *id)
{
    (void)ctx;
    *id = gpu.id;
    return 0;
}
static int create(void **event, unsigned flags)
{
    gpu.event[gpu.made] = (struct event){.flags = flags};
    *event = &gpu.event[gpu.made++];
    return 0;
}
static int record(void *event, void *stream)
{
    struct event *own = event;
    assert_ptr_equal(stream, STREAM);
    if (gpu.refusing)
        return 700;
    own->order = ++gpu.order;
    own->at_ms = gpu.now_ms;
    gpu.recorded++;
    return 0;
}
static int query(void *event)
{
    const struct event *own = event;
    gpu.queries++;
    return gpu.failing ? 700 : own->order <= gpu.over ? 0 : 600;
}
static int elapsed(float *ms, void *from, void *to)
{
    const struct event *a = from, *b = to;
    gpu.queries++;
    assert_int_equal(a->flags | b->flags, 0);
    if (gpu.failing)
        return 700;
    if (a->order > gpu.over || b->order > gpu.over)
        return 600;
    *ms = (float)(b->at_ms - a->at_ms);
    return 0;
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

static const struct muster_cuda driver = {get_current, set_current, get_id,       create,  record,
                                          query,       elapsed,     is_capturing, exchange};

static void *begin(struct testbed *testbed, enum muster_timing timing)
{
    memset(&gpu, 0, sizeof gpu);
    gpu.id = 7;
    struct muster_recorder_options options = {
        .timing = timing, .probes = true, .host_times = true, .cpus = 8};
    testbed_open_with(testbed, &options);
    testbed->rec->launches.cuda = driver;
    testbed->rec->launches.possible = true;
    testbed->rec->launches.stalled = true; /* no thread: nobody waits for it */
    return testbed_comm(testbed, 0xabc, RANKS, 1, 5);
}

static void launch(struct testbed *testbed, void *ctx, double ms)
{
    struct muster_event event = {.kind = MUSTER_EVENT_KERNEL_LAUNCH,
                                 .kernel_launch = {.stream = STREAM}};
    void *handle = muster_track_start(testbed->rec, ctx, &event);
    gpu.now_ms += ms;
    muster_track_stop(testbed->rec, handle);
}

/* A collective and its launch, which takes so long, as NCCL shows them. */
static void step(struct testbed *testbed, void *ctx, double ms)
{
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    testbed_group(testbed, ctx, false);
    void *call = testbed_call(testbed, ctx, &op);
    launch(testbed, ctx, ms);
    testbed_launch(testbed, ctx, call, &op);
}

static void all_over(struct testbed *testbed)
{
    gpu.over = gpu.order;
    muster_completion_poll(&testbed->rec->launches);
    testbed_drain(testbed, 0);
}

static const struct muster_seg_comm *entry(const struct testbed *testbed)
{
    return &testbed->rec->seg->comm[1];
}

static void a_launch_is_timed_by_the_events_around_it(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    step(&testbed, ctx, 2.5);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 0);
    all_over(&testbed);
    const struct muster_op first = *testbed_last(&testbed);
    assert_int_equal(first.source, MUSTER_SOURCE_EVENT);
    assert_int_equal(first.end_ns - first.begin_ns, 2500000);
    gpu.now_ms += 40;
    step(&testbed, ctx, 0.5);
    all_over(&testbed);
    /* The next one begins where the GPU's clock says, not the host's. */
    assert_int_equal(testbed_last(&testbed)->begin_ns - first.end_ns, 40000000);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->event_timed, 2);
    assert_int_equal(atomic_load(&entry(&testbed)->launches_ended), 2);
    testbed_close(&testbed);
}

/* In a replay the recorded stamps come instead of a GPU's events. */
static void a_played_operation_is_over_when_its_stamps_are_there(void **state)
{
    (void)state;
    struct testbed testbed;
    const struct muster_recorder_options options = {
        .timing = MUSTER_TIMING_FULL, .probes = true, .played = true, .cpus = 8};
    memset(&gpu, 0, sizeof gpu);
    testbed_open_with(&testbed, &options);
    testbed.rec->launches.possible = true;
    testbed.rec->launches.stalled = true; /* no thread: nobody waits for it */
    void *ctx = testbed_comm(&testbed, 0xabc, 4, 1, 5), *kernel[8];
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    testbed_group(&testbed, ctx, false);
    void *call = testbed_call(&testbed, ctx, &op);
    launch(&testbed, ctx, 1);
    void *handle = testbed_launch(&testbed, ctx, call, &op);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 0);
    for (unsigned c = 0; c < 8; c++)
        kernel[c] = testbed_kernel(&testbed, handle, c, 1000);
    testbed_kernel_stop(&testbed, kernel[0], 2000);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 0);
    for (unsigned c = 1; c < 8; c++)
        testbed_kernel_stop(&testbed, kernel[c], 2000 + c);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 1);
    assert_int_equal(testbed_last(&testbed)->end_ns - testbed_last(&testbed)->begin_ns, 1007);
    testbed_close(&testbed);
}

/* Another thread looks between a launch's ticket and its place. */
static void a_launch_whose_place_comes_late_is_timed(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    struct muster_gpu_context *context = &testbed.rec->launches.gpu[0];
    step(&testbed, ctx, 1);
    atomic_fetch_add(&context->next, 1);
    all_over(&testbed);
    atomic_fetch_sub(&context->next, 1);
    step(&testbed, ctx, 1);
    all_over(&testbed);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->event_timed, 2);
    testbed_close(&testbed);
}

/* The driver's float of milliseconds would be off by 4 us after a minute. */
static void an_hour_later_times_are_as_exact(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    for (unsigned i = 0; i < 3600; i++) {
        step(&testbed, ctx, 0.01);
        all_over(&testbed);
        assert_int_equal(testbed_last(&testbed)->end_ns - testbed_last(&testbed)->begin_ns, 10000);
        gpu.now_ms += 999.99;
    }
    testbed_close(&testbed);
}

static void what_is_launched_together_is_one_unit(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    struct muster_event event = {.kind = MUSTER_EVENT_P2P_API,
                                 .op = testbed_op(MUSTER_FUNC_SEND, 1024)};
    testbed_group(&testbed, ctx, false);
    for (unsigned i = 0; i < 6; i++)
        muster_track_start(testbed.rec, ctx, &event);
    launch(&testbed, ctx, 3);
    for (int peer = 0; peer < 4; peer++) {
        testbed_p2p(&testbed, ctx, MUSTER_FUNC_SEND, peer, 1024, 16);
        testbed_p2p(&testbed, ctx, MUSTER_FUNC_RECV, peer, 1024, 16);
    }
    all_over(&testbed);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_SEND), 4);
    unsigned timed = 0;
    for (unsigned i = 0; i < 8; i++) {
        const struct muster_op *op = &testbed.rec->seg->ring[i];
        bool to_itself = op->peer == 1; /* the testbed's rank */
        assert_int_equal(op->source, to_itself ? MUSTER_SOURCE_NONE : MUSTER_SOURCE_EVENT);
        assert_false(op->flags & MUSTER_OP_INCOMPLETE);
        timed += op->source == MUSTER_SOURCE_EVENT && op->end_ns - op->begin_ns == 3000000;
    }
    assert_int_equal(timed, 6);
    testbed_close(&testbed);
}

static void auto_times_the_first_block_and_what_its_price_allows(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_AUTO);
    for (unsigned i = 0; i < MUSTER_SAMPLING_WINDOW; i++) {
        step(&testbed, ctx, 0.01);
        all_over(&testbed);
        assert_int_equal(testbed_last(&testbed)->source, MUSTER_SOURCE_EVENT);
    }
    /* As if it had been an endless loop. */
    atomic_store(&testbed.rec->meter.load_ppm, 1000000);
    atomic_store(&testbed.rec->meter.rate, 31000);
    atomic_store(&testbed.rec->meter.since_ns, UINT64_MAX / 2);
    unsigned timed = 0;
    for (unsigned i = 0; i < 512 * MUSTER_SAMPLING_WINDOW; i++) {
        step(&testbed, ctx, 0.01);
        all_over(&testbed);
        bool is = testbed_last(&testbed)->source == MUSTER_SOURCE_EVENT;
        assert_int_equal(is, muster_sampling_takes(RANKS, 1 + i / MUSTER_SAMPLING_WINDOW, 8));
        timed += is;
    }
    assert_in_range(timed, MUSTER_SAMPLING_WINDOW, 3 * MUSTER_SAMPLING_WINDOW);
    uint64_t word = atomic_load(&entry(&testbed)->timing);
    assert_int_equal(muster_seg_timing_level(word), 8);
    assert_int_equal(muster_seg_timing_since(word), MUSTER_SAMPLING_WINDOW);
    assert_int_equal(muster_seg_timing_rate(word), 31000);
    uint64_t paid = (MUSTER_SAMPLING_WINDOW + timed) * muster_price_ns(1, 8);
    assert_int_equal(atomic_load(&entry(&testbed)->timing_cost_ns), paid);
    assert_int_equal(atomic_load(&testbed.rec->seg->timing_cost_ns), paid);
    testbed_close(&testbed);
}

/* A pipeline calls no collective: its groups of sends are what a level begins at. */
static void a_level_of_sends_begins_at_a_group_of_them(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_AUTO);
    struct muster_event send = {.kind = MUSTER_EVENT_P2P_API,
                                .op = testbed_op(MUSTER_FUNC_SEND, 1024)};
    atomic_store(&testbed.rec->meter.since_ns, UINT64_MAX / 2);
    for (unsigned i = 0; i <= MUSTER_SAMPLING_WINDOW; i++) {
        atomic_store(&testbed.rec->meter.load_ppm, i == MUSTER_SAMPLING_WINDOW ? 5000000 : 0);
        testbed_group(&testbed, ctx, false);
        muster_track_start(testbed.rec, ctx, &send);
        launch(&testbed, ctx, 0.01);
        all_over(&testbed);
    }
    assert_int_equal(muster_seg_timing_since(atomic_load(&entry(&testbed)->timing)),
                     MUSTER_SAMPLING_WINDOW);
    testbed_close(&testbed);
}

static void light_leaves_marks_alone(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_LIGHT);
    step(&testbed, ctx, 1);
    assert_int_equal(gpu.recorded, 1);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 0);
    all_over(&testbed);
    assert_int_equal(testbed_last(&testbed)->source, MUSTER_SOURCE_NONE);
    assert_int_equal(atomic_load(&entry(&testbed)->launches_ended), 1);
    testbed_close(&testbed);
}

/* Whoever launches first after each pause would have all probes. */
static void communicators_share_the_marks(void **state)
{
    (void)state;
    enum { COMMS = 8, STEPS = 400 };
    struct testbed testbed;
    void *ctx[COMMS] = {begin(&testbed, MUSTER_TIMING_LIGHT)};
    unsigned marked[COMMS] = {0};
    for (unsigned c = 1; c < COMMS; c++)
        ctx[c] = testbed_comm(&testbed, 0xabc + c, 4, 1, 5);
    for (unsigned i = 0; i < STEPS; i++) {
        for (unsigned c = 0; c < COMMS; c++) {
            unsigned before = gpu.recorded;
            step(&testbed, ctx[c], 0.01);
            marked[c] += gpu.recorded - before;
        }
        all_over(&testbed);
        muster_completion_count_active(testbed.rec);
        nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
    }
    unsigned all = 0;
    for (unsigned c = 0; c < COMMS; c++)
        all += marked[c];
    assert_true(all > COMMS);
    for (unsigned c = 0; c < COMMS; c++)
        assert_true(marked[c] * COMMS * 2 > all);
    testbed_close(&testbed);
}

static void nothing_is_recorded_into_a_capture(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    gpu.capturing = 1;
    step(&testbed, ctx, 1);
    assert_int_equal(gpu.recorded, 0);
    assert_int_equal(atomic_load(&entry(&testbed)->launches), 1);
    gpu.capturing = 0;
    muster_track_stop(testbed.rec, testbed_group(&testbed, ctx, true));
    void *group = testbed_group(&testbed, ctx, true);
    launch(&testbed, ctx, 1);
    muster_track_stop(testbed.rec, group);
    assert_int_equal(gpu.recorded, 0);
    assert_int_equal(atomic_load(&entry(&testbed)->launches), 1); /* it did not run */
    testbed_close(&testbed);
}

static void more_launches_than_places_are_counted_and_untimed(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    for (unsigned i = 0; i < MUSTER_LAUNCHES + 100; i++)
        step(&testbed, ctx, 0.01);
    assert_true(testbed_drops(&testbed, MUSTER_DROP_NO_EVENT) >= 1);
    testbed_drain(&testbed, 0);
    uint64_t early = testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE);
    all_over(&testbed);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), MUSTER_LAUNCHES + 100);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->event_timed,
                     MUSTER_LAUNCHES + 100 - early);
    step(&testbed, ctx, 0.5);
    all_over(&testbed);
    assert_int_equal(testbed_last(&testbed)->end_ns - testbed_last(&testbed)->begin_ns, 500000);
    testbed_close(&testbed);
}

/* A host that is further ahead of its GPU than there are places, and then launches nothing more. */
static void launches_that_filled_all_places_are_read_in_their_order(void **state)
{
    (void)state;
    struct testbed testbed;
    enum { OVER = 100 };
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    uint64_t end_of_some = 0;
    for (unsigned i = 1; i <= 2 * MUSTER_LAUNCHES; i++) {
        step(&testbed, ctx, 0.01);
        end_of_some = i == OVER ? gpu.order : end_of_some;
    }
    muster_completion_poll(&testbed.rec->launches);
    testbed_drain(&testbed, 0);
    uint64_t untimed = testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE);
    gpu.over = end_of_some;
    muster_completion_poll(&testbed.rec->launches);
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), untimed + OVER);
    all_over(&testbed);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 2 * MUSTER_LAUNCHES);
    step(&testbed, ctx, 0.5);
    all_over(&testbed);
    assert_int_equal(testbed_last(&testbed)->end_ns - testbed_last(&testbed)->begin_ns, 500000);
    testbed_close(&testbed);
}

/* One that waits does not keep the others' times away. */
static void a_communicator_that_waits_keeps_nobody(void **state)
{
    (void)state;
    struct testbed testbed;
    void *waiting = begin(&testbed, MUSTER_TIMING_FULL);
    void *going = testbed_comm(&testbed, 0xdef, 4, 1, 5);
    step(&testbed, waiting, 1);
    struct event *end = &gpu.event[0];
    for (unsigned i = 0; i < gpu.made; i++)
        end = gpu.event[i].order == gpu.order ? &gpu.event[i] : end;
    assert_int_equal(end->order, gpu.order);
    for (unsigned i = 0; i < 5; i++) {
        step(&testbed, going, 1);
        end->order = UINT64_MAX; /* never over */
        all_over(&testbed);
    }
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->event_timed, 5);
    end->order = 1;
    all_over(&testbed);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 6);
    testbed_close(&testbed);
}

static void that_a_kernel_runs_is_seen_while_it_does(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    step(&testbed, ctx, 1);
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    muster_completion_poll(&testbed.rec->launches);
    testbed_drain(&testbed, 0);
    unsigned i = 0;
    while ((atomic_load(&testbed.rec->seg->slot_state[i]) & 0xff) != MUSTER_SLOT_LAUNCHED)
        i++;
    assert_int_equal(atomic_load(&testbed.rec->seg->slot[i].started), 0);
    gpu.over = 1;
    muster_completion_poll(&testbed.rec->launches);
    testbed_drain(&testbed, 0);
    assert_int_equal(atomic_load(&testbed.rec->seg->slot[i].started), 1);
    assert_int_equal(atomic_load(&testbed.rec->seg->slot[i].ended), 0);
    all_over(&testbed);
    assert_int_equal(testbed_last(&testbed)->source, MUSTER_SOURCE_EVENT);
    testbed_close(&testbed);
}

/* On CUDA's callback thread operations are shown late, perhaps after the next launch. */
static void an_operation_shown_on_another_thread_is_not_timed(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    struct muster_event_op op = testbed_op(MUSTER_FUNC_ALL_REDUCE, 1);
    testbed_group(&testbed, ctx, false);
    void *call = testbed_call(&testbed, ctx, &op);
    launch(&testbed, ctx, 1);
    struct muster_comm *comm = muster_recorder_comm(testbed.rec, ctx);
    comm->launch_thread++; /* another one launched */
    testbed_launch(&testbed, ctx, call, &op);
    all_over(&testbed);
    assert_int_equal(testbed_last(&testbed)->source, MUSTER_SOURCE_NONE);
    testbed_close(&testbed);
}

/* Communicators that come and go share the entries of the segment. */
static void a_launch_in_flight_says_nothing_of_who_gets_the_entry(void **state)
{
    (void)state;
    enum { KEPT_FREE = 16 };
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_LIGHT);
    step(&testbed, ctx, 1);
    testbed_drain(&testbed, 0);
    muster_recorder_comm_close(testbed.rec, ctx);
    testbed_drain(&testbed, 5 * MUSTER_NS_PER_S);
    for (unsigned i = 2; i < MUSTER_SEG_COMMS - KEPT_FREE + 1; i++)
        testbed_comm(&testbed, 0x1000 + i, 4, 1, 5);
    testbed_drain(&testbed, 6 * MUSTER_NS_PER_S);
    assert_int_equal(entry(&testbed)->uid, 0);
    testbed_comm(&testbed, 0xdef, 4, 1, 5);
    assert_int_equal(entry(&testbed)->id, 0xdef);
    gpu.over = gpu.order;
    muster_completion_poll(&testbed.rec->launches);
    assert_true(gpu.queries > 0);
    assert_int_equal(atomic_load(&entry(&testbed)->launches_ended), 0);
    testbed_close(&testbed);
}

static void a_driver_that_fails_is_not_asked_again(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    step(&testbed, ctx, 1);
    gpu.failing = 1;
    muster_completion_poll(&testbed.rec->launches);
    unsigned queries = gpu.queries, recorded = gpu.recorded;
    muster_completion_poll(&testbed.rec->launches);
    step(&testbed, ctx, 1);
    testbed_drain(&testbed, 0);
    assert_int_equal(gpu.queries, queries);
    assert_int_equal(gpu.recorded, recorded);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 2);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->event_timed, 0);
    testbed_close(&testbed);
}

static void a_refused_event_leaves_the_operation_untimed(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    gpu.refusing = 1;
    step(&testbed, ctx, 1);
    gpu.refusing = 0;
    testbed_drain(&testbed, 0);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 1);
    step(&testbed, ctx, 1);
    all_over(&testbed);
    assert_int_equal(testbed_row(&testbed, MUSTER_FUNC_ALL_REDUCE)->event_timed, 1);
    testbed_close(&testbed);
}

/* cudaDeviceReset leaves the context's address and takes its events: to touch one is a crash. */
static void after_a_reset_no_event_is_touched_and_new_ones_are_made(void **state)
{
    (void)state;
    struct testbed testbed;
    void *ctx = begin(&testbed, MUSTER_TIMING_FULL);
    step(&testbed, ctx, 1);
    gpu.id = 8;
    unsigned queries = gpu.queries, made = gpu.made;
    muster_completion_poll(&testbed.rec->launches);
    testbed_drain(&testbed, 0);
    assert_int_equal(gpu.queries, queries);
    assert_int_equal(testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 1);
    void *next = testbed_comm(&testbed, 0xabd, 4, 1, 5);
    assert_true(gpu.made > made);
    step(&testbed, next, 2);
    all_over(&testbed);
    assert_int_equal(testbed_last(&testbed)->end_ns - testbed_last(&testbed)->begin_ns, 2000000);
    testbed_close(&testbed);
}

/* A query in the default mode would break another thread's capture. */
static void the_thread_relaxes_its_capture_mode_before_it_asks(void **state)
{
    (void)state;
    struct testbed testbed;
    begin(&testbed, MUSTER_TIMING_FULL);
    assert_int_equal(muster_completion_start(testbed.rec), 0);
    while (__atomic_load_n(&gpu.capture_mode, __ATOMIC_ACQUIRE) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(gpu.capture_mode, 2);
    atomic_store(&testbed.rec->launches.stopped, true);
    testbed_close(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_is_timed_by_the_events_around_it),
        cmocka_unit_test(a_played_operation_is_over_when_its_stamps_are_there),
        cmocka_unit_test(a_launch_whose_place_comes_late_is_timed),
        cmocka_unit_test(an_hour_later_times_are_as_exact),
        cmocka_unit_test(what_is_launched_together_is_one_unit),
        cmocka_unit_test(auto_times_the_first_block_and_what_its_price_allows),
        cmocka_unit_test(a_level_of_sends_begins_at_a_group_of_them),
        cmocka_unit_test(light_leaves_marks_alone),
        cmocka_unit_test(communicators_share_the_marks),
        cmocka_unit_test(nothing_is_recorded_into_a_capture),
        cmocka_unit_test(more_launches_than_places_are_counted_and_untimed),
        cmocka_unit_test(launches_that_filled_all_places_are_read_in_their_order),
        cmocka_unit_test(a_communicator_that_waits_keeps_nobody),
        cmocka_unit_test(that_a_kernel_runs_is_seen_while_it_does),
        cmocka_unit_test(an_operation_shown_on_another_thread_is_not_timed),
        cmocka_unit_test(a_launch_in_flight_says_nothing_of_who_gets_the_entry),
        cmocka_unit_test(a_driver_that_fails_is_not_asked_again),
        cmocka_unit_test(a_refused_event_leaves_the_operation_untimed),
        cmocka_unit_test(after_a_reset_no_event_is_touched_and_new_ones_are_made),
        cmocka_unit_test(the_thread_relaxes_its_capture_mode_before_it_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
