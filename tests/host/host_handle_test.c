/* Handles, parents, stamps and descriptors as nobody should send them, and as NCCL does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_testbed.h"

#include <cmocka.h>

static const struct standin_comm_config pair = {.hash = 0x2a, .name = "dp", .rank = 0, .nranks = 2};
static const struct standin_op small = {.func = "AllReduce", .count = 100};

static void *const foreign[] = {(void *)0x1, (void *)0xdeadbeefcafef00d, (void *)0x7fff12345678,
                                (void *)0xffffffffffffffff, (void *)0x5a5a5a5a5a5a5a5a};
enum { FOREIGN = sizeof(foreign) / sizeof(foreign[0]) };

/* Ordinary operations before and after: they are all that may be recorded. */
static struct standin_comm *begin(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &pair);

    standin_call_times(comm, &small, 5);
    standin_comm_sync(comm);
    return comm;
}

static void end(struct standin_comm *comm)
{
    standin_comm_sync(comm);
    standin_call_times(comm, &small, 5);
    standin_comm_destroy(comm);
}

static void expect_only_the_ordinary(standin_scenario *scenario, unsigned first_api)
{
    static const char *const timings[] = {"light", "channels"};
    struct standin_testbed testbed;

    for (unsigned api = first_api; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_testbed_run(&testbed, api, timings[i], scenario);
            assert_true(standin_ledger_count(testbed.ledger) >= 10);
            standin_testbed_expect_all(&testbed);
            standin_testbed_end(&testbed);
        }
    }
}

static void all_null(struct standin *nccl)
{
    struct standin_comm *comm = begin(nccl);
    void *handle;

    for (unsigned type = 1; type <= 0x8000; type <<= 1) {
        struct standin_event event = {.type = type, .pid = getpid()};
        if (nccl->gen->api <= 3 && type & (STANDIN_COLL | STANDIN_P2P))
            continue; /* the descriptor names the communicator, not the context */
        standin_start(nccl, NULL, &handle, &event);
        for (unsigned state = 0; state < 40; state++)
            standin_record(nccl, NULL, state, NULL);
        standin_stop(nccl, NULL);
    }
    standin_finalize(nccl, NULL);
    end(comm);
}

static void null_everywhere_is_accepted(void **state)
{
    (void)state;
    expect_only_the_ordinary(all_null, 1);
}

static void strange_handles(struct standin *nccl)
{
    struct standin_comm *comm = begin(nccl);
    struct standin_args args = {.ptimer = 1, .trans_bytes = 1};
    void *handle;

    for (unsigned i = 0; i < FOREIGN; i++) {
        for (unsigned state = 0; state < 40; state++) {
            standin_record(nccl, foreign[i], state, NULL);
            standin_record(nccl, foreign[i], state, &args);
        }
        standin_stop(nccl, foreign[i]);
        standin_finalize(nccl, foreign[i]);
        for (unsigned type = STANDIN_PROXY_OP; type <= 0x8000; type <<= 1) {
            struct standin_event event = {.type = type,
                                          .parent = foreign[i],
                                          .pid = getpid() + 1,
                                          .func = "AllReduce",
                                          .dtype = "ncclFloat32",
                                          .count = 1};
            if (type >= STANDIN_GROUP_API && type <= STANDIN_P2P_API)
                continue; /* these come with the caller's own context */
            standin_start(nccl, foreign[i], &handle, &event);
            standin_stop(nccl, handle);
        }
    }
    end(comm);
}

static void stale_and_foreign_pointers_are_never_followed(void **state)
{
    (void)state;
    expect_only_the_ordinary(strange_handles, 4);
}

static void unknown_types(struct standin *nccl)
{
    static const unsigned types[] = {0, 3, 0x10000, 0x40000000, 0xffffffff, 0x7fff};
    struct standin_comm *comm = begin(nccl);
    struct standin_event event = {.func = "AllReduce", .dtype = "ncclFloat32", .count = 1};
    void *handle;

    if (nccl->gen->api >= 5)
        for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
            event.type = types[i];
            standin_start(nccl, comm->context, &handle, &event);
            if (handle)
                standin_die("a handle for an event of type %#x", types[i]);
        }
    for (unsigned state = 23; state < 1000; state++)
        standin_record(nccl, comm->context, state, NULL);
    end(comm);
}

