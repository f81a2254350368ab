/*
 * soak: a day of a job in minutes. Communicators are made and ended, collectives, sends and
 * captured graphs called, children forked, the log wraps; counters start a little below 2^32, so
 * that they cross it. Memory, descriptors and threads are looked at all the time, and at the end
 * the segment must have counted exactly what was called.
 */
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "bench_collective.h"
#include "launch/scratch.h"
#include "own_use.h"
#include "record/comm.h"
#include "segment/layout.h"

static const char usage[] =
    "usage: soak [--seconds N] [--ops N] PLUGIN.so\n"
    "--seconds N  for at most so long (default 300)\n"
    "--ops N      or until so many operations were called (default 1000000000, a day of 11,574 a "
    "second)\n"
    "Leaves with 1 where a counter is not exact, or memory, descriptors or threads grow.\n";

enum {
    LANES = 16,
    LIFE = 5120,         /* operations of a communicator; lane 0's lives to the end */
    REPLAYS = 8,         /* of a graph that a communicator captures at its begin */
    FORK_EVERY = 500000, /* operations */
    BURST = 1280,        /* called at once: a third of the slots */
    DRAIN_MS = 10000,    /* patience with the plugin's thread */
    LOOKS = 20,
    WARM = 7, /* of them: by then muster-diag has filled most of what is told below */
    /* Of anonymous memory. What muster-diag may fill: its window of 4,096
     * operations (256 KiB, half as much again while it is enlarged), tables of 256 communicators
     * that are gone (150 KiB), and pages of its copy of the segment (256 KiB seen to come and go).
     * A leak of 50 bytes a communicator is more in four minutes, of one an operation far more. */
    GROWTH_KIB = 1024,
    DAY_RATE = 11574,
};
/* Lane 0's calls and the largest row begin so far below 2^32. */
#define SHORT_OF_2_32 ((1ull << 32) - 300000)

struct state {
    long anonymous_kib;
    int descriptors, threads;
};

struct soak {
    const char *plugin;
    uint64_t seconds, ops;
    char run_dir[PATH_MAX], segment_dir[PATH_MAX];
    struct muster_driver driver;
    int mask;
    struct bench_lane lane[LANES];
    struct muster_segment *segment; /* the plugin's own memory */
    uint64_t called, lane0, moved, captured, made, forks;
};

static struct state look(void)
{
    return (struct state){own_anonymous_kib(), own_entries("/proc/self/fd"),
                          own_entries("/proc/self/task")};
}

/* ---- The segment ---- */

static int map_segment(struct soak *soak, struct muster_err *err)
{
    char pattern[PATH_MAX + 8];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*.seg", soak->segment_dir);
    if (glob(pattern, 0, NULL, &found) != 0)
        return muster_fail(err, "no segment in %s", soak->segment_dir);
    int fd = open(found.gl_pathv[0], O_RDWR | O_CLOEXEC);
    globfree(&found);
    void *at = fd < 0
                   ? MAP_FAILED
                   : mmap(NULL, sizeof *soak->segment, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return muster_fail(err, "the segment cannot be mapped");
    soak->segment = at;
    return 0;
}

static bool is_empty(struct muster_segment *segment)
{
    for (unsigned i = 0; i < MUSTER_SEG_SLOTS; i++)
        if (atomic_load_explicit(&segment->slot_state[i], memory_order_acquire) & 0xff)
            return false;
    return true;
}

/* Until everything that was called is in the totals. */
static int drain(const struct soak *soak, struct muster_err *err)
{
    const uint64_t until = muster_now_ns() + DRAIN_MS * MUSTER_NS_PER_MS;
    while (!is_empty(soak->segment)) {
        if (muster_now_ns() > until)
            return muster_fail(err, "operations are still in flight after %d s", DRAIN_MS / 1000);
        usleep(200);
    }
    return 0;
}

/* Of the first communicator, which lives to the end. */
static struct muster_seg_row *largest_row(struct muster_segment *segment)
{
    struct muster_seg_row *best = NULL;
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        if (segment->row[i].comm == segment->comm[0].uid &&
            (!best || segment->row[i].count > best->count))
            best = &segment->row[i];
    return best;
}

static uint64_t counted(const struct muster_segment *segment)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < MUSTER_SEG_ROWS; i++)
        sum += segment->row[i].comm ? segment->row[i].count : 0;
    return sum;
}

