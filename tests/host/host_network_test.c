/* Network proxy operations, their steps, and those of other processes (PXN). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "host_testbed.h"

#include <cmocka.h>

enum { FIRST_PROXY_API = 4, FIRST_STEP_API = 5, CHUNK = 65536 };

static const struct standin_comm_config two_nodes = {
    .hash = 0xe7, .rank = 1, .nranks = 4, .nnodes = 2};

static struct standin_op over_network(int peer, bool send)
{
    return (struct standin_op){.func = "AllReduce",
                               .count = 1 << 16,
                               .net_ops = 2,
                               .net_peer = peer,
                               .net_steps = 4,
                               .net_chunk = CHUNK,
                               .net_send = send};
}

static const struct muster_seg_net *net_of(const struct standin_testbed *testbed, int peer,
                                           bool send)
{
    const struct muster_segment *segment = standin_testbed_process(testbed)->segment;
    const struct muster_seg_net *found = NULL;

    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++) {
        const struct muster_seg_net *net = &segment->net[i];
        if (net->comm && net->peer == peer && (net->send != 0) == send) {
            assert_null(found);
            found = net;
        }
    }
    assert_non_null(found);
    return found;
}

static unsigned nets(const struct standin_testbed *testbed)
{
    const struct muster_segment *segment = standin_testbed_process(testbed)->segment;
    unsigned n = 0;

    for (unsigned i = 0; i < MUSTER_SEG_NETS; i++)
        n += segment->net[i].comm && segment->net[i].count;
    return n;
}

static void three_links(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &two_nodes);
    struct standin_op to2 = over_network(2, true), from0 = over_network(0, false),
                      to3 = over_network(3, true);

    for (unsigned i = 0; i < 20; i++) {
        standin_call(comm, &to2);
        standin_call(comm, &from0);
        if (i % 4 == 0)
            standin_call(comm, &to3);
    }
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void proxy_operations_are_summed_by_peer_and_direction(void **state)
{
    static const char *const timings[] = {"light", "channels"};
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_PROXY_API; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_testbed_run(&testbed, api, timings[i], three_links);
            standin_testbed_expect_all(&testbed);
            assert_int_equal(net_of(&testbed, 2, true)->count, 40);
            assert_int_equal(net_of(&testbed, 0, false)->count, 40);
            assert_int_equal(net_of(&testbed, 3, true)->count, 10);
            assert_int_equal(nets(&testbed), 3);
            standin_testbed_end(&testbed);
        }
    }
}

static void proxy_operations_change_no_count_of_operations(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api < FIRST_PROXY_API; api++) {
        standin_testbed_run(&testbed, api, "channels", three_links);
        assert_int_equal(standin_ledger_count(testbed.ledger), 45);
        standin_testbed_expect_all(&testbed);
        standin_testbed_end(&testbed);
    }
}

static void operations_over_the_network_have_proxy_times_in_light_timing(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_PROXY_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", three_links);
        const struct muster_process *process = standin_testbed_process(&testbed);
        assert_int_equal(process->ops, 45);
        for (size_t i = 0; i < process->ops; i++) {
            assert_int_equal(process->op[i].source, MUSTER_SOURCE_PROXY);
            assert_true(process->op[i].end_ns > process->op[i].begin_ns);
            assert_true(process->op[i].begin_ns >= process->op[i].enqueue_ns);
        }
        standin_testbed_end(&testbed);
    }
}

enum { WAIT_NS = 200000, WAITING_OPS = 5, WAITING_STEPS = WAITING_OPS * 2 * 4 };

static void waits(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &two_nodes);
    struct standin_op send = over_network(2, true), receive = over_network(0, false);
    uint64_t begin = muster_now_ns();

    send.net_wait_ns = receive.net_wait_ns = WAIT_NS;
    standin_call_times(comm, &send, WAITING_OPS);
    standin_call_times(comm, &receive, WAITING_OPS);
    standin_comm_sync(comm);
    nccl->ledger->note[0] = muster_now_ns() - begin;
    standin_comm_destroy(comm);
}

static void waits_of_proxy_steps_are_told_apart(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_STEP_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", waits);
        const struct muster_seg_net *send = net_of(&testbed, 2, true),
                                    *receive = net_of(&testbed, 0, false);
        uint64_t least = (uint64_t)WAIT_NS * WAITING_STEPS;
        assert_int_equal(send->steps, WAITING_STEPS);
        assert_int_equal(receive->steps, WAITING_STEPS);
        assert_int_equal(send->bytes, (uint64_t)CHUNK * WAITING_STEPS);
        assert_int_equal(receive->bytes, (uint64_t)CHUNK * WAITING_STEPS);
        assert_true(send->gpu_wait_ns >= least);
        assert_true(send->credit_wait_ns >= least);
        assert_true(send->net_wait_ns >= least);
        assert_int_equal(send->flush_ns, 0);
        assert_true(receive->net_wait_ns >= least);
        assert_true(receive->flush_ns >= least);
        assert_true(receive->gpu_wait_ns >= least);
        assert_int_equal(receive->credit_wait_ns, 0);
        assert_true(send->gpu_wait_ns + send->credit_wait_ns + send->net_wait_ns +
                        receive->net_wait_ns + receive->flush_ns + receive->gpu_wait_ns <=
                    testbed.ledger->note[0]);
        standin_testbed_end(&testbed);
    }
}

/* Another local rank's operations on this rank's proxy thread: context and parent point into that
 * rank's process, and only the operation's pid says so. */
