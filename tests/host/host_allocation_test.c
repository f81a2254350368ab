/* After a communicator was created the plugin takes no memory on NCCL's threads, whatever NCCL
 * calls. */
#include "host_allocation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "host_testbed.h"

#include <cmocka.h>

enum {
    FULL_ROUNDS = 600,
    ROUNDS = 150,
    ROUNDS_A_BATCH = 75,
    REPLAYS = 300,
    GROUPED = 6,
    CAPTURED = 3
};
enum { FIRST_NAMING_INIT = 4, FIRST_TIMED = 5, BARE_CALLS = 1000, MAY_STAY = 100 };

static const struct standin_comm_config two_nodes = {
    .hash = 0xa110c, .name = "first", .rank = 1, .nranks = 8, .nnodes = 2};
static const struct standin_comm_config nonblocking = {
    .hash = 0xa110d, .rank = 1, .nranks = 8, .nnodes = 1, .nonblocking = true};

static const struct standin_op eager[] = {
    {.func = "AllReduce", .count = 4096, .symmetric = true},
    {.func = "AllGather", .count = 4096, .ce = true},
    {.func = "AllReduce",
     .count = 1 << 16,
     .net_ops = 2,
     .net_peer = 2,
     .net_steps = 4,
     .net_chunk = 65536,
     .net_send = true},
    {.func = "AllReduce", .count = 3, .dtype = "ncclBfloat16", .algo = "TREE", .proto = "LL"},
    {.func = "AllGather", .count = 100},
    {.func = "ReduceScatter", .count = 100, .channels = 24},
    {.func = "Broadcast", .count = 100, .root_or_peer = 3},
    {.func = "Reduce", .count = 100, .root_or_peer = 3},
    {.func = "Send", .count = 50, .root_or_peer = 2},
    {.func = "Recv",
     .count = 50,
     .root_or_peer = 2,
     .net_ops = 1,
     .net_peer = 2,
     .net_steps = 2,
     .net_chunk = 65536},
};
enum { EAGER = sizeof eager / sizeof *eager };

static void one_of_each(struct standin *nccl, struct standin_comm *comm, struct standin_comm *other)
{
    static struct standin_group group;

    for (unsigned i = 0; i < EAGER; i++)
        if ((nccl->gen->ce || !eager[i].ce) && (nccl->gen->api_events || !eager[i].symmetric))
            standin_call(comm, &eager[i]);
    standin_group_begin(&group, nccl);
    for (unsigned i = 0; i < GROUPED; i++)
        standin_group_call(&group, i % 2 ? comm : other,
                           &(struct standin_op){.func = i < 3 ? "AllReduce" : "Send",
                                                .count = 10 + i,
                                                .root_or_peer = (int)i});
    standin_group_end(&group);
    standin_call(other, &eager[3]);
}

/* Waits for free slots. A few operations may stay: of those at a block's edge, whose timing two
 * threads decide, the recorder expects kernels for longer. */
static void settle(struct standin *nccl, struct standin_comm *comm, struct standin_comm *other)
{
    standin_comm_sync(comm);
    standin_comm_sync(other);
    uint64_t issued = standin_ledger_count(nccl->ledger);
    standin_wait_retired(issued > MAY_STAY ? issued - MAY_STAY : 0);
}

static void replay_a_graph(struct standin *nccl, struct standin_comm *comm,
                           struct standin_comm *other)
{
    static struct standin_group graph;

    standin_capture(&graph, comm, &eager[2], CAPTURED);
    for (unsigned i = 0; i < REPLAYS; i++) {
        standin_replay(&graph);
        if (nccl->full && i % ROUNDS_A_BATCH == 0)
            settle(nccl, comm, other);
    }
}

static void expect_none(const char *when)
{
    if (allocations_seen())
        standin_die("%lu allocations in %lu calls %s", allocations_seen(), allocation_calls(),
                    when);
}

static void every_kind(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &two_nodes);
    struct standin_comm *other = standin_comm_init(nccl, &nonblocking);

    /* Before v4 a communicator is created with its first operation. */
    if (nccl->gen->api < FIRST_NAMING_INIT)
        one_of_each(nccl, comm, other);
    settle(nccl, comm, other);
    allocation_watch(nccl);
    const unsigned rounds = nccl->full ? FULL_ROUNDS : ROUNDS;
    for (unsigned i = 1; i <= rounds; i++) {
        one_of_each(nccl, comm, other);
        if (i % ROUNDS_A_BATCH == 0)
            settle(nccl, comm, other);
    }
    expect_none("for operations");
    replay_a_graph(nccl, comm, other);
    settle(nccl, comm, other);
    expect_none("for a graph");
    for (unsigned i = 0; i < BARE_CALLS; i++) {
        standin_stop(nccl, NULL);
        standin_stop(nccl, &i); /* no handle of the plugin */
    }
    expect_none("for foreign handles");
    if (standin_ledger_count(nccl->ledger) < 15 * rounds)
        standin_die("only %llu operations", (unsigned long long)standin_ledger_count(nccl->ledger));
    standin_comm_destroy(comm);
    standin_comm_destroy(other);
}

static void no_operation_allocates(void **state)
{
    static const char *const timings[] = {"auto", "channels"};
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++)
        for (unsigned i = 0; i < (api < FIRST_TIMED ? 1 : 2); i++) {
            standin_testbed_run(&testbed, api, timings[i], every_kind);
            /* Operations without a slot did not go the way that this test is for. */
            assert_int_equal(standin_testbed_drops(&testbed, MUSTER_DROP_NO_SLOT), 0);
            assert_int_equal(standin_testbed_drops(&testbed, MUSTER_DROP_NO_PROXY_SLOT), 0);
            standin_testbed_end(&testbed);
        }
}

/* The count works: what the plugin takes for a communicator is seen. */
static void create_watched(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &nonblocking);

    allocation_watch_begin();
    standin_comm_init_again(comm);
    allocation_watch_end();
    if (allocations_seen() == 0)
        standin_die("no allocation was seen in a creation");
    standin_comm_destroy(comm);
}

static void creation_is_seen_to_allocate(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    standin_testbed_run_nothing(&testbed, 5, "auto", create_watched);
    standin_testbed_end(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(creation_is_seen_to_allocate),
        cmocka_unit_test(no_operation_allocates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
