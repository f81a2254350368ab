#include "live_testbed.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/host.h"
#include "mapped_ranks.h"

#define AGO_NS (20 * MUSTER_NS_PER_S)

static struct muster_seg_identity identity_of(const struct testbed *testbed, int rank)
{
    struct muster_seg_identity who = {.boot_hash = 7,
                                      .begin_mono_ns = muster_now_ns() - 3 * AGO_NS,
                                      .begin_unix_ns = muster_unix_ns() - 3 * AGO_NS,
                                      .start_ticks = muster_process_start_ticks(0),
                                      .pid = (uint32_t)getpid(),
                                      .uid = geteuid(),
                                      .rank = rank,
                                      .local_rank = rank,
                                      .world = WORLD_RANKS,
                                      .host = "node0"};
    snprintf(who.run_dir, sizeof who.run_dir, "%s", testbed->run);
    snprintf(who.file_stem, sizeof who.file_stem, "node0-%d", rank);
    return who;
}

static void fill(struct muster_segment *segment, int rank)
{
    segment->heartbeat_mono_ns = muster_now_ns() + 1000 * MUSTER_NS_PER_S; /* always fresh */
    segment->comm[0].uid = 1;
    segment->comm[0].id = WORLD_COMM;
    segment->comm[0].rank = rank;
    segment->comm[0].nranks = WORLD_RANKS;
    segment->comm[0].nnodes = 1;
    segment->comm[0].gpu_index = rank;
    segment->comm[0].begin_ns = muster_now_ns() - 2 * AGO_NS;
}

static void create(const struct testbed *testbed, int rank, struct muster_segment_file *file)
{
    struct muster_seg_identity who = identity_of(testbed, rank);
    struct muster_err err;
    if (muster_segment_create(file, testbed->shm, &who, &err) != MUSTER_SEGMENT_OK ||
        !file->shared) {
        fprintf(stderr, "no segment: %s\n", err.text);
        _exit(99);
    }
    fill(file->map, rank);
}

static void signal_ready(int fd)
{
    if (write(fd, "", 1) != 1)
        _exit(99);
}

/* One that only lives. */
static pid_t start_rank(const struct testbed *testbed, int rank, int ready)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct muster_segment_file file = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    create(testbed, rank, &file);
    signal_ready(ready);
    for (;;)
        pause();
}

static void map_others(struct testbed *testbed)
{
    if (!mapped_ranks(testbed->shm, testbed->rank, WORLD_RANKS))
        _exit(99);
    for (unsigned r = 0; r < WORLD_RANKS; r++)
        testbed->pid[r] = testbed->rank[r] ? (pid_t)testbed->rank[r]->identity.pid : 0;
}

/* In the process of rank 0, once all others are there. */
static _Noreturn void play(struct testbed *testbed, const char *config, int err_fd,
                           int (*scenario)(struct testbed *))
{
    static const _Atomic bool open = false;
    struct muster_err err;
    dup2(err_fd, STDERR_FILENO);
    map_others(testbed);
    if (muster_settings_parse(&testbed->settings, "on.yaml", config, strlen(config), &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        _exit(99);
    }
    snprintf(testbed->settings.segment_dir, sizeof testbed->settings.segment_dir, "%s",
             testbed->shm);
    testbed->settings.hang_seconds = 1;
    struct muster_live_options options = {&testbed->file, &testbed->settings, &open};
    testbed->live = muster_live_new(&options);
    testbed->now_ns = muster_now_ns();
    int status = scenario(testbed);
    muster_live_free(testbed->live);
    _exit(status);
}

static void await(int fd, int n)
{
    char byte;
    while (n-- > 0)
        assert_int_equal(read(fd, &byte, 1), 1);
}

static pid_t start_first(struct testbed *testbed, const char *config,
                         int (*scenario)(struct testbed *), int ready, int go, int err_fd)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    char byte;
    create(testbed, 0, &testbed->file);
    signal_ready(ready);
    if (read(go, &byte, 1) != 1)
        _exit(99);
    play(testbed, config, err_fd, scenario);
}

static void read_file(char *text, size_t size, const char *dir, const char *name)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

static void remove_testbed(const struct testbed *testbed)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf %s %s", testbed->shm, testbed->run);
    assert_int_equal(system(command), 0);
}

