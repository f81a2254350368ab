/* Communicators: their life, their threads, what they share. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_testbed.h"

#include <cmocka.h>

static const struct standin_op small = {.func = "AllReduce", .count = 100};
static const struct standin_op large = {.func = "AllGather", .count = 5000, .channels = 8};

static struct standin_comm *open_comm(struct standin *nccl, uint64_t hash)
{
    return standin_comm_init(nccl,
                             &(struct standin_comm_config){.hash = hash, .rank = 1, .nranks = 4});
}

typedef void check_fn(const struct standin_testbed *testbed);

/* Every generation, both timings: what was issued is what was recorded. */
static void expect_everywhere(standin_scenario *scenario, check_fn *check)
{
    static const char *const timings[] = {"light", "channels"};
    struct standin_testbed testbed;

    for (unsigned api = 1; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_testbed_run(&testbed, api, timings[i], scenario);
            assert_true(standin_ledger_count(testbed.ledger) > 0);
            standin_testbed_expect_all(&testbed);
            if (check)
                check(&testbed);
            standin_testbed_end(&testbed);
        }
    }
}

static void is_finalized(const struct standin_testbed *testbed)
{
    assert_int_equal(standin_testbed_process(testbed)->state, MUSTER_PROCESS_FINALIZED);
}

static void is_exited(const struct standin_testbed *testbed)
{
    assert_int_equal(standin_testbed_process(testbed)->state, MUSTER_PROCESS_EXITED);
}

static void unload_and_reload(struct standin *nccl)
{
    for (uint64_t life = 1; life <= 5; life++) {
        struct standin_comm *comm = open_comm(nccl, 0x100 + life % 2);
        standin_call_times(comm, &small, 10);
        standin_call_times(comm, &large, 10);
        standin_comm_destroy(comm);
        if (nccl->library)
            standin_die("still loaded");
    }
}

static void unloaded_and_loaded_again_it_records_on(void **state)
{
    (void)state;
    expect_everywhere(unload_and_reload, is_finalized);
}

static void never_destroyed(struct standin *nccl)
{
    struct standin_comm *comm = open_comm(nccl, 5);

    standin_call_times(comm, &small, 20);
    standin_comm_sync(comm);
    standin_worker_destroy(comm->proxy->worker);
}

static void exit_without_finalize_keeps_everything(void **state)
{
    (void)state;
    expect_everywhere(never_destroyed, is_exited);
}

static void finalized_twice(struct standin *nccl)
{
    struct standin_comm *other = open_comm(nccl, 6), *comm = open_comm(nccl, 7);
    void *context = comm->context;

    standin_call_times(comm, &small, 10);
    standin_comm_destroy(comm);
    standin_finalize(nccl, context);
    standin_finalize(nccl, NULL);
    standin_call_times(other, &small, 10);
    comm = open_comm(nccl, 8);
    standin_finalize(nccl, context); /* of the finalized one, while its memory may be used again */
    standin_call_times(comm, &small, 10);
    standin_comm_destroy(comm);
    standin_comm_destroy(other);
}

static void finalized_with_null_until_killed(struct standin *nccl)
{
    struct standin_comm *one = open_comm(nccl, 6), *two = open_comm(nccl, 7);

    standin_call_times(one, &small, 10);
    standin_call_times(two, &small, 10);
    standin_finalize(nccl, NULL);
    standin_finalize(nccl, NULL);
    standin_finalize(nccl, NULL);
    raise(SIGKILL);
}

/* A communicator that never came to be is finalized: those that live are not over for that. */
static void finalize_with_null_ends_no_communicator(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= 4; api++) {
        standin_testbed_run_killed(&testbed, api, "light", finalized_with_null_until_killed);
        const struct muster_process *process = standin_testbed_process(&testbed);
        assert_int_equal(process->state, MUSTER_PROCESS_KILLED);
        for (unsigned i = 0; i < 2; i++) {
            assert_int_not_equal(process->segment->comm[i].uid, 0);
            assert_int_equal(process->segment->comm[i].end_ns, 0);
        }
        standin_testbed_end(&testbed);
    }
}

static void finalize_twice_and_with_null_harms_no_other_communicator(void **state)
{
    (void)state;
    expect_everywhere(finalized_twice, is_finalized);
}

