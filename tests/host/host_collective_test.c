/* What every generation of NCCL shows of ordinary operations, and what is read from it. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_testbed.h"

#include <cmocka.h>

enum { FIRST_TIMED_API = 5, FIRST_THREAD_API = 7, NRANKS = 8 };

static const struct standin_comm_config eight_ranks = {
    .hash = 0xc0ffee, .name = "tp", .rank = 3, .nranks = NRANKS};

static void every_kind(struct standin *nccl)
{
    static const struct standin_op ops[] = {
        {.func = "AllReduce", .count = 1000},
        {.func = "AllReduce", .count = 1 << 20, .algo = "NVLS", .channels = 16},
        {.func = "AllReduce", .count = 4096, .dtype = "Unknown", .proto = "LL"},
        {.func = "AllReduce",
         .count = 33,
         .dtype = "ncclFloat64",
         .algo = "TREE",
         .proto = "LL128"},
        {.func = "AllReduce", .count = 33, .dtype = "ncclFloat8e4m3", .algo = "NVLS_TREE"},
        {.func = "AllGather", .count = 1000},
        {.func = "AllGather", .count = 512, .dtype = "ncclBfloat16", .algo = "PAT"},
        {.func = "ReduceScatter", .count = 500, .dtype = "ncclFloat16", .algo = "COLLNET_DIRECT"},
        {.func = "Broadcast", .count = 777, .dtype = "ncclInt64", .root_or_peer = 5},
        {.func = "Reduce", .count = 64, .dtype = "ncclUint32", .root_or_peer = 2},
        {.func = "Send", .count = 10, .dtype = "ncclInt32", .root_or_peer = 4},
        {.func = "Send", .count = 10, .dtype = "ncclInt32", .root_or_peer = 2},
        {.func = "Recv", .count = 20, .dtype = "ncclInt8", .root_or_peer = 2},
    };
    struct standin_comm *comm = standin_comm_init(nccl, &eight_ranks);

    for (unsigned i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        standin_call_times(comm, &ops[i], 5);
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void every_kind_is_counted_with_its_true_bytes(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", every_kind);
        assert_int_equal(standin_ledger_count(testbed.ledger), 65);
        standin_testbed_expect_all(&testbed);
        assert_int_equal(standin_testbed_all_drops(&testbed), 0);
        assert_int_equal(standin_testbed_process(&testbed)->identity.api, api);
        assert_int_equal(standin_testbed_process(&testbed)->state, MUSTER_PROCESS_FINALIZED);
        standin_testbed_end(&testbed);
    }
}

static void stamps_give_the_gpus_own_durations(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_TIMED_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", every_kind);
        /* From 2.29 on up to the first broadcast. */
        assert_int_equal(standin_ledger_timed(testbed.ledger), api == FIRST_TIMED_API ? 65 : 40);
        standin_testbed_expect_all(&testbed);
        assert_int_equal(standin_testbed_all_drops(&testbed),
                         standin_testbed_drops(&testbed, MUSTER_DROP_TIME_RING));
        assert_int_equal(standin_testbed_drops(&testbed, MUSTER_DROP_TIME_RING) > 0,
                         api > FIRST_TIMED_API);
        standin_testbed_end(&testbed);
    }
}

static void stamps_are_refused_where_kernel_events_are_unsafe(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api < FIRST_TIMED_API; api++) {
        standin_testbed_run(&testbed, api, "channels", every_kind);
        standin_testbed_expect_all(&testbed);
        assert_int_equal(standin_testbed_timed(&testbed, MUSTER_FUNCS), 0);
        assert_int_equal(standin_testbed_process(&testbed)->identity.armed, 0);
        assert_true(standin_testbed_process(&testbed)->identity.why_not_armed[0] != 0);
        standin_testbed_end(&testbed);
    }
}

/* The segment directory goes with it: segments are in memory of the process. */
static bool shrink_shm(const char *size)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, size) == 0;
}

static void skip_without_mounts(void)
{
    int status = 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(!shrink_shm("size=1m"));
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (status)
        skip();
}

