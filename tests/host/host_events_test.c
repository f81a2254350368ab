/* Times by events of muster's own, on a driver whose contexts are reset, whose streams go and whose
 * calls fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host_testbed.h"

#include <cmocka.h>

enum { FIRST_API = 5, OPS = 200 };
#define KERNEL_NS 50000
#define STEP_NS   500000

static const struct standin_op reduce = {.func = "AllReduce", .count = 1000, .gpu_ns = KERNEL_NS};

static struct standin_comm *comm_on(struct standin *nccl, unsigned gpu, uint64_t hash)
{
    return standin_comm_init(nccl, &(struct standin_comm_config){
                                       .hash = hash, .gpu_index = gpu, .rank = 0, .nranks = 2});
}

/* Operations of a function that events of muster's own timed. */
static unsigned timed_by_events(const struct standin_testbed *testbed, unsigned func)
{
    const struct muster_process *process = standin_testbed_process(testbed);
    unsigned timed = 0;

    for (size_t i = 0; i < process->ops; i++)
        timed += process->op[i].func == func && process->op[i].source == MUSTER_SOURCE_EVENT;
    return timed;
}

/* --- what they say --------------------------------------------------------------------------- */

/* As a training job: what is called is waited for. */
static void one_by_one(struct standin *nccl)
{
    standin_open_driver(nccl);
    struct standin_comm *comm = comm_on(nccl, 0, 0x1);

    for (unsigned i = 0; i < OPS; i++) {
        standin_call(comm, &(struct standin_op){.func = "AllReduce",
                                                .count = 1000 + i,
                                                .gpu_ns = STEP_NS * (1 + i % 8)});
        nccl->driver->sync(comm->stream);
    }
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void at_once(struct standin *nccl)
{
    standin_open_driver(nccl);
    struct standin_comm *comm = comm_on(nccl, 0, 0x1);

    for (unsigned i = 0; i < OPS; i++)
        standin_call(comm, &(struct standin_op){.func = "AllReduce",
                                                .count = 1000 + i,
                                                .gpu_ns = STEP_NS * (1 + i % 8)});
    nccl->driver->sync(comm->stream);
    standin_wait_retired(OPS);
    standin_comm_destroy(comm);
}

static void expect_times(unsigned api, const char *timing, standin_scenario *scenario)
{
    struct standin_testbed testbed;

    standin_testbed_run(&testbed, api, timing, scenario);
    const struct muster_process *process = standin_testbed_process(&testbed);
    assert_int_equal(process->ops, OPS);
    assert_int_equal(timed_by_events(&testbed, MUSTER_FUNC_ALL_REDUCE), OPS);
    for (size_t i = 0; i < process->ops; i++) {
        const struct muster_op *op = &process->op[i];
        uint64_t ns = STEP_NS * (1 + (op->count - 1000) % 8);
        assert_true(muster_op_duration_ns(op) + 1000 >= ns); /* events step by half of that */
    }
    standin_testbed_end(&testbed);
}

static void events_time_every_launch_and_the_right_one(void **state)
{
    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        expect_times(api, "auto", one_by_one);
        expect_times(api, "full", one_by_one);
        expect_times(api, "full", at_once);
    }
}

enum { EXPERTS = 4, EXCHANGES = 300, GRADIENTS = EXCHANGES / 8 };

/* A mixture of experts: all-to-alls of uneven sizes, one's own share among them, and gradients. */
static void experts(struct standin *nccl)
{
    static struct standin_group group;

    standin_open_driver(nccl);
    struct standin_comm *comm = standin_comm_init(
        nccl, &(struct standin_comm_config){.hash = 0x9, .rank = 1, .nranks = EXPERTS});
    struct standin_comm *gradients = comm_on(nccl, 0, 0x1);
    for (unsigned i = 0; i < EXCHANGES; i++) {
        standin_group_begin(&group, nccl);
        for (int peer = 0; peer < EXPERTS; peer++) {
            struct standin_op part = {.func = "Send",
                                      .count = 1000 + i * 7 % 13 * 100,
                                      .root_or_peer = peer,
                                      .gpu_ns = KERNEL_NS};
            standin_group_call(&group, comm, &part);
            part.func = "Recv";
            standin_group_call(&group, comm, &part);
        }
        standin_group_end(&group);
        if (i % 8 == 7)
            standin_call(gradients, &reduce);
        nccl->driver->sync(comm->stream);
    }
    standin_wait_retired(EXCHANGES * EXPERTS * 2 + GRADIENTS);
    standin_comm_destroy(gradients);
    standin_comm_destroy(comm);
}