static void unknown_event_types_and_states_are_ignored(void **state)
{
    (void)state;
    expect_only_the_ordinary(unknown_types, 1);
}

static void proxy_ctrl(struct standin *nccl)
{
    struct standin_comm *comm = begin(nccl);
    struct standin_args args = {.appended = 7};
    void *handle;

    for (unsigned i = 0; i < 100; i++) {
        struct standin_event event = {.type = STANDIN_PROXY_CTRL};
        standin_start(nccl, i % 2 ? comm->context : foreign[i % FOREIGN], &handle, &event);
        for (unsigned state = 13; state <= 18; state++)
            standin_record(nccl, handle, state, &args);
        standin_stop(nccl, handle);
    }
    end(comm);
}

static void proxy_control_with_uninitialised_handles_is_ignored(void **state)
{
    (void)state;
    expect_only_the_ordinary(proxy_ctrl, 1);
}

/* Bits switched off at run time: StopCollApi comes again with the last handle. */
static void bits_off(struct standin *nccl)
{
    struct standin_comm *comm = begin(nccl);
    int mask = (int)standin_mask(nccl);

    __atomic_store_n(&nccl->mask, 0, __ATOMIC_RELAXED);
    standin_call_times(
        comm, &(struct standin_op){.func = "AllReduce", .count = 100, .unrecorded = true}, 10);
    standin_comm_sync(comm);
    __atomic_store_n(&nccl->mask, mask, __ATOMIC_RELAXED);
    end(comm);
}

static void an_api_handle_stopped_again_and_again_is_harmless(void **state)
{
    (void)state;
    expect_only_the_ordinary(bits_off, 1);
}

static void *start_op(struct standin_comm *comm, struct standin_event *event)
{
    struct standin *nccl = comm->nccl;
    void *api = NULL, *handle = NULL;
    bool p2p = !strcmp(event->func, "Send") || !strcmp(event->func, "Recv");

    event->comm_hash = comm->hash;
    event->comm_name = comm->name;
    if (nccl->gen->api_events) {
        struct standin_event call = *event;
        call.type = p2p ? STANDIN_P2P_API : STANDIN_COLL_API;
        standin_start(nccl, comm->context, &api, &call);
        if (api)
            standin_stop(nccl, api);
    }
    event->type = p2p ? STANDIN_P2P : STANDIN_COLL;
    event->parent = api;
    standin_start(nccl, comm->context, &handle, event);
    standin_stop(nccl, handle);
    return handle;
}

static void stops_before_starts(struct standin *nccl)
{
    struct standin_comm *comm = begin(nccl);
    struct standin_args args = {.ptimer = 500, .trans_bytes = 10};
    struct standin_event coll = {.func = "AllReduce",
                                 .dtype = "ncclFloat32",
                                 .count = 100,
                                 .algo = "RING",
                                 .proto = "SIMPLE",
                                 .channels = 1};
    void *op = start_op(comm, &coll), *part[3];
    struct standin_event parts[] = {
        {.type = STANDIN_KERNEL_CH, .parent = op, .ptimer = 1000},
        {.type = STANDIN_PROXY_OP, .parent = op, .pid = getpid(), .steps = 1, .chunk = 10},
        {.type = STANDIN_PROXY_STEP, .parent = op}};

    nccl->ledger->note[0] = 1; /* this one operation counts, its abuse does not */
    for (unsigned i = 0; i < 3; i++) {
        standin_start(nccl, comm->context, &part[i], &parts[i]);
        for (unsigned n = 0; n < 4; n++)
            standin_stop(nccl, part[i]);
        for (unsigned state = 0; state < 32; state++)
            standin_record(nccl, part[i], state, &args);
        standin_stop(nccl, part[i]);
        standin_stop(nccl, op);
    }
    end(comm);
}