static void call_once(struct standin *nccl, uint64_t hash, int nranks)
{
    struct standin_comm *comm =
        standin_comm_init(nccl, &(struct standin_comm_config){.hash = hash, .nranks = nranks});
    standin_call(comm, &(struct standin_op){.func = "AllReduce", .count = 9});
    standin_comm_sync(comm);
    standin_comm_destroy(comm);
}

static void in_small_shm(struct standin *nccl)
{
    if (!shrink_shm("size=64m")) /* with 2 ranks NCCL dies there */
        standin_die("no mount");
    call_once(nccl, 1, 2);
}

static void with_more_ranks_than_shm_bears(struct standin *nccl)
{
    if (!shrink_shm("size=200m"))
        standin_die("no mount");
    call_once(nccl, 1, 2);
    call_once(nccl, 2, 8);
    call_once(nccl, 3, 2);
}

static void stamps_are_refused_where_shared_memory_is_small(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    skip_without_mounts();
    standin_testbed_run(&testbed, FIRST_TIMED_API, "channels", in_small_shm);
    assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 1);
    assert_int_equal(standin_testbed_timed(&testbed, MUSTER_FUNCS), 0);
    assert_non_null(strstr(standin_testbed_process(&testbed)->identity.why_not_armed, "140 MiB"));
    standin_testbed_end(&testbed);
    standin_testbed_run(&testbed, FIRST_TIMED_API, "channels", with_more_ranks_than_shm_bears);
    assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNCS), 3);
    assert_int_equal(standin_testbed_timed(&testbed, MUSTER_FUNCS), 1);
    assert_non_null(strstr(standin_testbed_process(&testbed)->identity.why_not_armed, "560 MiB"));
    standin_testbed_end(&testbed);
}

static void quirks(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &eight_ranks);

    standin_call(comm, &(struct standin_op){.func = "AllGather", .count = 1000});
    standin_call(comm, &(struct standin_op){.func = "Broadcast", .count = 500});
    standin_call(comm, &(struct standin_op){.func = "AllReduce", .count = 300, .dtype = "Unknown"});
    standin_comm_destroy(comm);
}

/* The figures stand here by hand, so that the ledger's own arithmetic is checked too. */
static void allgather_and_broadcast_counts_in_bytes_are_understood(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", quirks);
        uint64_t ranks = api != 3 ? NRANKS : 1; /* v3 does not tell */
        assert_int_equal(standin_testbed_bytes(&testbed, MUSTER_FUNC_ALL_GATHER), 4000 * ranks);
        assert_int_equal(standin_testbed_bytes(&testbed, MUSTER_FUNC_BROADCAST), 2000);
        assert_int_equal(standin_testbed_bytes(&testbed, MUSTER_FUNC_ALL_REDUCE), 300);
        standin_testbed_end(&testbed);
    }
}

static void uint8_arrives_as_unknown_and_is_named_uint8(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", quirks);
        const struct muster_process *process = standin_testbed_process(&testbed);
        unsigned named = 0;
        for (size_t i = 0; i < process->ops; i++)
            if (process->op[i].func == MUSTER_FUNC_ALL_REDUCE)
                named += process->op[i].dtype == MUSTER_DTYPE_UINT8 && process->op[i].count == 300;
        assert_int_equal(named, 1);
        standin_testbed_end(&testbed);
    }
}

static void operations_one_by_one(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &eight_ranks);

    for (unsigned i = 0; i < 100; i++) {
        standin_call(comm, &(struct standin_op){
                               .func = "AllReduce", .count = 1 + i, .gpu_ns = 1024 * (1 + i % 10)});
        standin_call(comm,
                     &(struct standin_op){.func = "Send", .count = 7, .root_or_peer = 1 + i % 2});
    }
    standin_comm_destroy(comm);
}

