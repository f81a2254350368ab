/*
 * Descriptors of every version, written byte by byte where NCCL puts the members (the offsets are
 * the reference's, not profiler_abi.h's), in garbage, with no memory behind their end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fake_plugin.h"

enum { APIS = 7, NO = -1 };

static const size_t descriptor_bytes[APIS + 1] = {0, 120, 128, 120, 104, 112, 112, 136};
static const unsigned kinds[APIS + 1] = {0, 6, 6, 8, 8, 12, 15, 16};

static char parent, group, stream, buffer;

struct descriptor {
    unsigned api;
    unsigned char *at;
};

static void put(const struct descriptor *d, int offset, const void *from, size_t bytes)
{
    if (offset == NO)
        return;
    assert_true((size_t)offset + bytes <= descriptor_bytes[d->api]);
    memcpy(d->at + offset, from, bytes);
}

static void put_u8(const struct descriptor *d, int offset, unsigned value)
{
    uint8_t byte = (uint8_t)value;
    put(d, offset, &byte, 1);
}

static void put_i32(const struct descriptor *d, int offset, int32_t value)
{
    put(d, offset, &value, 4);
}

static void put_u64(const struct descriptor *d, int offset, uint64_t value)
{
    put(d, offset, &value, 8);
}

static void put_ptr(const struct descriptor *d, int offset, const void *value)
{
    put(d, offset, &value, 8);
}

static void put_type(const struct descriptor *d, uint64_t type)
{
    if (d->api < 5)
        put_u8(d, 0, (unsigned)type);
    else
        put_u64(d, 0, type);
}

static struct descriptor begin(unsigned api, unsigned kind)
{
    struct descriptor d = {api, fake_guarded(descriptor_bytes[api])};
    put_type(&d, UINT64_C(1) << kind);
    put_ptr(&d, 8, &parent);
    put_i32(&d, 16, 3);
    return d;
}

static int start(unsigned api, void *context, void **handle, void *descriptor)
{
    return ((fake_start)fake_table(api)[2])(context, handle, descriptor);
}

/* Delivers the descriptor and unmaps it; the event as muster got it stays in `fake`. */
static const struct muster_event *deliver(struct descriptor d, unsigned kind)
{
    void *handle = &stream;
    memset(&fake, 0, sizeof(fake));
    memset(&fake.event, 0xa5, sizeof(fake.event));
    assert_int_equal(start(d.api, &group, &handle, d.at), 0);
    fake_unguard(d.at, descriptor_bytes[d.api]);
    assert_int_equal(fake.starts, 1);
    assert_ptr_equal(fake.context, &group);
    assert_ptr_equal(handle, &fake_handle);
    assert_int_equal(fake.event.kind, kind);
    assert_ptr_equal(fake.event.parent, &parent);
    assert_int_equal(fake.event.rank, 3);
    return &fake.event;
}

static void assert_text(const char *got, const char *expected)
{
    if (expected)
        assert_string_equal(got, expected);
    else
        assert_null(got);
}

struct coll_offsets {
    int name, hash, seq, func, send, recv, count, root, datatype, traffic, channels, warps, algo,
        proto, group;
};

static const struct coll_offsets coll_offsets[APIS + 1] = {
    [1] = {24, 32, 40, 48, 56, 64, 72, 80, 84, 96, 104, 105, 106, 107, NO},
    [2] = {24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 105, 112, 120, NO},
    [3] = {24, 32, 40, 48, 56, 64, 72, 80, 88, NO, 96, 97, 104, 112, NO},
    [4] = {NO, NO, 24, 32, 40, 48, 56, 64, 72, NO, 80, 81, 88, 96, NO},
    [5] = {NO, NO, 24, 32, 40, 48, 56, 64, 72, NO, 80, 81, 88, 96, 104},
    [6] = {NO, NO, 24, 32, 40, 48, 56, 64, 72, NO, 80, 81, 88, 96, 104},
    [7] = {NO, NO, 24, 32, 40, 48, 56, 64, 72, NO, 80, 81, 88, 96, 104},
};

