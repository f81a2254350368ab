/* NCCL's event mask, which every thread of the process reads at every call: written once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "host_testbed.h"

#include <cmocka.h>

enum { FIRST_API = 5, ROUNDS = 3000, IN_FLIGHT = 1500 };

static const struct standin_comm_config pair = {.hash = 0x1234567, .rank = 0, .nranks = 2};
static const struct standin_op receive = {
    .func = "Recv", .count = 64, .root_or_peer = 1, .channels = 1};
static const struct standin_op send = {
    .func = "Send", .count = 64, .root_or_peer = 1, .channels = 1};
static const struct standin_op reduce = {.func = "AllReduce", .count = 64, .channels = 1};
static const char *const timings[] = {"light", "auto", "full", "channels"};

/* --- the stand-in itself --------------------------------------------------------------------- */

static void arm_between_two_appends(struct standin *nccl)
{
    static struct standin_group group;

    nccl->exact_gpu = true;
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    standin_group_begin(&group, nccl);
    standin_group_call(&group, comm, &receive);
    standin_rewrite_mask(nccl, standin_mask(nccl) ^ STANDIN_KERNEL_CH);
    standin_group_call(&group, comm, &send);
    standin_group_end(&group);
    standin_comm_destroy(comm);
}

static void a_mask_that_changes_within_a_pair_hangs_nccl(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        int status = standin_testbed_status(&testbed, api, "light", arm_between_two_appends);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), STANDIN_BROKEN);
        standin_testbed_end(&testbed);
    }
}

/* --- written once ---------------------------------------------------------------------------- */

static _Atomic uint64_t issued;

static void *groups_of_one_thread(void *argument)
{
    struct standin_comm *comm = argument;
    struct standin_group *group = calloc(1, sizeof(*group));

    for (unsigned i = 0; i < ROUNDS; i++) {
        standin_group_begin(group, comm->nccl);
        standin_group_call(group, comm, &receive);
        if (i % 2)
            standin_group_call(group, comm, &reduce);
        standin_group_call(group, comm, &send);
        standin_group_end(group);
        uint64_t all = atomic_fetch_add(&issued, 2 + i % 2);
        if (i % 64 == 0) { /* all are counted only if they find a slot */
            standin_comm_sync(comm);
            standin_wait_retired(all > IN_FLIGHT ? all - IN_FLIGHT : 0);
        }
    }
    standin_comm_sync(comm);
    free(group);
    return NULL;
}

static void two_threads(struct standin *nccl)
{
    struct standin_comm *comm[2];
    pthread_t thread[2];

    nccl->exact_gpu = true;
    standin_open_driver(nccl);
    for (unsigned r = 0; r < 2; r++)
        comm[r] = standin_comm_init(
            nccl, &(struct standin_comm_config){
                      .hash = 0x1234567, .rank = (int)r, .gpu_index = r, .nranks = 2});
    unsigned mask = standin_mask(nccl);
    for (unsigned r = 0; r < 2; r++)
        if (pthread_create(&thread[r], NULL, groups_of_one_thread, comm[r]))
            standin_die("no thread");
    struct standin_comm *third = standin_comm_init(
        nccl, &(struct standin_comm_config){.hash = 0x99, .rank = 0, .nranks = 2});
    standin_call_times(third, &reduce, 200);
    standin_comm_sync(third);
    standin_comm_destroy(third);
    for (unsigned r = 0; r < 2; r++)
        pthread_join(thread[r], NULL);
    if (standin_mask(nccl) != mask)
        standin_die("the mask was %#x after init and is %#x", mask, standin_mask(nccl));
    nccl->ledger->note[0] = mask;
    for (unsigned r = 0; r < 2; r++)
        standin_comm_destroy(comm[r]);
}

/* NCCL waits for ever if a send and a receive of one group read different masks. */
static void groups_of_many_threads_read_one_mask(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 3; i++) {
            standin_testbed_run(&testbed, api, timings[i], two_threads);
            assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_SEND), 2 * ROUNDS);
            assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_RECV), 2 * ROUNDS);
            assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), ROUNDS + 200);
            assert_false(testbed.ledger->note[0] & STANDIN_KERNEL_CH);
            standin_testbed_end(&testbed);
        }
    }
}

static void ask(struct standin *nccl)
{
    standin_open_driver(nccl);
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    nccl->ledger->note[0] = standin_mask(nccl);
    standin_call_times(comm, &reduce, 300);
    nccl->ledger->note[1] = standin_mask(nccl);
    standin_comm_destroy(comm);
}

/* KernelCh puts a host callback into captured graphs and keeps proxies busy; ProxyCtrl carries dead
 * contexts; KernelPhase and NetPlugin are for others. */
static void only_channels_asks_for_kernels_and_nothing_for_the_rest(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 4; i++) {
            standin_testbed_run(&testbed, api, timings[i], ask);
            uint64_t mask = testbed.ledger->note[0];
            bool channels = api >= FIRST_API && !strcmp(timings[i], "channels");
            assert_int_equal((mask & STANDIN_KERNEL_CH) != 0, channels);
            assert_false(mask & (STANDIN_PROXY_CTRL | STANDIN_KERNEL_PHASE | STANDIN_NET_PLUGIN));
            assert_int_equal(testbed.ledger->note[1], mask);
            standin_testbed_end(&testbed);
        }
    }
}

