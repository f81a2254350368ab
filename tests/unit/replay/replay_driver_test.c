/*
 * The driver against the exported tables: what goes in as an event comes out as the same event, in
 * every version that has it. Where the tables look is translate_test's matter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fake_plugin.h"
#include "replay/replay_driver.h"

enum { APIS = 7 };

static char parent, group, stream;

static struct muster_driver driver_of(unsigned api)
{
    return (struct muster_driver){NULL, fake_table(api), "muster", api};
}

static const struct muster_event *drive(unsigned api, const struct muster_event *event)
{
    struct muster_driver driver = driver_of(api);
    void *handle = &stream;
    memset(&fake, 0, sizeof(fake));
    assert_int_equal(muster_driver_start(&driver, &group, &handle, event), 0);
    assert_int_equal(fake.starts, 1);
    assert_ptr_equal(handle, &fake_handle);
    assert_ptr_equal(fake.context, &group);
    assert_int_equal(fake.event.kind, event->kind);
    assert_int_equal(fake.event.rank, event->rank);
    assert_ptr_equal(fake.event.parent, event->parent);
    return &fake.event;
}

static struct muster_event op_event(enum muster_event_kind kind)
{
    return (struct muster_event){
        .kind = (uint8_t)kind,
        .rank = 5,
        .parent = &parent,
        .op =
            {
                .comm_hash = 0x1122334455667788,
                .comm_name = "dp",
                .count = 123456789012,
                .seq = 42,
                .traffic_bytes = 99,
                .stream = &stream,
                .root_or_peer = 3,
                .func = MUSTER_FUNC_BROADCAST,
                .dtype = MUSTER_DTYPE_UINT64,
                .algo = MUSTER_ALGO_TREE,
                .proto = MUSTER_PROTO_SIMPLE,
                .channels = 12,
                .warps = 16,
                .graph = true,
                .parent_group = &group,
            },
    };
}

static void a_collective_arrives_in_every_version(void **state)
{
    (void)state;
    struct muster_event event = op_event(MUSTER_EVENT_COLL);
    for (unsigned api = 1; api <= APIS; api++) {
        const struct muster_event_op *op = &drive(api, &event)->op;
        assert_true(op->count == event.op.count);
        assert_int_equal(op->seq, 42);
        assert_int_equal(op->root_or_peer, 3);
        assert_int_equal(op->func, MUSTER_FUNC_BROADCAST);
        assert_int_equal(op->dtype, MUSTER_DTYPE_UINT64);
        assert_int_equal(op->algo, MUSTER_ALGO_TREE);
        assert_int_equal(op->proto, MUSTER_PROTO_SIMPLE);
        assert_int_equal(op->channels, 12);
        assert_int_equal(op->warps, 16);
        assert_true(op->comm_hash == (api <= 3 ? event.op.comm_hash : 0));
        assert_int_equal(op->traffic_bytes, api <= 2 ? 99 : 0);
        assert_ptr_equal(op->parent_group, api >= 5 ? &group : NULL);
    }
}

static void a_receive_arrives_in_every_version(void **state)
{
    (void)state;
    struct muster_event event = op_event(MUSTER_EVENT_P2P);
    event.op.func = MUSTER_FUNC_RECV;
    for (unsigned api = 1; api <= APIS; api++) {
        const struct muster_event_op *op = &drive(api, &event)->op;
        assert_int_equal(op->func, MUSTER_FUNC_RECV);
        assert_int_equal(op->dtype, MUSTER_DTYPE_UINT64);
        assert_true(op->count == event.op.count);
        assert_int_equal(op->root_or_peer, 3);
        assert_int_equal(op->channels, api >= 4 ? 12 : 0);
        assert_true(op->comm_hash == (api <= 3 ? event.op.comm_hash : 0));
        assert_ptr_equal(op->parent_group, api >= 5 ? &group : NULL);
    }
}

/* A recording has words and no enumerators; some of its words may be from a newer NCCL. */
static void words_of_a_recording_arrive(void **state)
{
    (void)state;
    struct muster_event event = op_event(MUSTER_EVENT_COLL);
    event.op.func = event.op.dtype = event.op.algo = event.op.proto = 0;
    event.op.func_text = "AllGather";
    event.op.dtype_text = "Unknown";
    event.op.algo_text = "TELEPATHY";
    event.op.proto_text = NULL;
    for (unsigned api = 1; api <= APIS; api++) {
        const struct muster_event_op *op = &drive(api, &event)->op;
        assert_int_equal(op->func, MUSTER_FUNC_ALL_GATHER);
        assert_int_equal(op->dtype, MUSTER_DTYPE_UINT8);
        assert_int_equal(op->algo, MUSTER_ALGO_UNKNOWN);
        assert_int_equal(op->proto, MUSTER_PROTO_UNKNOWN);
        if (api == 1)
            continue;
        assert_string_equal(op->func_text, "AllGather");
        assert_string_equal(op->dtype_text, "Unknown");
        assert_string_equal(op->algo_text, "TELEPATHY");
        assert_string_equal(op->proto_text, "");
    }
}

