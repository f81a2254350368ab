#include "host_testbed.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#include <cmocka.h>

static void clean_environment(const struct standin_testbed *testbed)
{
    static const char *const unset[] = {"RANK",          "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
                                        "PMI_RANK",      "PMIX_RANK",    "LOCAL_RANK",
                                        "WORLD_SIZE",    "NCCL_HOSTID",  "MUSTER_OFF",
                                        "MUSTER_CONFIG", "MUSTER_TRACE", "MUSTER_LOG_MAX"};

    for (size_t i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
        unsetenv(unset[i]);
    setenv("MUSTER_DIR", testbed->dir, 1);
    setenv("MUSTER_SEGMENT_DIR", testbed->segment_dir, 1);
    setenv("MUSTER_TIMING", testbed->timing, 1);
    setenv("NCCL_ALLGATHERV_ENABLE", "0", 0); /* else `channels` is `full` from 2.29 on */
}

static void child_main(const struct standin_testbed *testbed, standin_scenario *scenario)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS};
    static struct standin nccl;

    /* cmocka's handlers would take a crash here for one of the test itself. */
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
        signal(fatal[i], SIG_DFL);
    clean_environment(testbed);
    standin_open(&nccl, testbed->api, testbed->ledger);
    scenario(&nccl);
    standin_close(&nccl);
    exit(0);
}

/* Of the newest testbed: a failing test leaves without ending it. */
static struct standin_testbed unended;
static pid_t owner;

static void end_unended(void)
{
    if (unended.ledger && getpid() == owner)
        standin_testbed_end(&unended);
}

static void testbed_begin(struct standin_testbed *testbed, unsigned api, const char *timing)
{
    end_unended();
    if (!owner)
        atexit(end_unended);
    owner = getpid();
    memset(testbed, 0, sizeof(*testbed));
    testbed->api = api;
    testbed->timing = timing;
    strcpy(testbed->dir, "/tmp/muster-host-XXXXXX");
    strcpy(testbed->segment_dir, "/dev/shm/muster-host-XXXXXX");
    assert_non_null(mkdtemp(testbed->dir));
    assert_non_null(mkdtemp(testbed->segment_dir));
    testbed->ledger = mmap(NULL, sizeof(*testbed->ledger), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(testbed->ledger != MAP_FAILED);
    pthread_mutexattr_t shared; /* ranks are processes */
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&testbed->ledger->lock, &shared);
    pthread_mutexattr_destroy(&shared);
    unended = *testbed;
}

static int testbed_child(struct standin_testbed *testbed, standin_scenario *scenario)
{
    int status = 0;

    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child_main(testbed, scenario);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void testbed_load(struct standin_testbed *testbed)
{
    const char *run = testbed->dir;
    struct muster_run_query query = {.run = &run, .runs = 1, .segment_dir = testbed->segment_dir};
    struct muster_err err;

    if (muster_run_load(&query, &testbed->run, &err))
        fail_msg("interface v%u, timing %s: %s", testbed->api, testbed->timing, err.text);
    unended = *testbed;
}

int standin_testbed_status(struct standin_testbed *testbed, unsigned api, const char *timing,
                           standin_scenario *scenario)
{
    testbed_begin(testbed, api, timing);
    return testbed_child(testbed, scenario);
}

void standin_testbed_run_nothing(struct standin_testbed *testbed, unsigned api, const char *timing,
                                 standin_scenario *scenario)
{
    int status = standin_testbed_status(testbed, api, timing, scenario);
    if (status)
        fail_msg("interface v%u, timing %s: the driven process left with %s %d", api, timing,
                 WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

void standin_testbed_run(struct standin_testbed *testbed, unsigned api, const char *timing,
                         standin_scenario *scenario)
{
    standin_testbed_run_nothing(testbed, api, timing, scenario);
    testbed_load(testbed);
}

void standin_testbed_run_killed(struct standin_testbed *testbed, unsigned api, const char *timing,
                                standin_scenario *scenario)
{
    int status = standin_testbed_status(testbed, api, timing, scenario);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), 9);
    testbed_load(testbed);
}

void standin_testbed_run_ranks(struct standin_testbed *testbed, unsigned api, const char *timing,
                               standin_scenario *scenario, unsigned ranks, bool killed)
{
    pid_t pid[16];
    char text[16];

    assert_true(ranks <= sizeof(pid) / sizeof(pid[0]));
    testbed_begin(testbed, api, timing);
    fflush(NULL);
    for (unsigned i = 0; i < ranks; i++) {
        snprintf(text, sizeof(text), "%u", i);
        setenv("STANDIN_RANK", text, 1);
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0)
            child_main(testbed, scenario);
    }
    for (unsigned i = 0; i < ranks; i++) {
        int status = -1;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        if (killed ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status != 0)
            fail_msg("interface v%u, timing %s: rank %u left with status %#x", api, timing, i,
                     (unsigned)status);
    }
    testbed_load(testbed);
}

static void remove_directory(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    rmdir(path);
}