static struct descriptor coll_descriptor(unsigned api)
{
    const struct coll_offsets *at = &coll_offsets[api];
    struct descriptor d = begin(api, MUSTER_EVENT_COLL);
    put_ptr(&d, at->name, "tp group");
    put_u64(&d, at->hash, 0xfeedfacecafef00d);
    put_u64(&d, at->seq, UINT64_C(1) << 40 | 7);
    put_ptr(&d, at->send, &buffer);
    put_ptr(&d, at->recv, &buffer);
    put_u64(&d, at->count, UINT64_C(5) << 32 | 9);
    put_i32(&d, at->root, 2);
    put_u64(&d, at->traffic, UINT64_C(3) << 33);
    put_u8(&d, at->channels, 24);
    put_u8(&d, at->warps, 17);
    put_ptr(&d, at->group, &group);
    return d;
}

static void assert_coll(unsigned api, const struct muster_event_op *op)
{
    assert_text(op->comm_name, api <= 3 ? "tp group" : NULL);
    assert_true(op->comm_hash == (api <= 3 ? 0xfeedfacecafef00d : 0));
    assert_true(op->seq == (UINT64_C(1) << 40 | 7));
    assert_true(op->count == (UINT64_C(5) << 32 | 9));
    assert_true(op->traffic_bytes == (api <= 2 ? UINT64_C(3) << 33 : 0));
    assert_int_equal(op->root_or_peer, 2);
    assert_int_equal(op->channels, 24);
    assert_int_equal(op->warps, 17);
    assert_int_equal(op->func, MUSTER_FUNC_REDUCE_SCATTER);
    assert_int_equal(op->dtype, MUSTER_DTYPE_BFLOAT16);
    assert_int_equal(op->algo, MUSTER_ALGO_NVLS_TREE);
    assert_int_equal(op->proto, MUSTER_PROTO_LL128);
    assert_false(op->graph);
    assert_null(op->stream);
    assert_ptr_equal(op->parent_group, api >= 5 ? &group : NULL);
}

static void a_collective_of_v1_is_told_by_numbers(void **state)
{
    (void)state;
    struct descriptor d = coll_descriptor(1);
    put_u8(&d, 48, 3);
    put_u8(&d, 84, 9);
    put_i32(&d, 88, 0); /* op */
    put_u8(&d, 106, 5);
    put_u8(&d, 107, 1);
    const struct muster_event *event = deliver(d, MUSTER_EVENT_COLL);
    assert_coll(1, &event->op);
    assert_null(event->op.func_text);
}

static void a_collective_is_translated_from_every_version(void **state)
{
    (void)state;
    for (unsigned api = 2; api <= APIS; api++) {
        const struct coll_offsets *at = &coll_offsets[api];
        struct descriptor d = coll_descriptor(api);
        put_ptr(&d, at->func, "ReduceScatter");
        put_ptr(&d, at->datatype, "ncclBfloat16");
        put_ptr(&d, at->algo, "NVLS_TREE");
        put_ptr(&d, at->proto, "LL128");
        const struct muster_event *event = deliver(d, MUSTER_EVENT_COLL);
        assert_coll(api, &event->op);
        assert_text(event->op.func_text, "ReduceScatter");
        assert_text(event->op.dtype_text, "ncclBfloat16");
        assert_text(event->op.algo_text, "NVLS_TREE");
        assert_text(event->op.proto_text, "LL128");
    }
}

static void unknown_and_missing_words_are_unknown(void **state)
{
    (void)state;
    for (unsigned api = 2; api <= APIS; api++) {
        const struct coll_offsets *at = &coll_offsets[api];
        struct descriptor d = coll_descriptor(api);
        put_ptr(&d, at->func, "AllReduceAndPray");
        put_ptr(&d, at->datatype, NULL);
        put_ptr(&d, at->algo, "");
        put_ptr(&d, at->proto, NULL);
        const struct muster_event_op *op = &deliver(d, MUSTER_EVENT_COLL)->op;
        assert_int_equal(op->func, MUSTER_FUNC_UNKNOWN);
        assert_int_equal(op->dtype, MUSTER_DTYPE_UNKNOWN);
        assert_int_equal(op->algo, MUSTER_ALGO_UNKNOWN);
        assert_int_equal(op->proto, MUSTER_PROTO_UNKNOWN);
        assert_text(op->func_text, "AllReduceAndPray");
        assert_null(op->dtype_text);
    }
}

struct p2p_offsets {
    int name, hash, func, buff, datatype, count, peer, channels, group;
};