/* While nothing is in flight, so that nobody writes. */
static int move_counters(struct soak *soak, struct muster_err *err)
{
    struct muster_seg_row *row = soak->segment ? largest_row(soak->segment) : NULL;
    if (!row)
        return muster_fail(err, "the segment has no totals of the first communicator");
    soak->moved = SHORT_OF_2_32 - row->count;
    row->count += soak->moved;
    atomic_fetch_add(&soak->segment->comm[0].calls, SHORT_OF_2_32);
    atomic_fetch_add(&soak->segment->ring_head, SHORT_OF_2_32 / MUSTER_SEG_RING * MUSTER_SEG_RING);
    return 0;
}

static uint64_t dropped(const struct muster_segment *segment)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < MUSTER_DROPS; i++)
        sum += atomic_load(&segment->drops[i]);
    return sum;
}

/* What found no slot is counted as dropped: nothing is lost without a word. */
static int check(const struct soak *soak, struct muster_err *err)
{
    uint64_t ops = counted(soak->segment) - soak->moved, drops = dropped(soak->segment);
    uint64_t calls = atomic_load(&soak->segment->comm[0].calls) - SHORT_OF_2_32;
    if (ops + drops != soak->called)
        return muster_fail(err, "%llu operations are counted, %llu dropped, %llu were called",
                           (unsigned long long)ops, (unsigned long long)drops,
                           (unsigned long long)soak->called);
    if (calls != soak->lane0)
        return muster_fail(err, "the first communicator has %llu calls, %llu were made",
                           (unsigned long long)calls, (unsigned long long)soak->lane0);
    return 0;
}

/* ---- The job ---- */

/* A graph of one all-reduce, captured and replayed: NCCL shows the call once, the kernel each time.
 */
static void run_graph(struct soak *soak, struct bench_lane *lane)
{
    void *group = NULL, *call = NULL, *replay = NULL;
    lane->group_api.v7.group_api.graph = true;
    lane->coll_api.v7.coll_api.v5.graph = true;
    lane->table->start(lane->context, &group, &lane->group_api);
    lane->table->start(lane->context, &call, &lane->coll_api);
    lane->table->stop(call);
    lane->table->stop(group);
    lane->group_api.v7.group_api.graph = false;
    lane->coll_api.v7.coll_api.v5.graph = false;
    lane->coll.v7.parent = call;
    for (unsigned i = 0; i < REPLAYS; i++) {
        lane->table->start(lane->context, &replay, &lane->coll);
        lane->table->stop(replay);
    }
    soak->called += REPLAYS;
    soak->captured++;
}

static int renew(struct soak *soak, unsigned at, struct muster_err *err)
{
    if (soak->lane[at].context)
        muster_driver_fini(&soak->driver, soak->lane[at].context);
    if (bench_lane_init(&soak->lane[at], &soak->driver, 0x736f616b + soak->made++, &soak->mask,
                        err))
        return -1;
    run_graph(soak, &soak->lane[at]);
    return 0;
}