static void operations_are_numbered_in_call_order(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        uint64_t seen[100] = {0}, sends[2] = {0};
        standin_testbed_run(&testbed, api, "channels", operations_one_by_one);
        const struct muster_process *process = standin_testbed_process(&testbed);
        assert_int_equal(process->ops_missing, 0);
        assert_int_equal(process->ops, 200);
        for (size_t i = 0; i < process->ops; i++) {
            const struct muster_op *op = &process->op[i];
            if (op->func == MUSTER_FUNC_SEND) {
                sends[op->peer - 1] |= 1ull << op->number;
                continue;
            }
            assert_in_range(op->number, 0, 99);
            assert_int_equal(op->count, op->number + 1);
            /* From 2.31 on a send makes NCCL's stamps those of other operations. */
            bool timed = api >= FIRST_TIMED_API && (api < FIRST_THREAD_API || op->number == 0);
            assert_int_equal(muster_op_duration_ns(op), timed ? 1024 * (1 + op->number % 10) : 0);
            seen[op->number]++;
        }
        for (unsigned i = 0; i < 100; i++)
            assert_int_equal(seen[i], 1);
        assert_int_equal(sends[0], (1ull << 50) - 1);
        assert_int_equal(sends[1], (1ull << 50) - 1);
        standin_testbed_end(&testbed);
    }
}

static void groups(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &eight_ranks);
    static struct standin_group group;

    for (unsigned round = 0; round < 10; round++) {
        standin_group_begin(&group, nccl);
        for (unsigned i = 0; i < 7; i++)
            standin_group_call(&group, comm,
                               &(struct standin_op){.func = i % 2 ? "AllReduce" : "ReduceScatter",
                                                    .count = 100ull << i});
        standin_group_end(&group);
        standin_group_begin(&group, nccl);
        for (int peer = 0; peer < NRANKS; peer++) { /* ncclAlltoAll, the own rank included */
            standin_group_call(
                &group, comm,
                &(struct standin_op){.func = "Send", .count = 64, .root_or_peer = peer});
            standin_group_call(
                &group, comm,
                &(struct standin_op){.func = "Recv", .count = 64, .root_or_peer = peer});
        }
        standin_group_end(&group);
    }
    standin_comm_destroy(comm);
}

static void grouped_operations_share_stamps_and_all_count(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", groups);
        assert_int_equal(standin_ledger_count(testbed.ledger), 230);
        standin_testbed_expect_all(&testbed);
        assert_int_equal(standin_testbed_all_drops(&testbed),
                         standin_testbed_drops(&testbed, MUSTER_DROP_TIME_RING));
        standin_testbed_end(&testbed);
    }
}

static void fewer_channels_than_announced(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &eight_ranks);

    for (unsigned i = 0; i < 20; i++)
        standin_call(comm, &(struct standin_op){.func = "Recv",
                                                .count = 1000,
                                                .root_or_peer = 1,
                                                .channels = 8,
                                                .silent_channels = i % 5});
    standin_comm_sync(comm);
    standin_call(comm, &(struct standin_op){.func = "AllReduce", .count = 1});
    standin_comm_destroy(comm);
}

static void receives_with_silent_channels_are_still_timed(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_TIMED_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "channels", fewer_channels_than_announced);
        assert_int_equal(standin_ledger_timed(testbed.ledger), api < FIRST_THREAD_API ? 21 : 0);
        standin_testbed_expect_all(&testbed);
        standin_testbed_end(&testbed);
    }
}

static void without_events(struct standin *nccl)
{
    struct standin_comm *single =
        standin_comm_init(nccl, &(struct standin_comm_config){.hash = 1, .rank = 0, .nranks = 1});
    struct standin_comm *comm = standin_comm_init(nccl, &eight_ranks);

    standin_call(single, &(struct standin_op){.func = "AllReduce", .count = 100});
    standin_call(comm, &(struct standin_op){.func = "AllReduce", .count = 0});
    standin_call(single, &(struct standin_op){.func = "Send", .count = 5, .root_or_peer = 0});
    standin_comm_destroy(single);
    standin_comm_destroy(comm);
}

static void nothing_is_invented_for_single_ranks_and_empty_collectives(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", without_events);
        assert_int_equal(standin_ledger_count(testbed.ledger), 1); /* a send to itself is shown */
        standin_testbed_expect_all(&testbed);
        assert_int_equal(standin_testbed_process(&testbed)->state, MUSTER_PROCESS_FINALIZED);
        standin_testbed_end(&testbed);
    }
}

