/* Stamps of NCCL's own kernels, where its counters on host and device part ways: a stamp of another
 * operation is worse than none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "host_testbed.h"

#include <cmocka.h>

enum { FIRST_API = 5, OPS = 1200, STEPS = 50, SLIPS = 60 };
#define STEP_NS 1024

static const struct standin_comm_config pair = {.hash = 0x77, .rank = 0, .nranks = 2};

/* The count tells the duration: the operation's own. */
static struct standin_op numbered(unsigned i, unsigned channels)
{
    return (struct standin_op){.func = "AllReduce",
                               .count = 1000 + i,
                               .channels = channels,
                               .gpu_ns = STEP_NS * (1 + i % STEPS)};
}

/* How many all-reduces have GPU times. Each is the operation's own. */
static unsigned expect_own_times(const struct standin_testbed *testbed)
{
    const struct muster_process *process = standin_testbed_process(testbed);
    unsigned timed = 0;

    for (size_t i = 0; i < process->ops; i++) {
        const struct muster_op *op = &process->op[i];
        if (op->func != MUSTER_FUNC_ALL_REDUCE || op->source != MUSTER_SOURCE_GPU)
            continue;
        uint64_t own = STEP_NS * (1 + (op->count - 1000) % STEPS);
        if (muster_op_duration_ns(op) != own)
            fail_msg("interface v%u: number %llu took %llu ns, not %llu", testbed->api,
                     (unsigned long long)op->number, (unsigned long long)muster_op_duration_ns(op),
                     (unsigned long long)own);
        timed++;
    }
    return timed;
}

/* One in five on fewer channels, and between them what only the device counts, or only the host. */
static void unlike_works(struct standin *nccl)
{
    nccl->exact_gpu = true;
    struct standin_comm *comm = standin_comm_init(nccl, &pair);

    for (unsigned i = 0; i < OPS; i++) {
        struct standin_op op = numbered(i, i % 5 ? 8 : 1);
        standin_call(comm, &op);
        if (i % 100 == 99) {
            struct standin_op self = {.func = "Send", .count = 9, .root_or_peer = 0, .channels = 1};
            standin_call(comm, &self);
            self.func = "Broadcast";
            standin_call(comm, &self);
        }
        if (i % 64 == 63)
            standin_comm_sync(comm);
    }
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void counters_that_drift_give_no_times_of_other_operations(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", unlike_works);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), OPS);
        assert_true(expect_own_times(&testbed) > 0); /* until the first drift */
        standin_testbed_end(&testbed);
    }
}

/* While nothing is read: an operation, and `later` works that NCCL does not all show. */
static void work_later(struct standin *nccl, unsigned later)
{
    static const struct standin_op self = {.func = "Send", .count = 9, .channels = 1};
    static const struct standin_op broadcast = {.func = "Broadcast", .count = 9, .channels = 1};
    struct standin_comm *comm = standin_comm_init(nccl, &pair);

    standin_worker_hold(comm->proxy->worker);
    for (unsigned i = 0; i <= later; i++) {
        struct standin_op op = numbered(i, 1);
        standin_call(comm, i == 10 ? &broadcast : i == 20 ? &self : &op);
    }
    standin_worker_release(comm->proxy->worker);
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void turns_of_the_ring(struct standin *nccl)
{
    nccl->exact_gpu = true;
    for (unsigned later = 60; later < 70; later++)
        work_later(nccl, later);
}

/* Sends to oneself and broadcasts turn the ring like any other work. */
static void what_is_not_shown_turns_the_ring_as_well(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", turns_of_the_ring);
        expect_own_times(&testbed);
        assert_true(standin_testbed_drops(&testbed, MUSTER_DROP_TIME_RING) > 0);
        standin_testbed_end(&testbed);
    }
}

static void slips(struct standin *nccl)
{
    nccl->exact_gpu = true;
    struct standin_comm *comm = standin_comm_init(nccl, &pair);

    for (unsigned i = 0; i < SLIPS; i++) {
        if (i == SLIPS / 2)
            standin_device_slip(comm);
        usleep(5000); /* what was stamped before is that much older than this call */
        struct standin_op op = numbered(i, 2);
        standin_call(comm, &op);
        standin_comm_sync(comm);
    }
    standin_comm_destroy(comm);
}

