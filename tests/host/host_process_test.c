/* The process around the plugin: floods, kills, forks. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host_testbed.h"

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
    standin_wait_retired(FLOOD);
    standin_call_times(comm, &small, 50);
    standin_comm_destroy(comm);
}

static void expect_flood(unsigned api, const char *timing)
{
    struct standin_testbed testbed;

    standin_testbed_run(&testbed, api, timing, flood);
    uint64_t ops = standin_testbed_count(&testbed, MUSTER_FUNC_ALL_GATHER);
    assert_int_equal(ops + standin_testbed_drops(&testbed, MUSTER_DROP_NO_SLOT), FLOOD);
    assert_true(ops >= MUSTER_SEG_SLOTS - 64);
    assert_int_equal(standin_testbed_bytes(&testbed, MUSTER_FUNC_ALL_GATHER),
                     ops * 40 * (api != 3 ? 2 : 1));
    assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 50);
    /* NCCL's stamps of a channel are 64 operations apart from right: they are not trusted again.
     * Where the flood took a second, all of it was given up before it could be looked at. */
    bool behind = standin_testbed_drops(&testbed, MUSTER_DROP_TIME_RING) > 0;
    bool given_up = standin_testbed_drops(&testbed, MUSTER_DROP_INCOMPLETE) > 0;
    assert_true(!strcmp(timing, "channels") ? behind || given_up : !behind);
    assert_int_equal(standin_testbed_timed(&testbed, MUSTER_FUNC_ALL_REDUCE),
                     !strcmp(timing, "channels") && !behind ? 50 : 0);
    standin_testbed_end(&testbed);
}

static void a_hundred_thousand_operations_in_flight_are_counted_or_counted_as_dropped(void **state)
{
    (void)state;
    expect_flood(1, "light");
    expect_flood(4, "light");
    expect_flood(5, "light");
    expect_flood(5, "channels");
    expect_flood(7, "channels");
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
    static const char *const timings[] = {"light", "channels"};
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_testbed_run_killed(&testbed, api, timings[i], killed);
            assert_int_equal(standin_ledger_count(testbed.ledger), 700);
            standin_testbed_expect_all(&testbed);
            assert_int_equal(standin_testbed_process(&testbed)->state, MUSTER_PROCESS_KILLED);
            standin_testbed_end(&testbed);
        }
    }
}

/* AddressSanitizer's allocator is locked in the child if another thread used it just then: its
 * leak check would wait for ever. */
int __lsan_is_turned_off(void);
static int no_leak_check;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void)
{
    return no_leak_check;
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

    no_leak_check = 1;
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

/* ThreadSanitizer's runtime may wait for ever in the child of a process with threads, for locks of
 * its own. */
static void skip_where_threads_cannot_fork(void)
{
#ifdef __SANITIZE_THREAD__
    skip();
#endif
}

static void a_forked_child_leaves_its_parents_recording_alone(void **state)
{
    static const char *const timings[] = {"light", "channels"};
    struct standin_testbed testbed;

    (void)state;
    skip_where_threads_cannot_fork();
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_testbed_run(&testbed, api, timings[i], forks);
            assert_int_equal(standin_ledger_count(testbed.ledger), 200);
            standin_testbed_expect_all(&testbed);
            assert_int_equal(standin_testbed_process(&testbed)->state, MUSTER_PROCESS_FINALIZED);
            standin_testbed_end(&testbed);
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
    struct standin_testbed testbed;

    (void)state;
    skip_where_threads_cannot_fork();
    standin_testbed_run_killed(&testbed, 5, "light", forked_before);
    standin_testbed_expect_all(&testbed);
    assert_int_equal(standin_testbed_process(&testbed)->state, MUSTER_PROCESS_KILLED);
    standin_testbed_end(&testbed);
}

static _Atomic int loading; /* slow_library.c */

static void forks_while_a_library_loads(struct standin *nccl)
{
    char text[32];
    int status = -1;

    snprintf(text, sizeof(text), "%llx", (unsigned long long)(uintptr_t)&loading);
    setenv("SLOW_LIBRARY", text, 1);
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    for (unsigned ms = 0; atomic_load(&loading) == 0; ms++) {
        if (ms == 60000)
            standin_die("tests/slow_nvml is not on LD_LIBRARY_PATH");
        usleep(1000);
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(atomic_load(&loading));
    if (waitpid(pid, &status, 0) != pid)
        standin_die("no child");
    nccl->ledger->note[0] = (uint64_t)WEXITSTATUS(status);
    standin_call_times(comm, &small, 10);
    standin_comm_destroy(comm);
}

/* The child's dlopen would find the loader's tables as another thread left them, and crash. */
static void a_fork_waits_for_libraries_that_muster_loads(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    skip_where_threads_cannot_fork();
    standin_testbed_run(&testbed, 5, "light", forks_while_a_library_loads);
    assert_int_equal(testbed.ledger->note[0], 2); /* it is loaded */
    standin_testbed_end(&testbed);
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
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run_nothing(&testbed, api, "channels", switched_off);
        assert_int_equal(testbed.ledger->note[0], 0);
        assert_int_equal(standin_testbed_files(&testbed), 0);
        standin_testbed_end(&testbed);
    }
}

static void *call_for_ever(void *memory)
{
    struct standin_comm *comm = memory;

    for (;;)
        standin_call(comm, &flood_op);
    return NULL;
}

/* Exit handlers run while NCCL's threads go on calling. */
static void exits_while_called(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    pthread_t thread;

    standin_call_times(comm, &small, 100);
    for (unsigned i = 0; i < 3; i++)
        if (pthread_create(&thread, NULL, call_for_ever, standin_comm_init(nccl, &pair)))
            standin_die("no thread");
    standin_wait_retired(500);
    exit(0);
}

static void calls_that_go_on_during_exit_are_harmless(void **state)
{
    static const char *const timings[] = {"light", "channels"};
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 4; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_testbed_run(&testbed, api, timings[i], exits_while_called);
            assert_int_equal(standin_testbed_count(&testbed, MUSTER_FUNC_ALL_REDUCE), 100);
            assert_int_equal(standin_testbed_process(&testbed)->state, MUSTER_PROCESS_EXITED);
            standin_testbed_end(&testbed);
        }
    }
}