static void inits_twice(struct standin *nccl)
{
    struct standin_comm *comm = open_comm(nccl, 9);

    standin_call_times(comm, &small, 10);
    standin_comm_init_again(comm);
    standin_call_times(comm, &small, 10);
    standin_comm_destroy(comm);
}

static void init_twice_for_one_communicator_loses_nothing(void **state)
{
    (void)state;
    expect_everywhere(inits_twice, NULL);
}

/* The failed one takes back a reference it never had: the library is closed under the other. */
static void failing_beside_healthy(struct standin *nccl)
{
    struct standin_comm *comm = open_comm(nccl, 10);

    standin_call_times(comm, &small, 10);
    standin_comm_sync(comm);
    nccl->ledger->note[0] = (uint64_t)nccl->refs;
    standin_comm_init_failing(nccl);
    nccl->ledger->note[1] = (uint64_t)nccl->refs;
    standin_comm_destroy(comm);
}

static void premature_unload_by_a_failed_communicator_is_survived(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", failing_beside_healthy);
        assert_int_equal(testbed.ledger->note[0], 1);
        assert_int_equal(testbed.ledger->note[1], standin_generation(api)->late_init ? 0 : 1);
        assert_int_equal(standin_ledger_count(testbed.ledger), 10);
        standin_testbed_expect_all(&testbed);
        standin_testbed_end(&testbed);
    }
}

static void two_gpus(struct standin *nccl)
{
    struct standin_comm *comm[2];
    static struct standin_group group;

    for (int rank = 0; rank < 2; rank++)
        comm[rank] = standin_comm_init(
            nccl, &(struct standin_comm_config){.hash = 0xdead, .rank = rank, .nranks = 2});
    for (unsigned round = 0; round < 20; round++) {
        standin_group_begin(&group, nccl);
        for (unsigned rank = 0; rank < 2; rank++) {
            standin_group_call(&group, comm[rank], &small);
            standin_group_call(&group, comm[rank], rank ? &large : &small);
        }
        standin_group_end(&group);
    }
    standin_comm_destroy(comm[0]);
    standin_comm_destroy(comm[1]);
}

static void two_gpus_of_one_process_are_two_ranks(void **state)
{
    (void)state;
    expect_everywhere(two_gpus, is_finalized);
}

static void split(struct standin *nccl)
{
    struct standin_comm *parent = open_comm(nccl, 0x50);
    struct standin_comm *child = standin_comm_init(
        nccl, &(struct standin_comm_config){
                  .hash = 0x51, .rank = 0, .nranks = 2, .gpu = parent->gpu, .share_proxy = parent});
    struct standin_worker *proxy = parent->proxy->worker;

    standin_call_times(child, &small, 10);
    standin_worker_drain(proxy);
    standin_worker_hold(proxy);
    standin_call_times(parent, &large, 5);
    standin_call_times(
        child, &(struct standin_op){.func = "AllReduce", .count = 9, .unrecorded = true}, 5);
    standin_comm_destroy(child);
    standin_worker_release(proxy); /* the child's stops come now */
    standin_worker_drain(proxy);
    standin_call_times(parent, &small, 10);
    standin_comm_destroy(parent);
}

/* Kernel events of operations that were in flight when their communicator was finalized. */
static void stops_after_finalize_of_a_split_communicator_are_harmless(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", split);
        /* the five operations in flight have been called, timed or not */
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 25);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_GATHER), 5);
        assert_int_equal(standin_testbed_timed(&testbed, MUSTER_FUNC_ALL_GATHER), api >= 5 ? 5 : 0);
        assert_true(standin_testbed_timed(&testbed, MUSTER_FUNC_ALL_REDUCE) >= (api >= 5 ? 20 : 0));
        standin_testbed_end(&testbed);
    }
}

enum { THREADS = 8, COMMS_EACH = 8, OPS_EACH = 30 };

struct user {
    struct standin *nccl;
    unsigned number;
    pthread_t thread;
};

static void *user_main(void *memory)
{
    struct user *user = memory;
    struct standin_comm *comm[COMMS_EACH];

    for (unsigned i = 0; i < COMMS_EACH; i++)
        comm[i] = open_comm(user->nccl, 0x1000 + user->number * COMMS_EACH + i);
    for (unsigned n = 0; n < OPS_EACH; n++)
        for (unsigned i = 0; i < COMMS_EACH; i++)
            standin_call(comm[i], n % 3 ? &small : &large);
    for (unsigned i = 0; i < COMMS_EACH; i++)
        standin_comm_destroy(comm[i]);
    return NULL;
}