static const struct p2p_offsets p2p_offsets[APIS + 1] = {
    [1] = {24, 32, 40, 48, 56, 64, 72, NO, NO}, [2] = {24, 32, 40, 48, 56, 64, 72, NO, NO},
    [3] = {24, 32, 40, 48, 56, 64, 72, NO, NO}, [4] = {NO, NO, 24, 32, 40, 48, 56, 60, NO},
    [5] = {NO, NO, 24, 32, 40, 48, 56, 60, 64}, [6] = {NO, NO, 24, 32, 40, 48, 56, 60, 64},
    [7] = {NO, NO, 24, 32, 40, 48, 56, 60, 64},
};

static void a_send_is_translated_from_every_version(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++) {
        const struct p2p_offsets *at = &p2p_offsets[api];
        struct descriptor d = begin(api, MUSTER_EVENT_P2P);
        put_ptr(&d, at->name, "pp group");
        put_u64(&d, at->hash, 77);
        if (api == 1) {
            put_u8(&d, at->func, 6);
            put_u8(&d, at->datatype, 1);
        } else {
            put_ptr(&d, at->func, "Send");
            put_ptr(&d, at->datatype, "Unknown");
        }
        put_ptr(&d, at->buff, &buffer);
        put_u64(&d, at->count, 4096);
        put_i32(&d, at->peer, 6);
        put_u8(&d, at->channels, 8);
        put_ptr(&d, at->group, &group);
        const struct muster_event_op *op = &deliver(d, MUSTER_EVENT_P2P)->op;
        assert_text(op->comm_name, api <= 3 ? "pp group" : NULL);
        assert_int_equal(op->comm_hash, api <= 3 ? 77 : 0);
        assert_int_equal(op->func, MUSTER_FUNC_SEND);
        assert_int_equal(op->dtype, MUSTER_DTYPE_UINT8);
        assert_int_equal(op->count, 4096);
        assert_int_equal(op->root_or_peer, 6);
        assert_int_equal(op->channels, api >= 4 ? 8 : 0);
        assert_ptr_equal(op->parent_group, api >= 5 ? &group : NULL);
        assert_int_equal(op->algo, MUSTER_ALGO_UNKNOWN);
        assert_int_equal(op->seq, 0);
    }
}

static void the_network_proxy_is_translated_from_every_version(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++) {
        struct descriptor d = begin(api, MUSTER_EVENT_PROXY_OP);
        put_i32(&d, 24, 4321);
        put_u8(&d, 28, 200);
        put_i32(&d, 32, 5);
        put_i32(&d, 36, 64);
        put_i32(&d, 40, 1 << 19);
        put_i32(&d, 44, 1);
        const struct muster_event *event = deliver(d, MUSTER_EVENT_PROXY_OP);
        assert_int_equal(event->proxy_op.pid, 4321);
        assert_int_equal(event->proxy_op.channel, 200);
        assert_int_equal(event->proxy_op.peer, 5);
        assert_int_equal(event->proxy_op.steps, 64);
        assert_int_equal(event->proxy_op.chunk, 1 << 19);
        assert_int_equal(event->proxy_op.send, 1);

        d = begin(api, MUSTER_EVENT_PROXY_STEP);
        put_i32(&d, 24, 63);
        assert_int_equal(deliver(d, MUSTER_EVENT_PROXY_STEP)->proxy_step.step, 63);

        deliver(begin(api, MUSTER_EVENT_PROXY_CTRL), MUSTER_EVENT_PROXY_CTRL);
        deliver(begin(api, MUSTER_EVENT_GROUP), MUSTER_EVENT_GROUP);
    }
}

static void kernel_channels_and_net_plugins_come_with_v3(void **state)
{
    (void)state;
    for (unsigned api = 3; api <= APIS; api++) {
        struct descriptor d = begin(api, MUSTER_EVENT_KERNEL_CH);
        put_u8(&d, 24, 31);
        put_u64(&d, 32, 1767766829233827840u); /* of v3 something else's */
        const struct muster_event *event = deliver(d, MUSTER_EVENT_KERNEL_CH);
        assert_int_equal(event->kernel_ch.channel, 31);
        assert_true(event->kernel_ch.ptimer == (api >= 4 ? 1767766829233827840u : 0));

        d = begin(api, MUSTER_EVENT_NET_PLUGIN);
        put_u64(&d, 24, 1 << 16 | 1);
        put_ptr(&d, 32, &buffer);
        event = deliver(d, MUSTER_EVENT_NET_PLUGIN);
        assert_true(event->net_plugin.id == (1 << 16 | 1));
        assert_ptr_equal(event->net_plugin.data, &buffer);
    }
}