void standin_testbed_end(struct standin_testbed *testbed)
{
    muster_run_free(&testbed->run);
    munmap(testbed->ledger, sizeof(*testbed->ledger));
    remove_directory(testbed->dir);
    remove_directory(testbed->segment_dir);
    memset(&unended, 0, sizeof(unended));
}

static unsigned count_files(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    unsigned n = 0;

    while (dir && (entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

unsigned standin_testbed_files(const struct standin_testbed *testbed)
{
    return count_files(testbed->dir) + count_files(testbed->segment_dir);
}

const struct muster_process *standin_testbed_process(const struct standin_testbed *testbed)
{
    if (testbed->run.processes != 1)
        for (size_t i = 0; i < testbed->run.notes; i++)
            print_error("note: %s\n", testbed->run.note[i]);
    assert_int_equal(testbed->run.processes, 1);
    assert_non_null(testbed->run.process[0].segment);
    return &testbed->run.process[0];
}

uint64_t standin_testbed_drops(const struct standin_testbed *testbed, enum muster_drop drop)
{
    return atomic_load(&standin_testbed_process(testbed)->segment->drops[drop]);
}

uint64_t standin_testbed_all_drops(const struct standin_testbed *testbed)
{
    uint64_t drops = 0;

    for (unsigned i = 0; i < MUSTER_DROPS; i++)
        drops += standin_testbed_drops(testbed, i);
    return drops;
}

static uint64_t sum_rows(const struct standin_testbed *testbed, unsigned func, char what)
{
    const struct muster_segment *segment = standin_testbed_process(testbed)->segment;
    uint64_t sum = 0;

    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++) {
        const struct muster_seg_row *row = &segment->row[i];
        if (row->comm && (func == MUSTER_FUNCS || row->func == func))
            sum += what == 'c' ? row->count : what == 'b' ? row->bytes : row->timed;
    }
    return sum;
}

uint64_t standin_testbed_count(const struct standin_testbed *testbed, unsigned func)
{
    return sum_rows(testbed, func, 'c');
}

uint64_t standin_testbed_bytes(const struct standin_testbed *testbed, unsigned func)
{
    return sum_rows(testbed, func, 'b');
}

uint64_t standin_testbed_timed(const struct standin_testbed *testbed, unsigned func)
{
    return sum_rows(testbed, func, 't');
}

/* --- row by row ------------------------------------------------------------------------------ */

static void describe(const struct standin_testbed *testbed,
                     const struct standin_ledger_entry *entry, const char *what)
{
    print_error("interface v%u, timing %s: %s: communicator %llx rank %d %s peer %d %s %s, sizes "
                "from 2^%u\n",
                testbed->api, testbed->timing, what, (unsigned long long)entry->comm, entry->rank,
                muster_func_name(entry->func), entry->peer, muster_algo_name(entry->algo),
                muster_proto_name(entry->proto), entry->size_log2);
}

static void describe_drops(const struct standin_testbed *testbed)
{
    for (unsigned i = 0; i < MUSTER_DROPS; i++)
        if (standin_testbed_drops(testbed, i))
            print_error("dropped: %llu %s\n", (unsigned long long)standin_testbed_drops(testbed, i),
                        muster_drop_name(i));
}

static void describe_untimed(const struct standin_testbed *testbed)
{
    const struct muster_process *process = standin_testbed_process(testbed);
    unsigned left = 10;

    for (size_t i = 0; testbed->api >= 5 && i < process->ops && left; i++) {
        const struct muster_op *op = &process->op[i];
        if (op->source == MUSTER_SOURCE_GPU)
            continue;
        left--;
        print_error("untimed: %s number %llu of communicator %u, flags %#x, channels %u\n",
                    muster_func_name(op->func), (unsigned long long)op->number, op->comm, op->flags,
                    op->channels);
    }
}

static bool row_is(const struct muster_process *process, const struct muster_seg_row *row,
                   const struct standin_ledger_entry *entry)
{
    const struct muster_log_comm *comm = row->comm ? muster_process_comm(process, row->comm) : NULL;

    return comm && row->count && comm->id == entry->comm && comm->rank == entry->rank &&
           row->peer == entry->peer && row->func == entry->func && row->algo == entry->algo &&
           row->proto == entry->proto && row->size_log2 == entry->size_log2;
}

/* A communicator that was made again has rows of its own: what they hold together counts. */
static void expect_entry(const struct standin_testbed *testbed,
                         const struct standin_ledger_entry *entry, unsigned char *seen)
{
    const struct muster_process *process = standin_testbed_process(testbed);
    struct standin_ledger_entry got = {.min_ns = UINT64_MAX};
    bool wrong;

    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++) {
        const struct muster_seg_row *row = &process->segment->row[i];
        if (!row_is(process, row, entry))
            continue;
        seen[i] = 1;
        got.count += row->count;
        got.bytes += row->bytes;
        got.graph += row->graph;
        got.api_only += row->api_only;
        got.host_timed += row->host_timed;
        got.timed += row->timed;
        got.sum_ns += row->timed ? row->sum_ns : 0;
        if (row->timed && row->min_ns < got.min_ns)
            got.min_ns = row->min_ns;
        if (row->timed && row->max_ns > got.max_ns)
            got.max_ns = row->max_ns;
    }
    wrong = got.count != entry->count || got.bytes != entry->bytes || got.graph != entry->graph ||
            got.api_only != entry->api_only || got.host_timed != entry->host_timed ||
            got.timed != entry->timed || got.sum_ns != entry->sum_ns ||
            got.max_ns != entry->max_ns || (entry->timed && got.min_ns != entry->min_ns);
    if (wrong) {
        describe(testbed, entry, "recorded differently");
        describe_drops(testbed);
        if (!strcmp(testbed->timing, "channels"))
            describe_untimed(testbed);
    }
    assert_int_equal(got.count, entry->count);
    assert_int_equal(got.bytes, entry->bytes);
    assert_int_equal(got.graph, entry->graph);
    assert_int_equal(got.api_only, entry->api_only);
    assert_int_equal(got.host_timed, entry->host_timed);
    assert_int_equal(got.timed, entry->timed);
    assert_int_equal(got.sum_ns, entry->sum_ns);
    assert_int_equal(got.max_ns, entry->max_ns);
    assert_false(wrong);
}

void standin_testbed_expect_all(const struct standin_testbed *testbed)
{
    const struct muster_process *process = standin_testbed_process(testbed);
    unsigned char seen[MUSTER_SEG_ROWS] = {0};

    for (unsigned i = 0; i < testbed->ledger->entries; i++)
        expect_entry(testbed, &testbed->ledger->entry[i], seen);
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++) {
        const struct muster_seg_row *row = &process->segment->row[i];
        if (row->comm && row->count && !seen[i])
            fail_msg("interface v%u, timing %s: %llu %s of size class 2^%u, peer %d, %s %s were "
                     "recorded and not issued",
                     testbed->api, testbed->timing, (unsigned long long)row->count,
                     muster_func_name(row->func), row->size_log2, row->peer,
                     muster_algo_name(row->algo), muster_proto_name(row->proto));
    }
}