static void pxn(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &two_nodes);
    void *const theirs = (void *)0x7f1122334000, *handle[3];
    struct standin_args args = {.trans_bytes = CHUNK};
    struct standin_op own = over_network(2, true);

    standin_call_times(comm, &own, 10);
    standin_comm_sync(comm);
    for (unsigned i = 0; i < 50; i++) {
        struct standin_event op = {.type = STANDIN_PROXY_OP,
                                   .parent = theirs,
                                   .rank = 3,
                                   .pid = getpid() + 1,
                                   .root_or_peer = 2,
                                   .steps = 1,
                                   .chunk = CHUNK,
                                   .send = true};
        standin_start(nccl, theirs, &handle[0], &op);
        struct standin_event step = {.type = STANDIN_PROXY_STEP, .parent = handle[0], .rank = 3};
        standin_record(nccl, handle[0], 19, &args);
        standin_start(nccl, theirs, &handle[1], &step);
        step.parent = theirs;
        standin_start(nccl, theirs, &handle[2], &step);
        for (unsigned part = 1; part < 3; part++) {
            standin_record(nccl, handle[part], 8, &args);
            standin_record(nccl, handle[part], 9, &args);
            standin_stop(nccl, handle[part]);
        }
        standin_stop(nccl, handle[0]);
    }
    standin_call_times(comm, &own, 10);
    standin_comm_destroy(comm);
}

static void operations_of_other_processes_are_refused_and_counted(void **state)
{
    static const char *const timings[] = {"light", "channels"};
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_PROXY_API; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_testbed_run(&testbed, api, timings[i], pxn);
            standin_testbed_expect_all(&testbed);
            assert_int_equal(net_of(&testbed, 2, true)->count, 40);
            assert_int_equal(nets(&testbed), 1);
            assert_true(standin_testbed_drops(&testbed, MUSTER_DROP_FOREIGN) >= 50);
            standin_testbed_end(&testbed);
        }
    }
}

/* NCCL 2.24.3 to 2.26.6 stop receive steps under the wrong number: some never, some twice. */
static void steps_never_stopped(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &two_nodes);
    struct standin_args args = {.trans_bytes = CHUNK};
    struct standin_op own = over_network(0, false);
    void *op, *step[4];

    for (unsigned n = 0; n < 2000; n++) {
        struct standin_event op_event = {.type = STANDIN_PROXY_OP,
                                         .rank = 1,
                                         .pid = getpid(),
                                         .root_or_peer = 3,
                                         .steps = 4,
                                         .chunk = CHUNK};
        standin_start(nccl, comm->context, &op, &op_event);
        for (int i = 0; i < 4; i++) {
            struct standin_event event = {
                .type = STANDIN_PROXY_STEP, .parent = op, .rank = 1, .step = i};
            standin_start(nccl, comm->context, &step[i], &event);
            standin_record(nccl, step[i], 10, &args);
        }
        standin_stop(nccl, step[n % 4]);
        standin_stop(nccl, step[n % 4]);
        if (n % 2)
            standin_stop(nccl, op);
        standin_stop(nccl, step[(n + 1) % 4]);
    }
    standin_call_times(comm, &own, 10);
    standin_comm_destroy(comm);
}

static void proxy_steps_and_operations_without_stop_are_bounded(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_STEP_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", steps_never_stopped);
        standin_testbed_expect_all(&testbed);
        uint64_t recorded = net_of(&testbed, 3, false)->count;
        assert_true(recorded <= 1000);
        assert_true(recorded + standin_testbed_drops(&testbed, MUSTER_DROP_NO_PROXY_SLOT) > 0);
        standin_testbed_end(&testbed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proxy_operations_are_summed_by_peer_and_direction),
        cmocka_unit_test(proxy_operations_change_no_count_of_operations),
        cmocka_unit_test(operations_over_the_network_have_proxy_times_in_light_timing),
        cmocka_unit_test(waits_of_proxy_steps_are_told_apart),
        cmocka_unit_test(operations_of_other_processes_are_refused_and_counted),
        cmocka_unit_test(proxy_steps_and_operations_without_stop_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