static void proxy_and_kernel_events_arrive(void **state)
{
    (void)state;
    struct muster_event op = {.kind = MUSTER_EVENT_PROXY_OP,
                              .rank = 1,
                              .parent = &parent,
                              .proxy_op = {77, 9, 2, 16, 4096, 1}};
    struct muster_event step = {.kind = MUSTER_EVENT_PROXY_STEP, .proxy_step = {15}};
    struct muster_event ch = {.kind = MUSTER_EVENT_KERNEL_CH, .kernel_ch = {21, 0, 555}};
    struct muster_event net = {.kind = MUSTER_EVENT_NET_PLUGIN, .net_plugin = {-2, &stream}};
    for (unsigned api = 1; api <= APIS; api++) {
        const struct muster_event *got = drive(api, &op);
        assert_int_equal(got->proxy_op.pid, 77);
        assert_int_equal(got->proxy_op.channel, 9);
        assert_int_equal(got->proxy_op.peer, 2);
        assert_int_equal(got->proxy_op.steps, 16);
        assert_int_equal(got->proxy_op.chunk, 4096);
        assert_int_equal(got->proxy_op.send, 1);
        assert_int_equal(drive(api, &step)->proxy_step.step, 15);
        if (api < 3)
            continue;
        got = drive(api, &ch);
        assert_int_equal(got->kernel_ch.channel, 21);
        assert_int_equal(got->kernel_ch.ptimer, api >= 4 ? 555 : 0);
        got = drive(api, &net);
        assert_true(got->net_plugin.id == -2);
        assert_ptr_equal(got->net_plugin.data, &stream);
    }
}

static void api_and_copy_engine_events_arrive(void **state)
{
    (void)state;
    struct muster_event group_api = {.kind = MUSTER_EVENT_GROUP_API, .group_api = {true, 2}};
    struct muster_event launch = {.kind = MUSTER_EVENT_KERNEL_LAUNCH, .kernel_launch = {&stream}};
    struct muster_event coll = op_event(MUSTER_EVENT_COLL_API);
    struct muster_event p2p = op_event(MUSTER_EVENT_P2P_API);
    struct muster_event ce = op_event(MUSTER_EVENT_CE_COLL);
    struct muster_event batch = {.kind = MUSTER_EVENT_CE_BATCH, .ce = {8, 1 << 30}};
    struct muster_event sync = {.kind = MUSTER_EVENT_CE_SYNC, .ce = {4, 0}};
    struct muster_event phase = {.kind = MUSTER_EVENT_KERNEL_PHASE, .kernel_ch = {3, 1, 888}};
    for (unsigned api = 5; api <= APIS; api++) {
        assert_int_equal(drive(api, &group_api)->group_api.depth, 2);
        assert_true(fake.event.group_api.graph);
        assert_ptr_equal(drive(api, &launch)->kernel_launch.stream, &stream);
        assert_int_equal(drive(api, &coll)->op.root_or_peer, 3);
        assert_true(fake.event.op.graph && fake.event.op.stream == &stream);
        assert_int_equal(drive(api, &p2p)->op.root_or_peer, -1);
        assert_true(fake.event.op.graph && fake.event.op.count == p2p.op.count);
        if (api < 6)
            continue;
        assert_int_equal(drive(api, &ce)->op.seq, 42);
        assert_int_equal(fake.event.op.func, MUSTER_FUNC_BROADCAST);
        assert_int_equal(drive(api, &batch)->ce.bytes, 1 << 30);
        assert_int_equal(fake.event.ce.n, 8);
        assert_int_equal(drive(api, &sync)->ce.n, 4);
    }
    assert_int_equal(drive(7, &phase)->kernel_ch.phase, 1);
    assert_int_equal(fake.event.kernel_ch.ptimer, 888);
}

static void an_event_that_the_version_lacks_is_not_delivered(void **state)
{
    (void)state;
    const unsigned kinds[APIS + 1] = {0, 6, 6, 8, 8, 12, 15, 16};
    for (unsigned api = 1; api <= APIS; api++) {
        for (unsigned kind = kinds[api]; kind < 40; kind++) {
            struct muster_driver driver = driver_of(api);
            struct muster_event event = {.kind = (uint8_t)kind};
            void *handle = &stream;
            memset(&fake, 0, sizeof(fake));
            assert_int_equal(muster_driver_start(&driver, NULL, &handle, &event), 0);
            assert_null(handle);
            assert_int_equal(fake.starts, 0);
        }
    }
}

static void drive_state(unsigned api, unsigned s)
{
    struct muster_driver driver = driver_of(api);
    struct muster_event_args args = {true, 7777, 8888, 99};
    memset(&fake, 0, sizeof(fake));
    assert_int_equal(muster_driver_state(&driver, &parent, s, &args), 0);
    assert_int_equal(fake.state, s);
    assert_ptr_equal(fake.handle, &parent);
}