/* No operation explains it: the stamps are those of the work before, and of a time before the call.
 */
static void stamps_from_before_the_call_are_refused(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", slips);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), SLIPS);
        assert_int_equal(expect_own_times(&testbed), SLIPS / 2);
        assert_true(standin_testbed_drops(&testbed, MUSTER_DROP_TIME_RING) > 0);
        standin_testbed_end(&testbed);
    }
}

static void far_behind(struct standin *nccl)
{
    nccl->exact_gpu = true;
    struct standin_comm *comm = standin_comm_init(nccl, &pair);

    for (unsigned burst = 0; burst < 8; burst++) {
        standin_worker_hold(comm->proxy->worker);
        for (unsigned i = 0; i < 150; i++) {
            struct standin_op op = numbered(burst * 150 + i, 2);
            standin_call(comm, &op);
        }
        standin_worker_release(comm->proxy->worker);
        standin_comm_sync(comm);
    }
    standin_comm_destroy(comm);
}

/* The ring of stamps has turned by then: what it holds is of later operations. */
static void a_reader_64_works_behind_gives_no_times_of_other_operations(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", far_behind);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), OPS);
        expect_own_times(&testbed);
        standin_testbed_end(&testbed);
    }
}

static void batches(struct standin *nccl)
{
    static struct standin_group group;

    nccl->exact_gpu = true;
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    for (unsigned i = 0; i < 100; i++) {
        standin_group_begin(&group, nccl);
        for (unsigned n = 0; n < 16; n++)
            standin_group_call(&group, comm,
                               &(struct standin_op){.func = "AllReduce",
                                                    .count = 1000 + STEPS - 1,
                                                    .channels = 1,
                                                    .gpu_ns = STEP_NS * STEPS});
        standin_group_end(&group);
        standin_comm_sync(comm); /* a host that is 64 works ahead trusts no stamp */
    }
    standin_wait_retired(1600);
    standin_comm_destroy(comm);
}

/* From 2.31 on all works of a kernel begin before the first ends: 16 on one channel. */
static void many_works_may_be_open_on_a_channel(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", batches);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 1600);
        assert_int_equal(expect_own_times(&testbed), 1600);
        assert_int_equal(standin_testbed_drops(&testbed, MUSTER_DROP_INCOMPLETE), 0);
        standin_testbed_end(&testbed);
    }
}

static void replays(struct standin *nccl)
{
    static const struct standin_op op = {
        .func = "AllReduce", .count = 1000 + STEPS - 1, .channels = 2, .gpu_ns = STEP_NS * STEPS};
    static struct standin_group graph;

    nccl->exact_gpu = true;
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    standin_capture(&graph, comm, &op, 1);
    for (unsigned round = 0; round < 5; round++) {
        standin_worker_hold(comm->proxy->worker);
        for (unsigned i = 0; i < 20; i++)
            standin_replay(&graph);
        standin_worker_drain(nccl->callbacks);
        standin_worker_release(comm->proxy->worker);
        standin_comm_sync(comm);
    }
    standin_comm_destroy(comm);
}

/* Twenty replays are open at once, all of the same captured call. */
static void kernels_of_many_replays_may_be_open_at_once(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", replays);
        const struct muster_process *process = standin_testbed_process(&testbed);
        assert_int_equal(process->ops, 100);
        for (size_t i = 0; i < process->ops; i++)
            assert_true(process->op[i].flags & MUSTER_OP_GRAPH);
        assert_int_equal(expect_own_times(&testbed), 100);
        standin_testbed_end(&testbed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_that_drift_give_no_times_of_other_operations),
        cmocka_unit_test(what_is_not_shown_turns_the_ring_as_well),
        cmocka_unit_test(stamps_from_before_the_call_are_refused),
        cmocka_unit_test(a_reader_64_works_behind_gives_no_times_of_other_operations),
        cmocka_unit_test(many_works_may_be_open_on_a_channel),
        cmocka_unit_test(kernels_of_many_replays_may_be_open_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