/* --- the live segment, from inside the driven process ---------------------------------------- */

/* Only the .seg file is opened: closing a descriptor of the lock file would drop the lock. */
static int open_own_segment(void)
{
    DIR *dir = opendir(getenv("MUSTER_SEGMENT_DIR"));
    struct dirent *entry;
    int fd = -1;

    while (dir && fd < 0 && (entry = readdir(dir))) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && !strcmp(entry->d_name + length - 4, ".seg"))
            fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
    }
    if (dir)
        closedir(dir);
    return fd;
}

static uint64_t retired(int fd)
{
    uint64_t sum = 0, one;

    for (unsigned i = 0; i <= MUSTER_SEG_COMMS; i++) {
        size_t at = offsetof(struct muster_segment, comm) + i * sizeof(struct muster_seg_comm) +
                    offsetof(struct muster_seg_comm, retired);
        if (pread(fd, &one, sizeof(one), (off_t)at) == (ssize_t)sizeof(one))
            sum += one;
    }
    return sum;
}

static uint64_t dropped(int fd)
{
    size_t at = offsetof(struct muster_segment, drops) + MUSTER_DROP_NO_SLOT * sizeof(uint64_t);
    uint64_t sum;

    return pread(fd, &sum, sizeof(sum), (off_t)at) == (ssize_t)sizeof(sum) ? sum : 0;
}

/* A sanitized build on a busy machine takes its time. */
enum { RETIRE_LIMIT_S = 240 };

void standin_wait_retired(uint64_t operations)
{
    uint64_t begin = muster_now_ns();
    int fd = open_own_segment();

    if (fd < 0)
        standin_die("no segment in %s", getenv("MUSTER_SEGMENT_DIR"));
    while (retired(fd) + dropped(fd) < operations) {
        if (muster_now_ns() - begin > RETIRE_LIMIT_S * MUSTER_NS_PER_S)
            standin_die("%llu operations retired after four minutes, not %llu",
                        (unsigned long long)retired(fd), (unsigned long long)operations);
        usleep(200); /* the threads that retire want the processor */
    }
    close(fd);
}

static FILE *kept_stderr(const char *dir, const char *mode)
{
    char path[128];

    /* Hidden: it is not one of the files that muster leaves. */
    snprintf(path, sizeof(path), "%s/.stderr", dir);
    return fopen(path, mode);
}

void standin_keep_stderr(void)
{
    FILE *kept = kept_stderr(getenv("MUSTER_DIR"), "ae");

    if (!kept || dup2(fileno(kept), STDERR_FILENO) < 0)
        standin_die("standard error cannot be kept");
    fclose(kept);
}

unsigned standin_testbed_lines(const struct standin_testbed *testbed, const char *text)
{
    FILE *kept = kept_stderr(testbed->dir, "re");
    char line[1024];
    unsigned n = 0;

    assert_non_null(kept);
    while (fgets(line, sizeof(line), kept))
        n += strstr(line, text) != NULL;
    fclose(kept);
    return n;
}