/* A group is one launch and timed as one; what a rank sends to itself has no time of its own. */
static void all_that_experts_exchange_is_timed(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "auto", experts);
        const struct muster_process *process = standin_testbed_process(&testbed);
        assert_int_equal(process->ops, EXCHANGES * EXPERTS * 2 + GRADIENTS);
        for (size_t i = 0; i < process->ops; i++) {
            const struct muster_op *op = &process->op[i];
            bool to_itself = op->func != MUSTER_FUNC_ALL_REDUCE && op->peer == 1;
            assert_int_equal(op->source, to_itself ? MUSTER_SOURCE_NONE : MUSTER_SOURCE_EVENT);
        }
        standin_testbed_end(&testbed);
    }
}

/* --- what dies ------------------------------------------------------------------------------- */

static void resets(struct standin *nccl)
{
    standin_open_driver(nccl);
    for (unsigned round = 0; round < 8; round++) {
        struct standin_comm *comm = comm_on(nccl, 0, 0x10 + round);
        standin_call_times(comm, &reduce, 50);
        standin_comm_sync(comm);
        standin_comm_destroy(comm);
        nccl->driver->reset(0);
    }
}

/* The context's address stays, its events do not: to use one again crashes the driver. */
static void events_of_a_reset_context_are_never_used_again(void **state)
{
    static const char *const timings[] = {"light", "auto", "full"};
    struct standin_testbed testbed;

    (void)state;
    for (unsigned t = 0; t < 3; t++) {
        standin_testbed_run(&testbed, FIRST_API, timings[t], resets);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 400);
        standin_testbed_end(&testbed);
    }
}

static void streams_that_go(struct standin *nccl)
{
    standin_open_driver(nccl);
    for (unsigned round = 0; round < 20; round++) {
        struct standin_comm *comm = comm_on(nccl, 0, 0x10 + round);
        standin_call_times(comm, &reduce, 20);
        nccl->driver->stream_destroy(comm->stream); /* with work outstanding, as CUDA allows */
        comm->stream = nccl->driver->stream_create(0);
        standin_call_times(comm, &reduce, 20);
        standin_comm_sync(comm);
        standin_comm_destroy(comm);
        nccl->driver->stream_destroy(comm->stream);
    }
}

static void streams_may_be_destroyed_behind_a_launch(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    standin_testbed_run(&testbed, FIRST_API, "full", streams_that_go);
    assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 800);
    standin_testbed_end(&testbed);
}

static void assertion(struct standin *nccl)
{
    standin_open_driver(nccl);
    struct standin_comm *broken = comm_on(nccl, 0, 0x1), *whole = comm_on(nccl, 1, 0x2);

    standin_call_times(broken, &reduce, 50);
    standin_call_times(whole, &reduce, 50);
    nccl->driver->assert_on(0);
    standin_call_times(broken, &reduce, 50);
    standin_call_times(
        whole, &(struct standin_op){.func = "AllGather", .count = 1000, .gpu_ns = KERNEL_NS}, 50);
    nccl->driver->sync(whole->stream);
    standin_wait_retired(200);
    standin_comm_destroy(broken);
    standin_comm_destroy(whole);
}

/* A device-side assertion makes every later call in its context fail; other GPUs go on. */
static void a_broken_context_leaves_the_others_timed(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    standin_testbed_run(&testbed, FIRST_API, "full", assertion);
    assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 150);
    assert_int_equal(timed_by_events(&testbed, MUSTER_FUNC_ALL_GATHER), 50);
    standin_testbed_end(&testbed);
}

static const char *failing;

static void calls_fail(struct standin *nccl)
{
    standin_open_driver(nccl);
    nccl->driver->fail_next(failing, FAKE_INVALID_HANDLE, 3);
    struct standin_comm *comm = comm_on(nccl, 0, 0x1);

    standin_call_times(comm, &reduce, OPS);
    standin_comm_sync(comm);
    nccl->driver->fail_next(failing, FAKE_INVALID_HANDLE, 3);
    standin_call_times(comm, &reduce, OPS);
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void any_call_of_the_driver_may_fail(void **state)
{
    static const char *const calls[] = {
        "cuCtxGetId",   "cuEventCreate",         "cuEventRecord",
        "cuEventQuery", "cuEventElapsedTime_v2", "cuStreamIsCapturing"};
    static const char *const timings[] = {"light", "auto", "full"};
    struct standin_testbed testbed;

    (void)state;
    for (unsigned c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        for (unsigned t = 0; t < 3; t++) {
            failing = calls[c];
            standin_testbed_run(&testbed, FIRST_API, timings[t], calls_fail);
            assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 2 * OPS);
            standin_testbed_end(&testbed);
        }
    }
}