static void many_threads(struct standin *nccl)
{
    struct user user[THREADS];

    standin_load(nccl); /* held, so that no thread finds it unloaded by another */
    for (unsigned i = 0; i < THREADS; i++) {
        user[i] = (struct user){.nccl = nccl, .number = i};
        if (pthread_create(&user[i].thread, NULL, user_main, &user[i]))
            standin_die("no thread");
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(user[i].thread, NULL);
    standin_unload(nccl);
}

static void sixty_four_communicators_on_eight_threads_are_exact(void **state)
{
    (void)state;
    expect_everywhere(many_threads, is_finalized);
}

static void nonblocking(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(
        nccl,
        &(struct standin_comm_config){.hash = 77, .rank = 2, .nranks = 4, .nonblocking = true});

    for (unsigned i = 0; i < 50; i++)
        standin_call(comm, i % 2 ? &small : &large);
    standin_comm_destroy(comm);
}

static void launches_on_a_groups_own_thread_after_its_end_are_recorded(void **state)
{
    (void)state;
    expect_everywhere(nonblocking, is_finalized);
}

/* What each init asks for, and in what state the mask is after all of them. */
static void several_inits(struct standin *nccl)
{
    struct standin_comm *comm[8];

    for (unsigned i = 0; i < 8; i++) {
        comm[i] = open_comm(nccl, 0x300 + i);
        nccl->ledger->note[i] = standin_mask(nccl);
        standin_call_times(comm[i], &small, 2);
    }
    for (unsigned i = 0; i < 8; i++)
        standin_comm_destroy(comm[i]);
}

static void every_init_asks_for_the_same_safe_events(void **state)
{
    static const char *const timings[] = {"light", "channels"};
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_testbed_run(&testbed, api, timings[i], several_inits);
            uint64_t mask = testbed.ledger->note[0];
            for (unsigned n = 1; n < 8; n++)
                assert_int_equal(testbed.ledger->note[n], mask);
            assert_true(mask & STANDIN_COLL);
            assert_true(mask & STANDIN_P2P);
            assert_false(mask & STANDIN_PROXY_CTRL);
            assert_int_equal((mask & STANDIN_KERNEL_CH) != 0, i == 1 && api >= 5);
            standin_testbed_end(&testbed);
        }
    }
}

static void *init_main(void *memory)
{
    struct standin_comm **comm = memory;

    *comm = open_comm((*comm)->nccl, (*comm)->hash);
    return NULL;
}

static void *destroy_main(void *memory)
{
    struct standin_comm **comm = memory;

    standin_comm_destroy(*comm);
    return NULL;
}