static void copy_file(const char *from, const char *to)
{
    char block[65536];
    FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    size_t n;

    if (!in || !out)
        standin_die("cannot copy %s to %s", from, to);
    while ((n = fread(block, 1, sizeof(block), in)) > 0)
        if (fwrite(block, 1, n, out) != n)
            standin_die("cannot write %s", to);
    fclose(in);
    if (fclose(out))
        standin_die("cannot write %s", to);
}

static void two_copies(struct standin *nccl)
{
    static struct standin second;
    char path[64] = "/tmp/muster-copy-XXXXXX";

    close(mkstemp(path));
    copy_file(nccl->path, path);
    standin_open(&second, nccl->gen->api, NULL);
    second.path = path;
    struct standin_comm *comm = standin_comm_init(nccl, &pair);
    standin_call_times(comm, &small, 10);
    standin_comm_sync(comm);
    struct standin_comm *other = standin_comm_init(&second, &pair);
    unlink(path);
    standin_call_times(other, &flood_op, 10);
    standin_comm_sync(other);
    standin_call_times(comm, &small, 10);
    standin_comm_destroy(other);
    standin_comm_destroy(comm);
    standin_close(&second);
}

static void a_second_copy_of_the_library_steps_back(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_testbed_run(&testbed, api, "light", two_copies);
        assert_int_equal(standin_ledger_count(testbed.ledger), 20);
        standin_testbed_expect_all(&testbed);
        standin_testbed_end(&testbed);
    }
}

static void status_field(const char *path, const char *field, char *value, size_t size)
{
    char line[512];
    size_t length = strlen(field);
    FILE *file = fopen(path, "re");

    value[0] = 0;
    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, field, length) && line[length] == ':')
            snprintf(value, size, "%s", line + length + 1);
    if (file)
        fclose(file);
}

static void *init_with_affinity(void *memory)
{
    struct standin_comm **comm = memory;
    cpu_set_t one;

    /* As NCCL does while it initialises: near the GPU, for a moment. */
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof(one), &one);
    *comm = standin_comm_init((*comm)->nccl, &pair);
    return NULL;
}

static void look_at_each_thread(struct standin *nccl, const char *mine)
{
    char path[320], name[64], theirs[256], blocked[64];
    struct dirent *entry;

    DIR *dir = opendir("/proc/self/task");
    while ((entry = readdir(dir))) {
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        status_field(path, "Name", name, sizeof(name));
        if (strncmp(name, "\tmuster-", 8) != 0)
            continue;
        status_field(path, "Cpus_allowed", theirs, sizeof(theirs));
        status_field(path, "SigBlk", blocked, sizeof(blocked));
        nccl->ledger->note[0]++;
        nccl->ledger->note[1] += strcmp(mine, theirs) != 0;
        nccl->ledger->note[2] += (~strtoull(blocked, NULL, 16) & 0x7ffbfeff) != 0;
    }
    closedir(dir);
}