static void calls_of_the_application_come_with_v5(void **state)
{
    (void)state;
    for (unsigned api = 5; api <= APIS; api++) {
        struct descriptor d = begin(api, MUSTER_EVENT_GROUP_API);
        put_u8(&d, 24, 2); /* true, but not 1 */
        put_i32(&d, 28, 4);
        const struct muster_event *event = deliver(d, MUSTER_EVENT_GROUP_API);
        assert_true(event->group_api.graph);
        assert_int_equal(event->group_api.depth, 4);

        d = begin(api, MUSTER_EVENT_COLL_API);
        put_ptr(&d, 24, "AllGather");
        put_u64(&d, 32, 1000);
        put_ptr(&d, 40, "ncclFloat8e4m3");
        put_i32(&d, 48, 1);
        put_ptr(&d, 56, &stream);
        put_u8(&d, 64, 0);
        event = deliver(d, MUSTER_EVENT_COLL_API);
        assert_int_equal(event->op.func, MUSTER_FUNC_ALL_GATHER);
        assert_int_equal(event->op.dtype, MUSTER_DTYPE_FLOAT8E4M3);
        assert_int_equal(event->op.count, 1000);
        assert_int_equal(event->op.root_or_peer, 1);
        assert_ptr_equal(event->op.stream, &stream);
        assert_false(event->op.graph);
        assert_null(event->op.algo_text);

        d = begin(api, MUSTER_EVENT_P2P_API);
        put_ptr(&d, 24, "Recv");
        put_u64(&d, 32, 12);
        put_ptr(&d, 40, "ncclInt8");
        put_ptr(&d, 48, &stream);
        put_u8(&d, 56, 1);
        event = deliver(d, MUSTER_EVENT_P2P_API);
        assert_int_equal(event->op.func, MUSTER_FUNC_RECV);
        assert_int_equal(event->op.dtype, MUSTER_DTYPE_INT8);
        assert_int_equal(event->op.count, 12);
        assert_int_equal(event->op.root_or_peer, -1);
        assert_ptr_equal(event->op.stream, &stream);
        assert_true(event->op.graph);

        d = begin(api, MUSTER_EVENT_KERNEL_LAUNCH);
        put_ptr(&d, 24, &stream);
        event = deliver(d, MUSTER_EVENT_KERNEL_LAUNCH);
        assert_ptr_equal(event->kernel_launch.stream, &stream);
    }
}

static void copy_engines_come_with_v6(void **state)
{
    (void)state;
    for (unsigned api = 6; api <= APIS; api++) {
        struct descriptor d = begin(api, MUSTER_EVENT_CE_COLL);
        put_u64(&d, 24, 99);
        put_ptr(&d, 32, "AllGather");
        put_u64(&d, 56, 1 << 24);
        put_i32(&d, 64, 0);
        put_ptr(&d, 72, "ncclFloat32");
        put_ptr(&d, 80, "multicast");
        put_ptr(&d, 104, &stream);
        const struct muster_event *event = deliver(d, MUSTER_EVENT_CE_COLL);
        assert_int_equal(event->op.seq, 99);
        assert_int_equal(event->op.func, MUSTER_FUNC_ALL_GATHER);
        assert_int_equal(event->op.dtype, MUSTER_DTYPE_FLOAT32);
        assert_int_equal(event->op.count, 1 << 24);
        assert_int_equal(event->op.algo, MUSTER_ALGO_CE);
        assert_ptr_equal(event->op.stream, &stream);

        d = begin(api, MUSTER_EVENT_CE_SYNC);
        put_i32(&d, 28, 4);
        event = deliver(d, MUSTER_EVENT_CE_SYNC);
        assert_int_equal(event->ce.n, 4);
        assert_int_equal(event->ce.bytes, 0);

        d = begin(api, MUSTER_EVENT_CE_BATCH);
        put_i32(&d, 24, 16);
        put_u64(&d, 32, UINT64_C(1) << 36);
        event = deliver(d, MUSTER_EVENT_CE_BATCH);
        assert_int_equal(event->ce.n, 16);
        assert_true(event->ce.bytes == UINT64_C(1) << 36);
    }
}

