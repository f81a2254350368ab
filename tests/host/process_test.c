/* The process around the plugin: floods, kills, forks. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lab.h"

#include <cmocka.h>

enum { FLOOD = 100000 };

static const struct standin_comm_config pair = {.hash = 0x2b, .rank = 0, .nranks = 2};
static const struct standin_op small = {.func = "AllReduce", .count = 100};
static const struct standin_op flood_op = {.func = "AllGather", .count = 10, .unrecorded = true};

static void flood(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &pair);

    standin_worker_hold(comm->proxy->worker);
    standin_call_times(comm, &flood_op, FLOOD);
    standin_worker_release(comm->proxy->worker);
    standin_comm_sync(comm);
    standin_wait_retired(MUSTER_SEG_SLOTS);
    standin_call_times(comm, &small, 50);
    standin_comm_destroy(comm);
}

static void a_hundred_thousand_operations_in_flight_are_counted_or_counted_as_dropped(void **state)
{
    static const char *const timings[] = {"light", "full"};
    struct standin_lab lab;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_lab_run(&lab, api, timings[i], flood);
            uint64_t ops = standin_lab_count(&lab, MUSTER_FUNC_ALL_GATHER);
            assert_int_equal(ops + standin_lab_drops(&lab, MUSTER_DROP_NO_SLOT), FLOOD);
            assert_true(ops >= MUSTER_SEG_SLOTS - 64);
            assert_int_equal(standin_lab_bytes(&lab, MUSTER_FUNC_ALL_GATHER),
                             ops * 40 * (api >= 4 ? 2 : 1));
            assert_int_equal(standin_lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 50);
            assert_int_equal(standin_lab_timed(&lab, MUSTER_FUNC_ALL_REDUCE),
                             i == 1 && api >= 5 ? 50 : 0);
            standin_lab_end(&lab);
        }
    }
}

static void killed(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &pair);

    standin_call_times(comm, &small, 700);
    standin_comm_sync(comm);
    raise(SIGKILL);
}

static void what_was_recorded_survives_sigkill(void **state)
{
    static const char *const timings[] = {"light", "full"};
    struct standin_lab lab;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_lab_run_killed(&lab, api, timings[i], killed);
            assert_int_equal(standin_ledger_count(lab.ledger), 700);
            standin_lab_expect_all(&lab);
            assert_int_equal(standin_lab_process(&lab)->state, MUSTER_PROCESS_KILLED);
            standin_lab_end(&lab);
        }
    }
}

/* The forked child goes on with the communicator, makes another, and leaves by exit(). */
static void child_goes_on(struct standin *nccl, struct standin_comm *comm)
{
    struct standin_event event = {.type = STANDIN_COLL,
                                  .func = "AllReduce",
                                  .dtype = "ncclFloat32",
                                  .count = 7,
                                  .comm_hash = comm->hash};
    void *handle;

    for (unsigned i = 0; i < 100; i++) {
        standin_start(nccl, comm->context, &handle, &event);
        standin_stop(nccl, handle);
    }
    standin_comm_init_again(comm);
    for (unsigned i = 0; i < 100; i++) {
        standin_start(nccl, comm->context, &handle, &event);
        standin_stop(nccl, handle);
    }
    standin_finalize(nccl, comm->context);
    exit(0);
}

static void forks(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    int status = -1;

    standin_call_times(comm, &small, 100);
    standin_comm_sync(comm);
    pid_t pid = fork();
    if (pid == 0)
        child_goes_on(nccl, comm);
    if (waitpid(pid, &status, 0) != pid || status)
        standin_die("the forked child left with %#x", status);
    standin_call_times(comm, &small, 100);
    standin_comm_destroy(comm);
}

static void a_forked_child_leaves_its_parents_recording_alone(void **state)
{
    static const char *const timings[] = {"light", "full"};
    struct standin_lab lab;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_lab_run(&lab, api, timings[i], forks);
            assert_int_equal(standin_ledger_count(lab.ledger), 200);
            standin_lab_expect_all(&lab);
            assert_int_equal(standin_lab_process(&lab)->state, MUSTER_PROCESS_FINALIZED);
            standin_lab_end(&lab);
        }
    }
}

static void forked_before(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    int status = -1;

    standin_call_times(comm, &small, 10);
    standin_comm_sync(comm);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0); /* as a data loader's worker that is killed or leaves without exit handlers */
    if (waitpid(pid, &status, 0) != pid)
        standin_die("no child");
    standin_call_times(comm, &small, 10);
    standin_comm_sync(comm);
    raise(SIGKILL);
}

/* A child's end must not look like the parent's: its death drops no lock of the parent. */
static void a_forked_childs_death_is_not_taken_for_its_parents(void **state)
{
    struct standin_lab lab;

    (void)state;
    standin_lab_run_killed(&lab, 5, "light", forked_before);
    standin_lab_expect_all(&lab);
    assert_int_equal(standin_lab_process(&lab)->state, MUSTER_PROCESS_KILLED);
    standin_lab_end(&lab);
}

static void switched_off(struct standin *nccl)
{
    setenv("MUSTER_OFF", "1", 1);
    struct standin_comm *comm = standin_comm_init(nccl, &pair);

    nccl->ledger->note[0] = standin_mask(nccl);
    standin_call_times(comm, &flood_op, 10);
    standin_comm_destroy(comm);
}

static void switched_off_it_asks_for_nothing_and_leaves_nothing(void **state)
{
    struct standin_lab lab;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_lab_run_nothing(&lab, api, "full", switched_off);
        assert_int_equal(lab.ledger->note[0], 0);
        assert_int_equal(standin_lab_files(&lab), 0);
        standin_lab_end(&lab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_operations_in_flight_are_counted_or_counted_as_dropped),
        cmocka_unit_test(what_was_recorded_survives_sigkill),
        cmocka_unit_test(a_forked_child_leaves_its_parents_recording_alone),
        cmocka_unit_test(a_forked_childs_death_is_not_taken_for_its_parents),
        cmocka_unit_test(switched_off_it_asks_for_nothing_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