static void stops_and_states_in_impossible_order_change_no_count(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", stops_before_starts);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 11);
        assert_int_equal(standin_testbed_bytes(&testbed, MUSTER_FUNCS), 4400);
        assert_true(standin_testbed_timed(&testbed, MUSTER_FUNCS) >= (api >= 5 ? 10 : 0));
        standin_testbed_end(&testbed);
    }
}

/* A handle is kept until thousands of operations have passed through the recorder. */
static void long_stale(struct standin *nccl)
{
    struct standin_comm *comm = begin(nccl);
    struct standin_event coll = {.func = "AllReduce",
                                 .dtype = "ncclFloat32",
                                 .count = 100,
                                 .algo = "RING",
                                 .proto = "SIMPLE",
                                 .channels = 1};
    void *old = start_op(comm, &coll), *channel[2], *later;
    struct standin_event first = {.type = STANDIN_KERNEL_CH, .parent = old, .ptimer = 1000};
    struct standin_args args = {.ptimer = 1500};

    standin_start(nccl, comm->context, &channel[0], &first);
    standin_record(nccl, channel[0], 22, &args);
    standin_stop(nccl, channel[0]);
    for (unsigned i = 1; i <= 6; i++) {
        standin_call_times(comm, &small, 1000);
        standin_comm_sync(comm);
        standin_wait_retired(6 + 1000 * i);
    }
    later = start_op(comm, &coll);
    standin_start(nccl, comm->context, &channel[1], &first);
    standin_record(nccl, channel[0], 22, &args);
    standin_record(nccl, channel[1], 22, &args);
    standin_stop(nccl, channel[1]);
    nccl->ledger->note[0] = old == later;
    end(comm);
}

static void a_handle_of_a_recycled_operation_is_refused_and_counted(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", long_stale);
        assert_int_equal(testbed.ledger->note[0], 0);
        assert_true(standin_testbed_drops(&testbed, MUSTER_DROP_STALE) >= 1);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 6012);
        standin_testbed_end(&testbed);
    }
}

/* One operation of one channel with the given stamps, later than all before. */
static void stamped(struct standin_comm *comm, unsigned channel, uint64_t start, uint64_t stop)
{
    struct standin *nccl = comm->nccl;
    struct standin_event coll = {.func = "AllReduce",
                                 .dtype = "ncclFloat32",
                                 .count = 100,
                                 .algo = "RING",
                                 .proto = "SIMPLE",
                                 .channels = 1};
    struct standin_event kernel = {.type = STANDIN_KERNEL_CH, .channel = channel, .ptimer = start};
    struct standin_args args = {.ptimer = stop};
    void *handle = NULL;

    kernel.parent = start_op(comm, &coll);
    standin_start(nccl, comm->context, &handle, &kernel);
    if (!handle)
        return;
    standin_record(nccl, handle, 22, &args);
    standin_stop(nccl, handle);
}

static void implausible_stamps(struct standin *nccl)
{
    struct standin_comm *comm = begin(nccl);
    uint64_t now = atomic_load(&comm->gpu->clock_ns) + 1000000000; /* after all calls below */

    stamped(comm, 0, now + 1000, now + 1000);                  /* no time at all */
    stamped(comm, 0, now + 2000, now + 1500);                  /* backwards */
    stamped(comm, 0, now + 3000, now + 3000 + 3600000000000u); /* an hour, in a millisecond */
    stamped(comm, 1, now + 4000, now + 5000);                  /* plausible */
    stamped(comm, 1, now + 4100, now + 4200);  /* before that channel's previous stop */
    stamped(comm, 64, now + 6000, now + 6100); /* no such channel */
    stamped(comm, 255, now + 6000, now + 6100);
    standin_comm_destroy(comm);
}