/* --- graphs ---------------------------------------------------------------------------------- */

static void captures(struct standin *nccl)
{
    static const struct standin_op layer[] = {{.func = "AllReduce", .count = 9},
                                              {.func = "AllGather", .count = 9}};
    static struct standin_group graph;

    standin_open_driver(nccl);
    struct standin_comm *comm = comm_on(nccl, 0, 0x1), *beside = comm_on(nccl, 0, 0x2);
    for (unsigned round = 0; round < 30; round++) {
        standin_call_times(comm, &reduce, 20);
        nccl->driver->capture(beside->stream, true); /* another thread's, for a while */
        standin_capture(&graph, comm, layer, 2);
        standin_call_times(comm, &reduce, 20);
        nccl->driver->capture(beside->stream, false);
        standin_replay(&graph);
    }
    nccl->ledger->note[0] = standin_mask(nccl);
    standin_comm_sync(comm);
    standin_comm_destroy(beside);
    standin_comm_destroy(comm);
}

/* An event recorded into a graph, or a call that a capture does not stand, ends the process. */
static void captured_launches_get_no_events_and_captures_survive(void **state)
{
    static const char *const timings[] = {"light", "auto", "full"};
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        for (unsigned t = 0; t < 3; t++) {
            standin_testbed_run(&testbed, api, timings[t], captures);
            assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_GATHER), 0);
            assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 30 * 40);
            assert_int_equal(standin_testbed_process(&testbed)->segment->comm[0].captured, 60);
            standin_testbed_end(&testbed);
        }
    }
}

/* --- marks ----------------------------------------------------------------------------------- */

enum { COMMS = 8, MARKS = 400 };
#define PAUSE_NS 200000 /* longer than between two marks */

/* Each step launches on all communicators back to back, and then there is a pause. */
static void steps_with_pauses(struct standin *nccl)
{
    struct standin_comm *comm[COMMS];
    uint64_t marked[COMMS] = {0}, all = 0;

    standin_open_driver(nccl);
    for (unsigned i = 0; i < COMMS; i++)
        comm[i] = comm_on(nccl, 0, 0x100 + i);
    while (all < MARKS) {
        for (unsigned i = 0; i < COMMS; i++) {
            uint64_t before = nccl->driver->use().recorded;
            standin_call(comm[i], &(struct standin_op){.func = "AllReduce", .count = 9});
            marked[i] += nccl->driver->use().recorded - before;
            all += nccl->driver->use().recorded - before;
        }
        for (unsigned i = 0; i < COMMS; i++)
            standin_comm_sync(comm[i]);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    for (unsigned i = 0; i < COMMS; i++) {
        if (marked[i] * COMMS * 2 < all)
            standin_die("communicator %u got %llu of %llu marks", i, (unsigned long long)marked[i],
                        (unsigned long long)all);
        standin_comm_destroy(comm[i]);
    }
}

/* Whoever launches first after a pause would take them all, if they had one budget. */
static void every_communicator_gets_completion_marks(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    standin_testbed_run(&testbed, FIRST_API, "light", steps_with_pauses);
    for (unsigned i = 0; i < COMMS; i++)
        assert_true(standin_testbed_process(&testbed)->segment->comm[i].launches_ended > 0);
    standin_testbed_end(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_time_every_launch_and_the_right_one),
        cmocka_unit_test(all_that_experts_exchange_is_timed),
        cmocka_unit_test(events_of_a_reset_context_are_never_used_again),
        cmocka_unit_test(streams_may_be_destroyed_behind_a_launch),
        cmocka_unit_test(a_broken_context_leaves_the_others_timed),
        cmocka_unit_test(any_call_of_the_driver_may_fail),
        cmocka_unit_test(captured_launches_get_no_events_and_captures_survive),
        cmocka_unit_test(every_communicator_gets_completion_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
