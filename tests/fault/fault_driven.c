#include "fault_driven.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fault_folder.h"
#include "run/run.h"
#include "segment/reap.h"

enum { DEADLINE_S = 60 };

static struct driven one;

void driven_filter(int argc, char **argv)
{
    static char filter[64];
    if (argc > 1) {
        snprintf(filter, sizeof(filter), "*%s*", argv[1]);
        cmocka_set_test_filter(filter);
    }
}

int driven_setup(void **state)
{
    struct driven *driven = &one;

    memset(driven, 0, sizeof(*driven));
    strcpy(driven->base, "/tmp/muster-fault-XXXXXX");
    strcpy(driven->segment_dir, "/dev/shm/muster-fault-XXXXXX");
    if (!mkdtemp(driven->base) || !mkdtemp(driven->segment_dir))
        return -1;
    snprintf(driven->run, sizeof(driven->run), "%s/run", driven->base);
    snprintf(driven->moved, sizeof(driven->moved), "%s/tmp/run", driven->base);
    snprintf(driven->trace, sizeof(driven->trace), "%s/trace", driven->base);
    driven->fd = memfd_create("plan", 0);
    if (driven->fd < 0 || ftruncate(driven->fd, sizeof(*driven->plan)) != 0)
        return -1;
    driven->plan =
        mmap(NULL, sizeof(*driven->plan), PROT_READ | PROT_WRITE, MAP_SHARED, driven->fd, 0);
    *state = driven;
    return (void *)driven->plan == MAP_FAILED ? -1 : 0;
}

int driven_teardown(void **state)
{
    struct driven *driven = *state;

    folder_empty(driven->base);
    folder_empty(driven->segment_dir);
    rmdir(driven->base);
    rmdir(driven->segment_dir);
    munmap(driven->plan, sizeof(*driven->plan));
    close(driven->fd);
    return 0;
}

static void set_environment(const struct driven *driven)
{
    static const char *const unset[] = {"RANK",         "LOCAL_RANK",    "WORLD_SIZE",
                                        "SLURM_PROCID", "SLURM_JOB_ID",  "NCCL_HOSTID",
                                        "MUSTER_OFF",   "MUSTER_CONFIG", "MUSTER_TRACE"};
    char fd[16], tmp[80];

    for (size_t i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
        unsetenv(unset[i]);
    snprintf(fd, sizeof(fd), "%d", driven->fd);
    setenv("FAULT_PLAN", fd, 1);
    setenv("LD_PRELOAD", MUSTER_TEST_SHIM, 1);
    setenv("MUSTER_DIR", driven->run, 1);
    setenv("MUSTER_SEGMENT_DIR", driven->segment_dir, 1);
    setenv("NCCL_ALLGATHERV_ENABLE", "0", 1); /* else `channels` is `full` from 2.29 on */
    setenv("MUSTER_TIMING", driven->timing ? driven->timing : "channels", 1);
    snprintf(tmp, sizeof(tmp), "%s/tmp", driven->base);
    setenv("TMPDIR", tmp, 1);
    if (driven->traced)
        setenv("MUSTER_TRACE", driven->trace, 1);
    if (driven->config)
        setenv("MUSTER_CONFIG", driven->config, 1);
}

static void child(const struct driven *driven, const char *const *argv, int out, int err)
{
    char *words[16] = {NULL};

    set_environment(driven);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    for (size_t i = 0; i < 15 && argv[i]; i++)
        words[i] = strdup(argv[i]);
    signal(SIGPIPE, SIG_DFL);
    alarm(DEADLINE_S);
    execv(words[0], words);
    _exit(94);
}

static void take_text(int fd, char text[static DRIVEN_TEXT])
{
    ssize_t n = pread(fd, text, DRIVEN_TEXT - 1, 0);
    text[n > 0 ? n : 0] = 0;
    close(fd);
}

void driven_run_again(struct driven *driven, const char *const *argv)
{
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC);

    /* Threads write to them at once. */
    fcntl(out, F_SETFL, O_APPEND);
    fcntl(err, F_SETFL, O_APPEND);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(driven, argv, out, err);
    assert_int_equal(waitpid(pid, &driven->status, 0), pid);
    take_text(out, driven->out);
    take_text(err, driven->err);
}

