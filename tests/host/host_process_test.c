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
    standin_wait_retired(FLOOD);
    standin_call_times(comm, &small, 50);
    standin_comm_destroy(comm);
}

static void expect_flood(unsigned api, const char *timing)
{
    struct standin_lab lab;

    standin_lab_run(&lab, api, timing, flood);
    uint64_t ops = standin_lab_count(&lab, MUSTER_FUNC_ALL_GATHER);
    assert_int_equal(ops + standin_lab_drops(&lab, MUSTER_DROP_NO_SLOT), FLOOD);
    assert_true(ops >= MUSTER_SEG_SLOTS - 64);
    assert_int_equal(standin_lab_bytes(&lab, MUSTER_FUNC_ALL_GATHER),
                     ops * 40 * (api != 3 ? 2 : 1));
    assert_int_equal(standin_lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 50);
    assert_int_equal(standin_lab_timed(&lab, MUSTER_FUNC_ALL_REDUCE),
                     !strcmp(timing, "full") && api >= 5 ? 50 : 0);
    standin_lab_end(&lab);
}

static void a_hundred_thousand_operations_in_flight_are_counted_or_counted_as_dropped(void **state)
{
    (void)state;
    expect_flood(1, "light");
    expect_flood(4, "light");
    expect_flood(5, "light");
    expect_flood(5, "full");
    expect_flood(7, "full");
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
    static const char *const timings[] = {"light", "full"};
    struct standin_lab lab;

    (void)state;
    skip_where_threads_cannot_fork();
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
    skip_where_threads_cannot_fork();
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
    static const char *const timings[] = {"light", "full"};
    struct standin_lab lab;

    (void)state;
    for (unsigned api = 4; api <= standin_generations_n; api++) {
        for (unsigned i = 0; i < 2; i++) {
            standin_lab_run(&lab, api, timings[i], exits_while_called);
            assert_int_equal(standin_lab_count(&lab, MUSTER_FUNC_ALL_REDUCE), 100);
            assert_int_equal(standin_lab_process(&lab)->state, MUSTER_PROCESS_EXITED);
            standin_lab_end(&lab);
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
    struct standin_lab lab;

    (void)state;
    for (unsigned api = 1; api <= standin_generations_n; api++) {
        standin_lab_run(&lab, api, "light", two_copies);
        assert_int_equal(standin_ledger_count(lab.ledger), 20);
        standin_lab_expect_all(&lab);
        standin_lab_end(&lab);
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
        if (strncmp(name, "\tmuster-", 8))
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
    struct standin_lab lab;

    (void)state;
    standin_lab_run(&lab, 5, "full", looks_at_threads);
    assert_true(lab.ledger->note[0] >= 2);
    assert_int_equal(lab.ledger->note[1], 0);
    assert_int_equal(lab.ledger->note[2], 0);
    standin_lab_end(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hundred_thousand_operations_in_flight_are_counted_or_counted_as_dropped),
        cmocka_unit_test(what_was_recorded_survives_sigkill),
        cmocka_unit_test(a_forked_child_leaves_its_parents_recording_alone),
        cmocka_unit_test(a_forked_childs_death_is_not_taken_for_its_parents),
        cmocka_unit_test(calls_that_go_on_during_exit_are_harmless),
        cmocka_unit_test(a_second_copy_of_the_library_steps_back),
        cmocka_unit_test(threads_of_muster_take_no_signals_and_not_the_callers_cpus),
        cmocka_unit_test(switched_off_it_asks_for_nothing_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
