/* CUDA graphs: capture, and replays on CUDA's callback thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "host_testbed.h"

#include <cmocka.h>

static const struct standin_comm_config four_ranks = {.hash = 0x9a, .rank = 1, .nranks = 4};
static const struct standin_op layer[] = {
    {.func = "AllReduce", .count = 1000},
    {.func = "AllGather", .count = 100, .dtype = "ncclBfloat16"},
    {.func = "Send", .count = 50, .root_or_peer = 2},
};
static struct standin_group graph;

enum { CAPTURED = 3, REPLAYS = 25 };

static void capture_and_replay(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &four_ranks);

    standin_call(comm, &(struct standin_op){.func = "AllReduce", .count = 9});
    standin_capture(&graph, comm, layer, CAPTURED);
    for (unsigned i = 0; i < REPLAYS; i++)
        standin_replay(&graph);
    standin_comm_sync(comm);
    standin_call(comm, &(struct standin_op){.func = "AllReduce", .count = 9});
    standin_comm_destroy(comm);
}

static const struct muster_seg_comm *only_comm(const struct standin_testbed *testbed)
{
    return &standin_testbed_process(testbed)->segment->comm[0];
}

static void replays_with_kernel_events_count_and_captures_do_not(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", capture_and_replay);
        assert_int_equal(standin_ledger_count(testbed.ledger), 2 + CAPTURED * REPLAYS);
        standin_testbed_expect_all(&testbed);
        assert_int_equal(only_comm(&testbed)->captured, CAPTURED);
        standin_testbed_end(&testbed);
    }
}

static void capture_without_kernel_events_counts_nothing(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", capture_and_replay);
        assert_int_equal(standin_ledger_count(testbed.ledger), 2);
        standin_testbed_expect_all(&testbed);
        assert_int_equal(only_comm(&testbed)->captured, CAPTURED);
        standin_testbed_end(&testbed);
    }
}

static void replay_over_the_network(struct standin *nccl)
{
    static const struct standin_op op = {.func = "AllReduce",
                                         .count = 1000,
                                         .net_ops = 2,
                                         .net_peer = 2,
                                         .net_steps = 1,
                                         .net_chunk = 2000,
                                         .net_send = true};
    struct standin_comm *comm = standin_comm_init(
        nccl, &(struct standin_comm_config){.hash = 7, .rank = 1, .nranks = 4, .nnodes = 2});

    standin_capture(&graph, comm, &op, 1);
    for (unsigned i = 0; i < REPLAYS; i++)
        standin_replay(&graph);
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void replays_over_the_network_count_in_light_timing(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", replay_over_the_network);
        assert_int_equal(standin_ledger_count(testbed.ledger), REPLAYS);
        standin_testbed_expect_all(&testbed);
        standin_testbed_end(&testbed);
    }
}

static void replay_before_the_previous_ended(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &four_ranks);

    standin_capture(&graph, comm, layer, CAPTURED);
    standin_worker_hold(comm->proxy->worker);
    for (unsigned i = 0; i < REPLAYS; i++) {
        standin_replay(&graph);
        standin_worker_drain(nccl->callbacks);
        if (i % 10 == 9) { /* NCCL keeps 64 stamps a channel */
            standin_worker_release(comm->proxy->worker);
            standin_comm_sync(comm);
            standin_worker_hold(comm->proxy->worker);
        }
    }
    standin_worker_release(comm->proxy->worker);
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void kernels_of_an_earlier_replay_may_end_after_the_next_began(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", replay_before_the_previous_ended);
        assert_int_equal(standin_ledger_count(testbed.ledger), CAPTURED * REPLAYS);
        standin_testbed_expect_all(&testbed);
        standin_testbed_end(&testbed);
    }
}

/* Eager calls between capture and replay, and the replay's parents long stopped. */
static void eager_between(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &four_ranks);

    standin_capture(&graph, comm, layer, CAPTURED);
    for (unsigned i = 0; i < REPLAYS; i++) {
        standin_replay(&graph);
        standin_call_times(comm, &(struct standin_op){.func = "AllReduce", .count = 1000}, 3);
    }
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void eager_operations_between_replays_stay_apart(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 5; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", eager_between);
        const struct muster_process *process = standin_testbed_process(&testbed);
        unsigned eager = 0, replayed = 0;
        for (size_t i = 0; i < process->ops; i++) {
            eager += !(process->op[i].flags & MUSTER_OP_GRAPH);
            replayed += (process->op[i].flags & MUSTER_OP_GRAPH) != 0;
        }
        assert_int_equal(eager, 3 * REPLAYS);
        assert_int_equal(replayed, CAPTURED * REPLAYS);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS),
                         standin_ledger_count(testbed.ledger));
        standin_testbed_end(&testbed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replays_with_kernel_events_count_and_captures_do_not),
        cmocka_unit_test(capture_without_kernel_events_counts_nothing),
        cmocka_unit_test(replays_over_the_network_count_in_light_timing),
        cmocka_unit_test(kernels_of_an_earlier_replay_may_end_after_the_next_began),
        cmocka_unit_test(eager_operations_between_replays_stay_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
