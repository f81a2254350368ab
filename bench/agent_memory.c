/*
 * What `muster agent` takes while all windows of a host are full: ranks of some jobs, whose
 * segments this process makes and fills, are watched by a real agent, which with --nats tells them
 * to a server, too. Printed is its resident memory: the most, the mean of the second half, and what
 * of it is its own; and how much of a processor it takes in the second half.
 *
 * usage: agent_memory [--jobs N] [--ranks N] [--seconds N] [--rate N] [--most MB] [--nats URL]
 *                     MUSTER
 *
 * Exits with 1 where it is more than --most, with 77 where the agent cannot serve.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/nccl_types.h"
#include "base/text.h"
#include "launch/scratch.h"
#include "segment/segment_file.h"

enum { RANKS_MAX = 512, COMMS = 8, ROWS = 48, TICK_MS = 250, FAKE_PID = 4000000 };

struct bench {
    unsigned jobs, ranks, seconds, rate, most; /* ranks: of all jobs together; rate: of each */
    const char *muster, *nats;
    char dir[4096];
    struct muster_segment_file file[RANKS_MAX];
    uint64_t operations;
};

/* ---- the ranks ---- */

/* As of a job with tensor, pipeline and data parallelism; only the first communicator is at work.
 */
static void fill_tables(struct muster_segment *segment, uint64_t id, unsigned ranks)
{
    for (unsigned c = 0; c < COMMS; c++)
        segment->comm[c] = (struct muster_seg_comm){.uid = c + 1,
                                                    .id = c << 20 | id,
                                                    .rank = segment->identity.rank,
                                                    .nranks = ranks,
                                                    .nnodes = 1,
                                                    .gpu_index = segment->identity.rank,
                                                    .begin_ns = segment->identity.begin_mono_ns};
    for (unsigned r = 0; r < ROWS; r++) {
        struct muster_seg_row *row = &segment->row[MUSTER_FUNCS + r];
        row->comm = r % COMMS + 1;
        row->peer = -1;
        row->func = MUSTER_FUNC_ALL_REDUCE;
        row->count = row->event_timed = 1000 + r;
        row->bytes = 1u << 20;
        for (unsigned b = 60; b < 120; b++)
            row->hist.n[b] = 15;
    }
}

static int make_rank(struct bench *bench, unsigned r, struct muster_err *err)
{
    unsigned of_job = bench->ranks / bench->jobs, job = r / of_job;
    struct muster_seg_identity who = {.pid = FAKE_PID + r,
                                      .start_ticks = 77,
                                      .rank = (int32_t)(r % of_job),
                                      .local_rank = (int32_t)(r % of_job),
                                      .world = (int32_t)of_job,
                                      .uid = geteuid(),
                                      .host = "node0",
                                      .hostname = "node0",
                                      .begin_mono_ns = muster_now_ns(),
                                      .begin_unix_ns = muster_unix_ns()};
    snprintf(who.run_dir, sizeof who.run_dir, "/jobs/muster-%u.0", job);
    snprintf(who.file_stem, sizeof who.file_stem, "node0-%u-77", who.pid);
    if (muster_segment_create(&bench->file[r], bench->dir, &who, err) != MUSTER_SEGMENT_OK ||
        !bench->file[r].shared)
        return -1;
    fill_tables(bench->file[r].map, 0x100 + job, of_job);
    return 0;
}

/* One all-reduce of each rank; who waits is a different one each time. */
static void call(struct bench *bench, unsigned r, uint64_t number, uint64_t now)
{
    struct muster_segment *segment = bench->file[r].map;
    uint64_t took = 1000000 + (r * 7919 + number * 104729) % 50000;
    segment->ring[number % MUSTER_SEG_RING] = (struct muster_op){.number = number,
                                                                 .enqueue_ns = now,
                                                                 .begin_ns = now + 2000000 - took,
                                                                 .end_ns = now + 2000000,
                                                                 .count = 1 << 20,
                                                                 .comm = 1,
                                                                 .peer = -1,
                                                                 .func = MUSTER_FUNC_ALL_REDUCE,
                                                                 .dtype = 7,
                                                                 .channels = 8,
                                                                 .source = MUSTER_SOURCE_EVENT};
    segment->comm[0].calls = segment->comm[0].retired = number + 1;
    segment->comm[0].called_ns = segment->comm[0].ended_ns = now;
    segment->heartbeat_mono_ns = now;
    segment->heartbeat_unix_ns = muster_unix_ns();
    atomic_store_explicit(&segment->ring_head, number + 1, memory_order_release);
}

static void step(struct bench *bench)
{
    unsigned n = bench->rate * TICK_MS / 1000;
    uint64_t now = muster_now_ns() - (uint64_t)n * 4000000;
    for (unsigned i = 0; i < n; i++, bench->operations++)
        for (unsigned r = 0; r < bench->ranks; r++)
            call(bench, r, bench->operations, now + i * 4000000ull);
}