static void symmetric_kernels(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &eight_ranks);

    for (unsigned i = 0; i < 10; i++) {
        standin_call(comm,
                     &(struct standin_op){.func = "AllReduce", .count = 4096, .symmetric = true});
        standin_call(comm, &(struct standin_op){.func = "AllReduce", .count = 64});
    }
    standin_comm_destroy(comm);
}

static void symmetric_kernels_are_calls_without_launch(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = FIRST_TIMED_API; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", symmetric_kernels);
        assert_int_equal(standin_ledger_count(testbed.ledger), 20);
        standin_testbed_expect_all(&testbed);
        standin_testbed_end(&testbed);
    }
}

static void broadcasts_until_killed(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &eight_ranks);

    for (int i = 0; i < 16; i++) {
        standin_call(comm, &(struct standin_op){.func = "Broadcast",
                                                .count = 4096,
                                                .dtype = "ncclFloat16",
                                                .root_or_peer = i % NRANKS});
        standin_call(comm, &(struct standin_op){.func = "AllReduce", .count = 64});
    }
    standin_comm_sync(comm);
    raise(SIGKILL);
}

/* From 2.29 on NCCL shows their calls only, and a process may end right behind them. */
static void broadcasts_are_counted_with_bytes_and_root_however_the_process_ends(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 4; api <= standin_generations_n; api++) {
        standin_testbed_run_killed(&testbed, api, "light", broadcasts_until_killed);
        assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_BROADCAST), 16);
        assert_int_equal(standin_testbed_bytes(&testbed, MUSTER_FUNC_BROADCAST), 16 * 8192);
        const struct muster_process *process = standin_testbed_process(&testbed);
        unsigned of_root[NRANKS] = {0};
        for (size_t i = 0; i < process->ops; i++) {
            const struct muster_op *op = &process->op[i];
            if (op->func != MUSTER_FUNC_BROADCAST)
                continue;
            assert_in_range(op->peer, 0, NRANKS - 1);
            assert_true(op->enqueue_ns > 0);
            of_root[op->peer]++;
        }
        for (unsigned root = 0; root < NRANKS; root++)
            assert_int_equal(of_root[root], 2);
        standin_testbed_expect_all(&testbed);
        standin_testbed_end(&testbed);
    }
}

static void copy_engines(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &eight_ranks);

    for (unsigned i = 0; i < 10; i++) {
        standin_call(comm, &(struct standin_op){.func = "AllGather", .count = 9 << 20, .ce = true});
        standin_call(comm, &(struct standin_op){.func = "AllReduce", .count = 64});
    }
    standin_comm_destroy(comm);
}

static void copy_engine_collectives_have_host_times(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 6; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", copy_engines);
        standin_testbed_expect_all(&testbed);
        unsigned timed = 0;
        const struct muster_process *process = standin_testbed_process(&testbed);
        for (size_t i = 0; i < process->ops; i++)
            timed += process->op[i].algo == MUSTER_ALGO_CE &&
                     process->op[i].source == MUSTER_SOURCE_HOST;
        assert_int_equal(timed, 10);
        standin_testbed_end(&testbed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_counted_with_its_true_bytes),
        cmocka_unit_test(stamps_give_the_gpus_own_durations),
        cmocka_unit_test(stamps_are_refused_where_kernel_events_are_unsafe),
        cmocka_unit_test(stamps_are_refused_where_shared_memory_is_small),
        cmocka_unit_test(allgather_and_broadcast_counts_in_bytes_are_understood),
        cmocka_unit_test(uint8_arrives_as_unknown_and_is_named_uint8),
        cmocka_unit_test(operations_are_numbered_in_call_order),
        cmocka_unit_test(grouped_operations_share_stamps_and_all_count),
        cmocka_unit_test(receives_with_silent_channels_are_still_timed),
        cmocka_unit_test(nothing_is_invented_for_single_ranks_and_empty_collectives),
        cmocka_unit_test(symmetric_kernels_are_calls_without_launch),
        cmocka_unit_test(broadcasts_are_counted_with_bytes_and_root_however_the_process_ends),
        cmocka_unit_test(copy_engine_collectives_have_host_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