static struct testbed_end run(const char *config, int (*scenario)(struct testbed *), bool leads)
{
    struct testbed testbed = {.shm = "/dev/shm/muster-testbed-XXXXXX",
                              .run = "/tmp/muster-testbed-XXXXXX"};
    struct testbed_end end = {0};
    int ready[2], go[2];
    pid_t pid[WORLD_RANKS];
    assert_non_null(mkdtemp(testbed.shm));
    assert_non_null(mkdtemp(testbed.run));
    char path[128];
    snprintf(path, sizeof path, "%s/stderr", testbed.run);
    int err_fd = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
    assert_int_equal(pipe(ready) || pipe(go) || err_fd < 0, 0);
    /* Who is started first has the lowest pid. */
    for (int i = 0; i < WORLD_RANKS; i++) {
        int r = leads ? i : WORLD_RANKS - 1 - i;
        pid[r] = r == 0 ? start_first(&testbed, config, scenario, ready[1], go[0], err_fd)
                        : start_rank(&testbed, r, ready[1]);
    }
    await(ready[0], WORLD_RANKS);
    assert_int_equal(write(go[1], "", 1), 1);
    assert_int_equal(waitpid(pid[0], &end.status, 0), pid[0]);
    for (int r = 1; r < WORLD_RANKS; r++) {
        kill(pid[r], SIGKILL);
        waitpid(pid[r], NULL, 0);
    }
    int fds[] = {ready[0], ready[1], go[0], go[1], err_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
    read_file(end.emitted, sizeof end.emitted, testbed.run, "stderr");
    read_file(end.found, sizeof end.found, testbed.run, "node0-0.findings.jsonl");
    remove_testbed(&testbed);
    return end;
}

struct testbed_end testbed_run(const char *config, int (*scenario)(struct testbed *))
{
    return run(config, scenario, true);
}

struct testbed_end testbed_run_following(const char *config, int (*scenario)(struct testbed *))
{
    return run(config, scenario, false);
}

void testbed_look(struct testbed *testbed, double s)
{
    testbed->now_ns += (uint64_t)(s * 1e9);
    muster_live_scan(testbed->live, testbed->now_ns);
}

/* ---- what the ranks did ---- */

static void call(struct muster_segment *segment, unsigned calls, unsigned ended, uint64_t at_ns)
{
    struct muster_seg_comm *comm = &segment->comm[0];
    comm->calls = calls;
    comm->call_hash = 17 * calls;
    comm->called_ns = at_ns;
    comm->launches = comm->launches_probed = calls;
    comm->launches_ended = ended;
    comm->ended_ns = at_ns;
    for (unsigned n = calls < MUSTER_SEG_CALLS ? 0 : calls - MUSTER_SEG_CALLS; n < calls; n++)
        comm->call[n % MUSTER_SEG_CALLS] = (struct muster_seg_call){
            1 << 18, 0, MUSTER_FUNC_ALL_REDUCE, MUSTER_DTYPE_FLOAT32, (uint16_t)n};
}

void testbed_wait(struct testbed *testbed, unsigned calls, unsigned absent)
{
    uint64_t at_ns = muster_now_ns() - AGO_NS;
    for (unsigned r = 0; r < WORLD_RANKS; r++) {
        bool lacks = absent & (1u << r);
        call(testbed->rank[r], lacks ? calls - 1 : calls, calls - 1, at_ns);
    }
}

void testbed_go_on(struct testbed *testbed, unsigned calls)
{
    for (unsigned r = 0; r < WORLD_RANKS; r++)
        call(testbed->rank[r], calls, calls, muster_now_ns());
}

/* Each GPU has a clock of its own. All leave an operation together; who came last ran shortest. */
static void retire(struct muster_segment *segment, unsigned rank, uint64_t number, bool late)
{
    enum { CYCLE_US = 2000, STEP = 5 };
    uint64_t end_us = (number + 1) * CYCLE_US / STEP + (number / STEP) * 1000;
    uint64_t wait_us = number % STEP == 0 && !late ? 1000 : 0;
    uint64_t noise_us = (number * 7 + rank * 3) % 5, clock_us = 1000000 * (rank + 1);
    uint64_t head = segment->ring_head;
    segment->ring[head % MUSTER_SEG_RING] =
        (struct muster_op){.number = number,
                           .enqueue_ns = (end_us + 1000000) * 1000,
                           .begin_ns = (clock_us + end_us - 200 - wait_us - noise_us) * 1000,
                           .end_ns = (clock_us + end_us) * 1000,
                           .count = 1 << (18 + number % STEP),
                           .comm = 1,
                           .peer = -1,
                           .func = MUSTER_FUNC_ALL_REDUCE,
                           .dtype = MUSTER_DTYPE_FLOAT32,
                           .algo = MUSTER_ALGO_RING,
                           .proto = MUSTER_PROTO_SIMPLE,
                           .channels = 1,
                           .source = MUSTER_SOURCE_GPU,
                           .flags = number < 3 ? MUSTER_OP_UNSCORED : 0};
    segment->ring_head = head + 1;
}

void testbed_step(struct testbed *testbed, unsigned n, int late)
{
    for (unsigned r = 0; r < WORLD_RANKS; r++) {
        uint64_t from = testbed->rank[r]->ring_head;
        for (unsigned i = 0; i < n; i++)
            retire(testbed->rank[r], r, from + i, late < 0 || late == (int)r);
    }
}