/* As a data loader does: the child is not the parent, and what it calls is nobody's. */
static void fork_once(struct soak *soak)
{
    pid_t pid = fork();
    if (pid == 0) {
        bench_lane_collective(&soak->lane[0], false);
        _exit(0);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
    soak->forks++;
}

static int burst(struct soak *soak, struct muster_err *err)
{
    for (unsigned i = 0; i < BURST; i++, soak->called++) {
        unsigned at = (unsigned)(soak->called % LANES);
        soak->lane0 += at == 0;
        bench_lane_collective(&soak->lane[at], false);
    }
    uint64_t bursts = soak->called / BURST;
    if (bursts % (LIFE / BURST) == 0 && renew(soak, 1 + (unsigned)(soak->made % (LANES - 1)), err))
        return -1;
    if (bursts % (FORK_EVERY / BURST) == 0)
        fork_once(soak);
    return drain(soak, err);
}

static void show(const struct soak *soak, const struct state *now, double seconds)
{
    printf("%12llu %8.2f %8.0f %10llu %8llu %10ld %6d %6d\n", (unsigned long long)soak->called,
           (double)soak->called / DAY_RATE / 3600, seconds, (unsigned long long)soak->made,
           (unsigned long long)soak->forks, now->anonymous_kib, now->descriptors, now->threads);
    fflush(stdout);
}

static int compare(const struct state *then, const struct state *now, struct muster_err *err)
{
    if (now->anonymous_kib > then->anonymous_kib + GROWTH_KIB)
        return muster_fail(err, "memory grew from %ld to %ld KiB", then->anonymous_kib,
                           now->anonymous_kib);
    if (now->descriptors > then->descriptors || now->threads > then->threads)
        return muster_fail(err, "descriptors grew from %d to %d, threads from %d to %d",
                           then->descriptors, now->descriptors, then->threads, now->threads);
    return 0;
}

static int begin(struct soak *soak, struct muster_err *err)
{
    setenv("MUSTER_DIR", soak->run_dir, 1);
    setenv("MUSTER_SEGMENT_DIR", soak->segment_dir, 1);
    setenv("MUSTER_TIMING", "light", 1);
    if (!getenv("MUSTER_LOG_MAX"))
        setenv("MUSTER_LOG_MAX", "16MiB", 1); /* wraps every half a million operations */
    if (muster_driver_open(&soak->driver, soak->plugin, 0, 0, err))
        return -1;
    if (soak->driver.api < 5)
        return muster_fail(err, "%s: its newest interface is v%u; v5 or newer is needed",
                           soak->plugin, soak->driver.api);
    for (unsigned i = 0; i < LANES; i++)
        if (renew(soak, i, err))
            return -1;
    if (map_segment(soak, err))
        return -1;
    /* Until places of ended communicators are taken again: before that each one is new memory. */
    while (soak->made <= MUSTER_COMMS + LANES)
        if (renew(soak, 1 + (unsigned)(soak->made % (LANES - 1)), err) || drain(soak, err))
            return -1;
    return 0;
}

static int run(struct soak *soak, struct muster_err *err)
{
    if (begin(soak, err) || burst(soak, err) || move_counters(soak, err))
        return -1;
    const uint64_t start = muster_now_ns(), length = soak->seconds * MUSTER_NS_PER_S;
    struct state warm = {0}, now;
    printf("%12s %8s %8s %10s %8s %10s %6s %6s\n", "operations", "hours", "seconds", "comms",
           "forks", "KiB", "fds", "tasks");
    for (uint64_t shown = 0, passed = 0; passed < length && soak->called < soak->ops;) {
        if (burst(soak, err))
            return -1;
        passed = muster_now_ns() - start;
        if (passed < (shown + 1) * length / LOOKS)
            continue;
        shown = passed * LOOKS / length;
        now = look();
        show(soak, &now, (double)passed / 1e9);
        if (!warm.threads && (shown >= WARM || soak->called / WARM >= soak->ops / LOOKS))
            warm = now;
        if (check(soak, err) || (warm.threads && compare(&warm, &now, err)))
            return -1;
    }
    if (check(soak, err))
        return -1;
    printf("exact: %llu operations, %llu of them dropped for want of a slot; the first "
           "communicator's %llu calls\n"
           "row and calls are at 2^32 %+lld and %+lld; %llu log entries lost, %llu overwritten\n",
           (unsigned long long)soak->called, (unsigned long long)dropped(soak->segment),
           (unsigned long long)soak->lane0,
           (long long)(largest_row(soak->segment)->count - (1ull << 32)),
           (long long)(atomic_load(&soak->segment->comm[0].calls) - (1ull << 32)),
           (unsigned long long)atomic_load(&soak->segment->lost_log),
           (unsigned long long)atomic_load(&soak->segment->log_overwritten));
    return 0;
}

static int parse(int argc, char **argv, struct soak *soak)
{
    static const struct option known[] = {
        {"seconds", 1, NULL, 's'}, {"ops", 1, NULL, 'o'}, {NULL, 0, NULL, 0}};
    uint64_t number;
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?' || !muster_text_u64(optarg, &number) || number == 0)
            return -1;
        *(option == 's' ? &soak->seconds : &soak->ops) = number;
    }
    if (argc - optind != 1)
        return -1;
    soak->plugin = argv[optind];
    return 0;
}

/* In a process of its own, so that the directories go after the plugin's exit handlers ran. */
static int run_apart(struct soak *soak)
{
    struct muster_err err;
    int status = 1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int failed = run(soak, &err);
        if (failed)
            fprintf(stderr, "soak: %s\n", err.text);
        exit(failed ? 1 : 0);
    }
    if (pid > 0)
        waitpid(pid, &status, 0);
    return status ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct soak soak = {.seconds = 300, .ops = 1000000000};
    struct muster_err err;
    if (parse(argc, argv, &soak)) {
        fputs(usage, stderr);
        return 2;
    }
    if (muster_scratch_make(soak.run_dir, sizeof soak.run_dir, "/tmp", &err) ||
        muster_scratch_make(soak.segment_dir, sizeof soak.segment_dir, "/dev/shm", &err)) {
        fprintf(stderr, "soak: %s\n", err.text);
        return 1;
    }
    int status = run_apart(&soak);
    muster_scratch_remove(soak.run_dir);
    muster_scratch_remove(soak.segment_dir);
    return status;
}