static void ask_with_broadcasts(struct standin *nccl)
{
    unsetenv("NCCL_ALLGATHERV_ENABLE");
    ask(nccl);
}

/* Its issue 2368: a group of broadcasts from several roots, and ncclCommDestroy never returns. */
static void kernels_are_not_timed_where_broadcasts_then_hang_nccl(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", ask_with_broadcasts);
        bool safe = api == FIRST_API;
        const char *why = standin_testbed_process(&testbed)->identity.why_not_armed;
        assert_int_equal((testbed.ledger->note[0] & STANDIN_KERNEL_CH) != 0, safe);
        assert_int_equal(strstr(why, "NCCL_ALLGATHERV_ENABLE=0") != NULL, !safe);
        standin_testbed_end(&testbed);
    }
}

/* --- others who write it --------------------------------------------------------------------- */

/* Enough for several timed blocks, and never more in flight than there are slots. */
static void many_times(struct standin_comm *comm)
{
    for (unsigned i = 0; i < 5; i++) {
        standin_call_times(comm, &reduce, 1000);
        standin_comm_sync(comm);
        issued += 1000;
        standin_wait_retired(issued - IN_FLIGHT / 2);
    }
}

static void rewritten(struct standin *nccl)
{
    standin_open_driver(nccl);
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    many_times(comm);
    standin_rewrite_mask(nccl, STANDIN_COLL);
    many_times(comm);
    if (standin_mask(nccl) != STANDIN_COLL)
        standin_die("the mask was set by hand and is %#x", standin_mask(nccl));
    standin_rewrite_mask(nccl, STANDIN_COLL | STANDIN_P2P | STANDIN_KERNEL_CH);
    many_times(comm);
    if (!(standin_mask(nccl) & STANDIN_KERNEL_CH))
        standin_die("the mask was set by hand and is %#x", standin_mask(nccl));
    standin_rewrite_mask(nccl, 0);
    standin_call_times(comm, &(struct standin_op){.func = "AllReduce", .count = 1}, 50);
    standin_comm_destroy(comm);
}

/* RAS can (2.31), NCCL does after init (2.32): theirs holds, and what is shown counts. */
static void a_mask_that_others_write_is_left_alone(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "auto", rewritten);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 15000);
        assert_int_equal(standin_testbed_bytes(&testbed, MUSTER_FUNCS), 15000 * 256);
        standin_testbed_end(&testbed);
    }
}

/* --- two libnccl in one process -------------------------------------------------------------- */

static struct standin second;

static void beside(struct standin *nccl, unsigned api)
{
    static struct standin_ledger none;

    standin_open_driver(nccl);
    standin_open(&second, api, &none);
    standin_open_driver(&second);
    struct standin_comm *one = standin_comm_init(nccl, &pair);
    struct standin_comm *two = standin_comm_init(
        &second, &(struct standin_comm_config){.hash = 0x77, .rank = 0, .nranks = 2});
    unsigned masks[2] = {standin_mask(nccl), standin_mask(&second)};
    for (unsigned i = 0; i < 300; i++) {
        standin_call(one, &reduce);
        standin_call(two, &(struct standin_op){.func = "AllGather", .count = 10});
    }
    if (standin_mask(nccl) != masks[0] || standin_mask(&second) != masks[1])
        standin_die("a mask changed");
    nccl->ledger->note[0] = masks[1];
    standin_comm_destroy(one);
    standin_comm_destroy(two);
    standin_close(&second);
}

static void beside_a_later_one(struct standin *nccl)
{
    beside(nccl, 6);
}

static void beside_an_old_one(struct standin *nccl)
{
    standin_keep_stderr();
    beside(nccl, 3);
}

static void two_libnccl_in_one_process_are_both_recorded(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        standin_testbed_run(&testbed, FIRST_API, timings[i], beside_a_later_one);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 300);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_GATHER), 300);
        standin_testbed_end(&testbed);
    }
}

/* Its events name communicators in another way: not recorded, said, and asked for nothing. */
static void an_older_second_libnccl_is_left_alone(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    standin_testbed_run(&testbed, FIRST_API, "auto", beside_an_old_one);
    assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 300);
    assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_GATHER), 0);
    assert_int_equal(testbed.ledger->note[0], 0);
    char line[160];
    snprintf(line, sizeof line,
             "muster: warning: a second NCCL in this process uses profiler interface v3, the first "
             "v%u: it "
             "is not recorded\n",
             (unsigned)FIRST_API);
    assert_int_equal(standin_testbed_lines(&testbed, line), 1);
    standin_testbed_end(&testbed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_that_changes_within_a_pair_hangs_nccl),
        cmocka_unit_test(groups_of_many_threads_read_one_mask),
        cmocka_unit_test(only_channels_asks_for_kernels_and_nothing_for_the_rest),
        cmocka_unit_test(kernels_are_not_timed_where_broadcasts_then_hang_nccl),
        cmocka_unit_test(a_mask_that_others_write_is_left_alone),
        cmocka_unit_test(two_libnccl_in_one_process_are_both_recorded),
        cmocka_unit_test(an_older_second_libnccl_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