void driven_restart(struct driven *driven)
{
    struct fault_plan *plan = driven->plan;

    atomic_store(&plan->seen, 0);
    atomic_store(&plan->failed, 0);
    memset(plan->call, 0, sizeof(plan->call));
    memset(&plan->ledger, 0, sizeof(plan->ledger));
    pthread_mutex_init(&plan->ledger.lock, NULL);
}

void driven_clear(struct driven *driven)
{
    folder_empty(driven->base);
    folder_empty(driven->segment_dir);
    driven_restart(driven);
}

void driven_run(struct driven *driven, const char *const *argv)
{
    driven_clear(driven);
    driven_run_again(driven, argv);
}

bool driven_failed(const struct driven *driven)
{
    return atomic_load(&driven->plan->failed) > 0;
}

unsigned driven_lines(const struct driven *driven)
{
    static const char announced[] = "muster: warning: recording every call to";
    unsigned lines = 0;

    for (const char *at = driven->err; *at; at = strchr(at, '\n') + 1) {
        if (strncmp(at, "muster", 6) != 0 || !strchr(at, '\n'))
            fail_msg("on stderr: %s", at);
        lines += strncmp(at, announced, strlen(announced)) != 0;
    }
    return lines;
}

static void add_process(const struct muster_process *process, struct driven_totals *totals)
{
    const struct muster_segment *segment = process->segment;

    totals->processes++;
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++) {
        if (!segment->row[i].comm)
            continue;
        totals->ops += segment->row[i].count;
        totals->bytes += segment->row[i].bytes;
    }
    for (unsigned i = 0; i < MUSTER_DROPS; i++)
        totals->reports_missing |= atomic_load(&segment->drops[i]) > 0;
    totals->reports_missing |= process->ops_missing > 0 || atomic_load(&segment->lost_log) > 0;
}

void driven_totals(const struct driven *driven, struct driven_totals *totals)
{
    const char *const runs[] = {driven->run, driven->moved};
    struct muster_run_query query = {.run = runs, .runs = 2, .segment_dir = driven->segment_dir};
    struct muster_run loaded;
    struct muster_err err;

    memset(totals, 0, sizeof(*totals));
    if (muster_run_load(&query, &loaded, &err) != 0)
        return;
    for (size_t i = 0; i < loaded.processes; i++)
        add_process(&loaded.process[i], totals);
    /* One of the two directories is not there. */
    totals->reports_missing |= loaded.notes > 1;
    muster_run_free(&loaded);
}

uint64_t driven_issued(const struct driven *driven)
{
    return standin_ledger_count(&driven->plan->ledger);
}

unsigned driven_leftovers(const struct driven *driven)
{
    folder_make_old(driven->segment_dir);
    muster_reap(driven->segment_dir);
    return folder_count(driven->segment_dir, false, NULL, 0) +
           folder_count(driven->run, true, NULL, 0) + folder_count(driven->moved, true, NULL, 0);
}

void driven_evaluate_job(const struct driven *driven, const char *what)
{
    const struct fault_plan *plan = driven->plan;
    struct driven_totals got;
    uint64_t issued = driven_issued(driven), bytes = 0;

    if (driven->status != 0)
        fail_msg("%s (%s): the job left with %#x\n%s", what, plan->call, driven->status,
                 driven->err);
    for (unsigned i = 0; i < plan->ledger.entries; i++)
        bytes += plan->ledger.entry[i].bytes;
    unsigned lines = driven_lines(driven);
    driven_totals(driven, &got);
    assert_true(issued > 0);
    if (got.ops > issued || got.bytes > bytes || got.processes > 1)
        fail_msg("%s (%s): %llu operations of %llu bytes reported in %llu processes, %llu of %llu "
                 "issued",
                 what, plan->call, (unsigned long long)got.ops, (unsigned long long)got.bytes,
                 (unsigned long long)got.processes, (unsigned long long)issued,
                 (unsigned long long)bytes);
    if (!(got.ops == issued && got.bytes == bytes) && lines == 0 && !got.reports_missing)
        fail_msg("%s (%s): %llu of %llu operations were reported and nothing was said", what,
                 plan->call, (unsigned long long)got.ops, (unsigned long long)issued);
    if (!driven_failed(driven) && (lines > 0 || got.ops != issued || got.bytes != bytes))
        fail_msg("%s: no call failed, and %llu of %llu operations were reported; %s", what,
                 (unsigned long long)got.ops, (unsigned long long)issued, driven->err);
    unsigned left = driven_leftovers(driven);
    if (left)
        fail_msg("%s (%s): %u files are left for good", what, plan->call, left);
}