static void looks_at_threads(struct standin *nccl)
{
    struct standin_comm wanted = {.nccl = nccl}, *comm = &wanted;
    char mine[256];
    pthread_t thread;

    if (pthread_create(&thread, NULL, init_with_affinity, &comm))
        standin_die("no thread");
    pthread_join(thread, NULL);
    standin_call(comm, &small);
    status_field("/proc/self/status", "Cpus_allowed", mine, sizeof(mine));
    while (nccl->ledger->note[0] < 2) { /* a thread takes its name after it was started */
        memset(nccl->ledger->note, 0, 3 * sizeof(nccl->ledger->note[0]));
        look_at_each_thread(nccl, mine);
    }
    standin_comm_destroy(comm);
}

/* Of the signals that can be blocked the first 31 count; 9 and 19 cannot be. */
static void threads_of_muster_take_no_signals_and_not_the_callers_cpus(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    standin_testbed_run(&testbed, 5, "channels", looks_at_threads);
    assert_true(testbed.ledger->note[0] >= 2);
    assert_int_equal(testbed.ledger->note[1], 0);
    assert_int_equal(testbed.ledger->note[2], 0);
    standin_testbed_end(&testbed);
}

static void execs_itself(struct standin *nccl)
{
    struct standin_comm *comm = standin_comm_init(nccl, &pair);

    standin_call_times(comm, &small, 50);
    standin_comm_sync(comm);
    execl("/proc/self/exe", "host_process_test", "after exec", NULL);
    standin_die("no exec");
}

static int after_exec(void)
{
    static struct standin nccl;
    struct standin_comm *comm;

    standin_open(&nccl, 5, NULL);
    comm = standin_comm_init(&nccl, &(struct standin_comm_config){.hash = 0x78, .nranks = 2});
    standin_call_times(comm, &small, 30);
    standin_comm_destroy(comm);
    standin_close(&nccl);
    return 0;
}

/* As wrappers and launchers do: process and start stay, the program is another. */
static void a_process_that_execs_is_recorded_before_and_after(void **state)
{
    struct standin_testbed testbed;
    uint64_t seen[2] = {0};

    (void)state;
    standin_testbed_run(&testbed, 5, "light", execs_itself);
    assert_int_equal(testbed.run.processes, 2);
    for (unsigned i = 0; i < 2; i++)
        for (size_t n = 0; n < testbed.run.process[i].ops; n++)
            seen[i]++;
    assert_int_equal(seen[0] + seen[1], 80);
    assert_true(seen[0] == 50 || seen[0] == 30);
    standin_testbed_end(&testbed);
}

static void of_lightning(struct standin *nccl)
{
    int rank = atoi(getenv("STANDIN_RANK"));
    struct standin_comm *comm;

    setenv("LOCAL_RANK", getenv("STANDIN_RANK"), 1);
    setenv("WORLD_SIZE", "2", 1);
    comm = standin_comm_init(
        nccl, &(struct standin_comm_config){.hash = 0x11, .rank = rank, .nranks = 2});
    standin_call(comm, &small);
    standin_comm_destroy(comm);
}

/* Lightning's own launcher tells each process the world and its place on the host, and no rank. */
static void processes_that_know_their_world_only_are_not_one_rank(void **state)
{
    struct standin_testbed testbed;

    (void)state;
    standin_testbed_run_ranks(&testbed, 5, "light", of_lightning, 2, false);
    assert_int_equal(testbed.run.processes, 2);
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(testbed.run.process[rank].identity.rank, rank);
        assert_int_equal(testbed.run.process[rank].identity.world, 2);
    }
    standin_testbed_end(&testbed);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "after exec"))
        return after_exec();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_operations_in_flight_are_counted_or_counted_as_dropped),
        cmocka_unit_test(processes_that_know_their_world_only_are_not_one_rank),
        cmocka_unit_test(a_process_that_execs_is_recorded_before_and_after),
        cmocka_unit_test(what_was_recorded_survives_sigkill),
        cmocka_unit_test(a_forked_child_leaves_its_parents_recording_alone),
        cmocka_unit_test(a_forked_childs_death_is_not_taken_for_its_parents),
        cmocka_unit_test(a_fork_waits_for_libraries_that_muster_loads),
        cmocka_unit_test(calls_that_go_on_during_exit_are_harmless),
        cmocka_unit_test(a_second_copy_of_the_library_steps_back),
        cmocka_unit_test(threads_of_muster_take_no_signals_and_not_the_callers_cpus),
        cmocka_unit_test(switched_off_it_asks_for_nothing_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