static void states_carry_what_nccl_gives_them(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++) {
        drive_state(api, MUSTER_STATE_SEND_WAIT);
        assert_int_equal(fake.args.given, api >= 4);
        assert_int_equal(fake.args.trans_bytes, api >= 4 ? 8888 : 0);
        drive_state(api, MUSTER_STATE_KERNEL_CH_STOP);
        assert_int_equal(fake.args.ptimer, api >= 4 ? 7777 : 0);
        drive_state(api, 18);
        assert_int_equal(fake.args.appended, 99);
        drive_state(api, MUSTER_STATE_GROUP_END_START);
        assert_false(fake.args.given);
    }
}

static void *args_seen;

static int see_args(void *handle, int state, void *args)
{
    (void)handle, (void)state;
    args_seen = args;
    return 0;
}

/* Plugins that read args without looking live because NCCL passes some: so must the driver. */
static void args_are_null_only_where_nccl_passes_null(void **state)
{
    (void)state;
    fake_entry table[6] = {[4] = (fake_entry)see_args};
    struct muster_event_args none = {.given = false};
    for (unsigned api = 1; api <= APIS; api++) {
        struct muster_driver driver = {NULL, table, "", api};
        for (unsigned s = 0; s < 32; s++) {
            bool null = s == 23 || s == 24 || (api < 4 && s >= 8 && s <= 12);
            muster_driver_state(&driver, &parent, s, &none);
            assert_int_equal(args_seen == NULL, null);
        }
    }
}

static void a_communicator_is_made_and_ended(void **state)
{
    (void)state;
    struct muster_event_init init = {0xbeef, "world", 2, 8, 6, 0};
    for (unsigned api = 1; api <= APIS; api++) {
        struct muster_driver driver = driver_of(api);
        void *context = NULL;
        int mask = 0;
        memset(&fake, 0, sizeof(fake));
        assert_int_equal(muster_driver_init(&driver, &context, &mask, &init), 0);
        assert_ptr_equal(context, &fake_context);
        assert_ptr_equal(fake.mask, &mask);
        assert_int_equal(fake.init.api, api);
        assert_int_equal(fake.init.comm_hash, api >= 4 ? 0xbeef : 0);
        assert_int_equal(fake.init.rank, api >= 4 ? 6 : -1);
        assert_int_equal(fake.init.nranks, api >= 4 ? 8 : 0);
        assert_int_equal(muster_driver_stop(&driver, &parent), 0);
        assert_ptr_equal(fake.handle, &parent);
        assert_int_equal(muster_driver_fini(&driver, context), 0);
        assert_int_equal(fake.finis, 1);
    }
}

static void open_takes_the_newest_table_or_the_one_asked_for(void **state)
{
    (void)state;
    struct muster_err err;
    struct muster_driver driver;
    assert_int_equal(muster_driver_open(&driver, FAKE_PLUGIN, 0, 0, &err), 0);
    assert_int_equal(driver.api, 7);
    assert_string_equal(driver.name, "muster");
    assert_int_equal(muster_driver_open(&driver, FAKE_PLUGIN, 0, 5, &err), 0);
    assert_int_equal(driver.api, 5);
    assert_int_equal(muster_driver_open(&driver, FAKE_PLUGIN, 3, 0, &err), 0);
    assert_int_equal(driver.api, 3);
    void *context = NULL;
    int mask = 0;
    struct muster_event_init init = {.rank = 0};
    assert_int_equal(muster_driver_init(&driver, &context, &mask, &init), 0);
    assert_int_equal(mask, 0x5a);
}

static void open_says_what_is_wrong(void **state)
{
    (void)state;
    struct muster_err err;
    struct muster_driver driver = {.api = 77};
    assert_int_equal(muster_driver_open(&driver, "./no-such-plugin.so", 0, 0, &err), -1);
    assert_non_null(strstr(err.text, "no-such-plugin.so"));
    assert_int_equal(muster_driver_open(&driver, "libc.so.6", 0, 0, &err), -1);
    assert_string_equal(err.text, "libc.so.6: no profiler plugin (none of ncclProfiler_v1 to v7)");
    assert_int_equal(muster_driver_open(&driver, "libc.so.6", 4, 0, &err), -1);
    assert_non_null(strstr(err.text, "no symbol ncclProfiler_v4"));
    assert_int_equal(muster_driver_open(&driver, FAKE_PLUGIN, 8, 0, &err), -1);
    assert_non_null(strstr(err.text, "v8"));
    assert_int_equal(driver.api, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collective_arrives_in_every_version),
        cmocka_unit_test(a_receive_arrives_in_every_version),
        cmocka_unit_test(words_of_a_recording_arrive),
        cmocka_unit_test(proxy_and_kernel_events_arrive),
        cmocka_unit_test(api_and_copy_engine_events_arrive),
        cmocka_unit_test(an_event_that_the_version_lacks_is_not_delivered),
        cmocka_unit_test(states_carry_what_nccl_gives_them),
        cmocka_unit_test(args_are_null_only_where_nccl_passes_null),
        cmocka_unit_test(a_communicator_is_made_and_ended),
        cmocka_unit_test(open_takes_the_newest_table_or_the_one_asked_for),
        cmocka_unit_test(open_says_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