static void implausible_stamps_are_refused_and_counted_by_reason(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", implausible_stamps);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 5 + 7);
        assert_int_equal(standin_testbed_timed(&testbed, MUSTER_FUNCS), 5 + 1);
        assert_int_equal(standin_testbed_drops(&testbed, MUSTER_DROP_TIME_ORDER), 2);
        assert_int_equal(standin_testbed_drops(&testbed, MUSTER_DROP_TIME_LONG), 1);
        assert_int_equal(standin_testbed_drops(&testbed, MUSTER_DROP_TIME_BACK), 1);
        assert_int_equal(standin_testbed_drops(&testbed, MUSTER_DROP_CHANNEL), 2);
        standin_testbed_end(&testbed);
    }
}

static void stamp_after_an_hour(struct standin *nccl)
{
    struct standin_comm *comm = begin(nccl);
    uint64_t now = atomic_load(&comm->gpu->clock_ns) + 1000000;

    stamped(comm, 0, now, now + 3600000000000u);
    atomic_fetch_add(&comm->gpu->clock_ns, 2000000);
    end(comm);
}

static void one_absurd_stop_does_not_spoil_the_channel(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", stamp_after_an_hour);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 11);
        assert_int_equal(standin_testbed_timed(&testbed, MUSTER_FUNCS), 10);
        standin_testbed_end(&testbed);
    }
}

static void absurd_values(struct standin *nccl)
{
    static const char *const words[] = {"AllReduce", "Nonsense", "#255", "", "Send", NULL};
    struct standin_comm *comm = begin(nccl);

    for (unsigned i = 0; i < 6; i++) {
        if (!words[i] && nccl->gen->api_events)
            continue;
        struct standin_event event = {.func = words[i] ? words[i] : "#99",
                                      .dtype = i % 2 ? "ncclQuaternion" : NULL,
                                      .algo = i % 2 ? "STAR" : NULL,
                                      .proto = i % 2 ? "#9" : NULL,
                                      .count = i % 2 ? UINT64_MAX : 0,
                                      .root_or_peer = i % 2 ? INT32_MIN : INT32_MAX,
                                      .rank = -7,
                                      .channels = 255,
                                      .warps = 255};
        event.rank = nccl->gen->api <= 3 ? comm->rank : event.rank;
        start_op(comm, &event);
    }
    end(comm);
}

static void unknown_words_and_absurd_values_are_recorded_as_unknown(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", absurd_values);
        unsigned strange = api >= 5 ? 5 : 6;
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 10 + strange);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_UNKNOWN), strange - 2);
        standin_testbed_end(&testbed);
    }
}

static void negative_communicator(struct standin *nccl)
{
    struct standin_comm *strange[3];
    static const int values[] = {-1, 0, INT32_MIN};
    struct standin_comm *comm = begin(nccl);

    for (unsigned i = 0; i < 3; i++) {
        strange[i] =
            standin_comm_init(nccl, &(struct standin_comm_config){.hash = 0xbad + i,
                                                                  .rank = values[i],
                                                                  .nranks = values[i],
                                                                  .nnodes = -values[i] - 1});
        standin_call_times(strange[i], &(struct standin_op){.func = "AllReduce", .count = 8}, 3);
    }
    for (unsigned i = 0; i < 3; i++)
        standin_comm_destroy(strange[i]);
    end(comm);
}

static void negative_ranks_and_sizes_of_communicators_break_nothing(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", negative_communicator);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 10 + 9);
        standin_testbed_end(&testbed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_everywhere_is_accepted),
        cmocka_unit_test(stale_and_foreign_pointers_are_never_followed),
        cmocka_unit_test(unknown_event_types_and_states_are_ignored),
        cmocka_unit_test(proxy_control_with_uninitialised_handles_is_ignored),
        cmocka_unit_test(an_api_handle_stopped_again_and_again_is_harmless),
        cmocka_unit_test(stops_and_states_in_impossible_order_change_no_count),
        cmocka_unit_test(a_handle_of_a_recycled_operation_is_refused_and_counted),
        cmocka_unit_test(implausible_stamps_are_refused_and_counted_by_reason),
        cmocka_unit_test(one_absurd_stop_does_not_spoil_the_channel),
        cmocka_unit_test(unknown_words_and_absurd_values_are_recorded_as_unknown),
        cmocka_unit_test(negative_ranks_and_sizes_of_communicators_break_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