static void kernel_phases_come_with_v7(void **state)
{
    (void)state;
    struct descriptor d = begin(7, MUSTER_EVENT_KERNEL_PHASE);
    put_u8(&d, 24, 30);
    put_u8(&d, 25, 2);
    put_ptr(&d, 32, "final sync");
    put_u64(&d, 40, 123456789);
    const struct muster_event *event = deliver(d, MUSTER_EVENT_KERNEL_PHASE);
    assert_int_equal(event->kernel_ch.channel, 30);
    assert_int_equal(event->kernel_ch.phase, 2);
    assert_int_equal(event->kernel_ch.ptimer, 123456789);
}

static void the_callers_tag_comes_with_v7(void **state)
{
    static const struct {
        enum muster_event_kind kind;
        int at;
    } tagged[] = {{MUSTER_EVENT_COLL, 128},
                  {MUSTER_EVENT_P2P, 72},
                  {MUSTER_EVENT_COLL_API, 72},
                  {MUSTER_EVENT_P2P_API, 64},
                  {MUSTER_EVENT_CE_COLL, 112}};
    (void)state;
    for (size_t i = 0; i < sizeof tagged / sizeof *tagged; i++) {
        for (unsigned api = 6; api <= APIS; api++) {
            const uint64_t tag = api >= 7 ? 0xfedcba9876543210 : 0;
            struct descriptor d = begin(api, tagged[i].kind);
            memset(d.at + 24, 0, descriptor_bytes[api] - 24);
            if (tag)
                put_u64(&d, tagged[i].at, tag);
            assert_true(deliver(d, tagged[i].kind)->op.user_tag == tag);
        }
    }
}

static void assert_nothing_comes_of(unsigned api, uint64_t type)
{
    struct descriptor d = begin(api, 0);
    void *handle = &stream;
    put_type(&d, type);
    memset(&fake, 0, sizeof(fake));
    assert_int_equal(start(api, NULL, &handle, d.at), 0);
    assert_int_equal(fake.starts, 0);
    assert_null(handle);
    fake_unguard(d.at, descriptor_bytes[api]);
}

static void a_type_that_the_version_lacks_is_ignored(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++) {
        unsigned bits = api < 5 ? 8 : 64;
        for (unsigned kind = kinds[api]; kind < bits; kind++)
            assert_nothing_comes_of(api, UINT64_C(1) << kind);
        assert_nothing_comes_of(api, 0);
        assert_nothing_comes_of(api, 3);
        assert_nothing_comes_of(api, api < 5 ? 0xff : UINT64_MAX);
    }
}

static void no_descriptor_or_no_place_for_a_handle_is_harmless(void **state)
{
    (void)state;
    for (unsigned api = 1; api <= APIS; api++) {
        void *handle = &stream;
        memset(&fake, 0, sizeof(fake));
        assert_int_equal(start(api, &group, &handle, NULL), 0);
        assert_null(handle);
        struct descriptor d = begin(api, MUSTER_EVENT_GROUP);
        assert_int_equal(start(api, &group, NULL, d.at), 0);
        assert_int_equal(fake.starts, 0);
        fake_unguard(d.at, descriptor_bytes[api]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collective_of_v1_is_told_by_numbers),
        cmocka_unit_test(a_collective_is_translated_from_every_version),
        cmocka_unit_test(unknown_and_missing_words_are_unknown),
        cmocka_unit_test(a_send_is_translated_from_every_version),
        cmocka_unit_test(the_network_proxy_is_translated_from_every_version),
        cmocka_unit_test(kernel_channels_and_net_plugins_come_with_v3),
        cmocka_unit_test(calls_of_the_application_come_with_v5),
        cmocka_unit_test(copy_engines_come_with_v6),
        cmocka_unit_test(kernel_phases_come_with_v7),
        cmocka_unit_test(the_callers_tag_comes_with_v7),
        cmocka_unit_test(a_type_that_the_version_lacks_is_ignored),
        cmocka_unit_test(no_descriptor_or_no_place_for_a_handle_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