/* ---- the agent ---- */

static pid_t start_agent(const struct bench *bench)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    setenv("MUSTER_SEGMENT_DIR", bench->dir, 1);
    execl(bench->muster, "muster", "agent", "--own", "--listen", "127.0.0.1:0",
          bench->nats ? "--nats" : (char *)NULL, bench->nats, (char *)NULL);
    perror(bench->muster);
    _exit(127);
}

/* A line of /proc/PID/status, in KiB; -1: it is gone. */
static long held(pid_t pid, const char *what)
{
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, what, strlen(what)) == 0)
            kib = strtol(line + strlen(what), NULL, 10);
    if (file)
        fclose(file);
    return kib;
}

/* Seconds of a processor, of all its threads; -1: it is gone. */
static double spent_s(pid_t pid)
{
    char path[64], line[1024] = "";
    unsigned long user, kernel;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    const char *name_end = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (file)
        fclose(file);
    if (!name_end || sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &kernel) != 2)
        return -1;
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static int watch(struct bench *bench, pid_t pid)
{
    const struct timespec pause = {.tv_nsec = TICK_MS * (long)MUSTER_NS_PER_MS};
    unsigned ticks = bench->seconds * 1000 / TICK_MS, n = 0;
    double sum = 0, spent = 0;
    uint64_t half_ns = 0;
    for (unsigned i = 0; i < ticks; i++) {
        step(bench);
        nanosleep(&pause, NULL);
        if (i < ticks / 2)
            continue;
        if (half_ns == 0) {
            half_ns = muster_now_ns();
            spent = spent_s(pid);
        }
        sum += (double)held(pid, "VmRSS:");
        n++;
    }
    long most = held(pid, "VmHWM:");
    spent = spent_s(pid) - spent;
    if (most < 0)
        return 77;
    printf("%u ranks of %u jobs, %llu operations each: %.1f MB at most, %.1f MB in the mean, of "
           "them %.1f MB of its own; %.2f %% of a processor\n",
           bench->ranks, bench->jobs, (unsigned long long)bench->operations, (double)most / 1024,
           sum / n / 1024, (double)held(pid, "RssAnon:") / 1024,
           spent * 1e11 / (double)(muster_now_ns() - half_ns));
    return bench->most && most > (long)bench->most * 1024;
}

/* ---- all ---- */

static int parse(int argc, char **argv, struct bench *bench)
{
    static const struct option known[] = {{"jobs", 1, NULL, 'j'},    {"ranks", 1, NULL, 'r'},
                                          {"seconds", 1, NULL, 's'}, {"rate", 1, NULL, 'o'},
                                          {"most", 1, NULL, 'm'},    {"nats", 1, NULL, 'n'},
                                          {NULL, 0, NULL, 0}};
    uint64_t number;
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'n') {
            bench->nats = optarg;
            continue;
        }
        if (option == '?' || !muster_text_u64(optarg, &number) || number == 0 || number > 100000)
            return -1;
        *(option == 'j'   ? &bench->jobs
          : option == 'r' ? &bench->ranks
          : option == 's' ? &bench->seconds
          : option == 'o' ? &bench->rate
                          : &bench->most) = (unsigned)number;
    }
    bench->muster = argv[optind];
    return argc - optind == 1 && bench->ranks <= RANKS_MAX && bench->jobs <= bench->ranks &&
                   bench->ranks % bench->jobs == 0
               ? 0
               : -1;
}

/* -1: the ranks cannot be made; else as main. */
static int measure(struct bench *bench, struct muster_err *err)
{
    if (muster_scratch_make(bench->dir, sizeof bench->dir, "/dev/shm", err) != 0)
        return -1;
    for (unsigned r = 0; r < bench->ranks; r++)
        if (make_rank(bench, r, err) != 0)
            return -1;
    pid_t pid = start_agent(bench);
    if (pid < 0)
        return muster_fail(err, "no process for the agent");
    int rc = watch(bench, pid);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    return rc;
}

int main(int argc, char **argv)
{
    static struct bench bench = {.jobs = 16, .ranks = 64, .seconds = 60, .rate = 250};
    struct muster_err err;
    if (parse(argc, argv, &bench)) {
        fputs("usage: agent_memory [--jobs N] [--ranks N] [--seconds N] [--rate N] [--most MB] "
              "[--nats URL] MUSTER\n",
              stderr);
        return 2;
    }
    int rc = measure(&bench, &err);
    if (rc < 0)
        fprintf(stderr, "agent_memory: %s\n", err.text);
    muster_scratch_remove(bench.dir);
    return rc < 0 ? 2 : rc;
}