/* Runs it for all at once, each on a thread that then ends. */
static void on_short_lived_threads(struct standin_comm **comm, unsigned n, void *(*run)(void *))
{
    pthread_t thread[16];

    for (unsigned i = 0; i < n; i++)
        if (pthread_create(&thread[i], NULL, run, &comm[i]))
            standin_die("no thread");
    for (unsigned i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

static void job_threads(struct standin *nccl)
{
    struct standin_comm wanted[16], *comm[16];

    standin_load(nccl);
    for (unsigned i = 0; i < 16; i++) {
        wanted[i] = (struct standin_comm){.nccl = nccl, .hash = 0x400 + i};
        comm[i] = &wanted[i];
    }
    on_short_lived_threads(comm, 16, init_main);
    for (unsigned i = 0; i < 16; i++)
        standin_call_times(comm[i], &small, 5);
    on_short_lived_threads(comm, 16, destroy_main);
    standin_unload(nccl);
}

static void concurrent_inits_and_finalizes_on_threads_that_end_are_kept(void **state)
{
    (void)state;
    expect_everywhere(job_threads, is_finalized);
}

static void hostile_names(struct standin *nccl)
{
    static const char longer_than_kept[] = "012345678901234567890123456789012345678901234567890"
                                           "123456789012345678901234567890123456789";
    static const char *const names[] = {"a\nb\x1b[31m\x7f\"\\", "", "\xff\xfe\xc3",
                                        longer_than_kept};

    for (unsigned i = 0; i < 4; i++) {
        struct standin_comm *comm = standin_comm_init(
            nccl, &(struct standin_comm_config){
                      .hash = 0x700 + i, .name = names[i], .rank = 0, .nranks = 2});
        standin_call_times(comm, &small, 3);
        standin_comm_destroy(comm);
    }
}

static void names_have_no_control_characters(const struct standin_testbed *testbed)
{
    const struct muster_process *process = standin_testbed_process(testbed);

    assert_int_equal(process->comms >= 4, 1);
    for (size_t i = 0; i < process->comms; i++) {
        assert_non_null(memchr(process->comm[i].name, 0, sizeof(process->comm[i].name)));
        for (const char *c = process->comm[i].name; *c; c++)
            assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
    }
}

static void communicator_names_with_control_characters_are_made_harmless(void **state)
{
    (void)state;
    expect_everywhere(hostile_names, names_have_no_control_characters);
}

static void four_thousand_ranks(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(
        nccl,
        &(struct standin_comm_config){.hash = 4096, .rank = 4095, .nranks = 4096, .nnodes = 512});

    standin_call_times(comm, &large, 20);
    for (int peer = 0; peer < 4096; peer += 64)
        standin_call(comm, &(struct standin_op){.func = "Send", .count = 8, .root_or_peer = peer});
    standin_comm_destroy(comm);
}

static void a_communicator_of_4096_ranks_is_recorded(void **state)
{
    (void)state;
    expect_everywhere(four_thousand_ranks, is_finalized);
}

static void more_than_named(struct standin *nccl)
{
    struct standin_comm *comm[MUSTER_SEG_COMMS + 40];
    unsigned n = sizeof(comm) / sizeof(comm[0]);

    for (unsigned i = 0; i < n; i++) {
        comm[i] = open_comm(nccl, 0x9000 + i);
        standin_call_times(
            comm[i], &(struct standin_op){.func = "AllReduce", .count = 100, .unrecorded = true},
            3);
    }
    for (unsigned i = 0; i < n; i++)
        standin_comm_destroy(comm[i]);
}

static void beyond_128_communicators_operations_count_under_other(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", more_than_named);
        uint64_t ops = 3 * (MUSTER_SEG_COMMS + 40);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), ops);
        assert_int_equal(standin_testbed_bytes(&testbed, MUSTER_FUNC_ALL_REDUCE), 400 * ops);
        assert_int_equal(standin_testbed_all_drops(&testbed), 0);
        standin_testbed_end(&testbed);
    }
}

static void aborted(struct standin *nccl)
{
    struct standin_comm *comm = open_comm(nccl, 0xab);
    struct standin_comm *next = open_comm(nccl, 0xac);

    standin_call_times(comm,
                       &(struct standin_op){.func = "AllReduce",
                                            .count = 100,
                                            .net_ops = 2,
                                            .net_steps = 1,
                                            .net_chunk = 100,
                                            .aborted = true},
                       5);
    standin_comm_destroy(comm);
    standin_call_times(next, &small, 5);
    standin_comm_destroy(next);
}

static void aborted_operations_count_without_times(void **state)
{
    (void)state;
    expect_everywhere(aborted, is_finalized);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unloaded_and_loaded_again_it_records_on),
        cmocka_unit_test(exit_without_finalize_keeps_everything),
        cmocka_unit_test(finalize_with_null_ends_no_communicator),
        cmocka_unit_test(finalize_twice_and_with_null_harms_no_other_communicator),
        cmocka_unit_test(init_twice_for_one_communicator_loses_nothing),
        cmocka_unit_test(premature_unload_by_a_failed_communicator_is_survived),
        cmocka_unit_test(two_gpus_of_one_process_are_two_ranks),
        cmocka_unit_test(stops_after_finalize_of_a_split_communicator_are_harmless),
        cmocka_unit_test(sixty_four_communicators_on_eight_threads_are_exact),
        cmocka_unit_test(launches_on_a_groups_own_thread_after_its_end_are_recorded),
        cmocka_unit_test(every_init_asks_for_the_same_safe_events),
        cmocka_unit_test(concurrent_inits_and_finalizes_on_threads_that_end_are_kept),
        cmocka_unit_test(communicator_names_with_control_characters_are_made_harmless),
        cmocka_unit_test(a_communicator_of_4096_ranks_is_recorded),
        cmocka_unit_test(beyond_128_communicators_operations_count_under_other),
        cmocka_unit_test(aborted_operations_count_without_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
