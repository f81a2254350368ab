/*
 * What the diagnosis threads of all processes of a host cost together: one leader's look each
 * second, and a follower's for every other process, while all ranks make calls and one communicator
 * stands still.
 *
 * usage: scan_cost [--seconds N]
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "diagnose/live/live.h"
#include "segment/reap.h"
#include "segment/segment_file.h"

enum { RANKS_MAX = 128, COMMS = 3, OPS_A_SECOND = 200 };

struct testbed {
    char shm[64];
    unsigned ranks;
    pid_t pid[RANKS_MAX];
    struct muster_segment *segment[RANKS_MAX];
    uint64_t calls;
};

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static void create(const struct testbed *bed, unsigned rank, struct muster_segment_file *file)
{
    struct muster_seg_identity who = {.boot_hash = 7,
                                      .begin_mono_ns = muster_now_ns(),
                                      .begin_unix_ns = muster_unix_ns(),
                                      .start_ticks = muster_process_start_ticks(0),
                                      .pid = (uint32_t)getpid(),
                                      .uid = geteuid(),
                                      .rank = (int32_t)rank,
                                      .local_rank = (int32_t)rank,
                                      .world = (int32_t)bed->ranks,
                                      .host = "node0"};
    struct muster_err err;
    snprintf(who.run_dir, sizeof who.run_dir, "%s", bed->shm);
    snprintf(who.file_stem, sizeof who.file_stem, "node0-%u", rank);
    if (muster_segment_create(file, bed->shm, &who, &err) != MUSTER_SEGMENT_OK || !file->shared)
        fail("segment");
    for (unsigned c = 0; c < COMMS; c++) {
        struct muster_seg_comm *comm = &file->map->comm[c];
        comm->uid = c + 1;
        comm->id = 0xabc + c;
        comm->rank = (int32_t)rank;
        comm->nranks = bed->ranks;
        comm->nnodes = 1;
        comm->gpu_index = (int32_t)rank;
        comm->begin_ns = muster_now_ns();
    }
}

static pid_t start_rank(const struct testbed *bed, unsigned rank, int ready)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct muster_segment_file file = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    create(bed, rank, &file);
    if (write(ready, "", 1) != 1)
        _exit(2);
    for (;;)
        pause();
}

static void map_all(struct testbed *bed)
{
    struct muster_found *found;
    size_t n = muster_find_segments(bed->shm, &found);
    for (size_t i = 0; i < n; i++) {
        int fd = open(found[i].path, O_RDWR | O_CLOEXEC);
        struct muster_segment *map =
            mmap(NULL, sizeof *map, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            fail(found[i].path);
        close(fd);
        bed->segment[map->identity.rank] = map;
    }
    muster_found_free(found, n);
}

/* A second of the job: calls in all communicators but the last, timed operations in the first. */
static void go_on(struct testbed *bed, uint64_t now_ns)
{
    for (unsigned r = 0; r < bed->ranks; r++) {
        struct muster_segment *segment = bed->segment[r];
        if (!segment)
            fail("a rank is missing");
        segment->heartbeat_mono_ns = muster_now_ns() + 1000 * MUSTER_NS_PER_S;
        for (unsigned c = 0; c + 1 < COMMS; c++) {
            segment->comm[c].calls = bed->calls + OPS_A_SECOND;
            segment->comm[c].called_ns = now_ns;
        }
        for (uint64_t i = bed->calls; i < bed->calls + OPS_A_SECOND; i++) {
            uint64_t end_us = 1000000 + i * 5000;
            segment->ring[i % MUSTER_SEG_RING] = (struct muster_op){
                .number = i,
                .enqueue_ns = end_us * 1000,
                .begin_ns = (end_us - 40 - (i * 7 + r * 3) % 5) * 1000,
                .end_ns = end_us * 1000,
                .count = 1ull << (10 + i % 5),
                .comm = 1,
                .peer = -1,
                .func = MUSTER_FUNC_ALL_REDUCE,
                .dtype = MUSTER_DTYPE_FLOAT32,
                .source = MUSTER_SOURCE_GPU};
        }
        segment->ring_head = bed->calls + OPS_A_SECOND;
    }
    bed->calls += OPS_A_SECOND;
}

/* In percent of a processor. */
static double look(struct testbed *bed, const struct muster_segment_file *file, unsigned seconds)
{
    static const _Atomic bool open = false;
    static struct muster_settings settings;
    struct muster_err err;
    enum { SKIP_S = 12 };
    uint64_t cost = 0, now_ns = muster_now_ns();
    if (muster_settings_parse(&settings, "none", "muster: 1\n", 10, &err) != 0)
        fail("settings");
    snprintf(settings.segment_dir, sizeof settings.segment_dir, "%s", bed->shm);
    settings.hang_seconds = 10;
    struct muster_live_options options = {file, &settings, &open};
    struct muster_live *live = muster_live_new(&options);
    for (unsigned s = 0; live && s < SKIP_S + seconds; s++) {
        go_on(bed, now_ns);
        now_ns += MUSTER_NS_PER_S;
        uint64_t began = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        muster_live_scan(live, now_ns);
        cost += s < SKIP_S ? 0 : muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
    }
    muster_live_free(live);
    return (double)cost / 1e7 / seconds;
}

/* The process that looks, told to begin by a byte from `go`; it answers with its share. */
static pid_t start_looking(struct testbed *bed, unsigned rank, const int ready[2], const int go[2],
                           unsigned seconds)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    struct muster_segment_file file = {0};
    char byte;
    create(bed, rank, &file);
    if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
        _exit(2);
    map_all(bed);
    double share = look(bed, &file, seconds);
    _exit(write(ready[1], &share, sizeof share) != sizeof share);
}

static void end(const struct testbed *bed)
{
    char command[128];
    for (unsigned r = 0; r < bed->ranks; r++) {
        kill(bed->pid[r], SIGKILL);
        waitpid(bed->pid[r], NULL, 0);
    }
    snprintf(command, sizeof command, "rm -rf %s", bed->shm);
    if (system(command) != 0)
        fail(bed->shm);
}

/* Of one process among `ranks`, who leads if it is the first. */
static double measure(unsigned ranks, bool leads, unsigned seconds)
{
    struct testbed bed = {.shm = "/dev/shm/muster-scan-cost-XXXXXX", .ranks = ranks};
    unsigned looks = leads ? 0 : ranks - 1;
    int ready[2], go[2];
    char byte;
    double share;
    if (!mkdtemp(bed.shm) || pipe(ready) != 0 || pipe(go) != 0)
        fail("testbed");
    for (unsigned r = 0; r < ranks; r++) {
        bed.pid[r] = r == looks ? start_looking(&bed, r, ready, go, seconds)
                                : start_rank(&bed, r, ready[1]);
        if (bed.pid[r] < 0 || read(ready[0], &byte, 1) != 1)
            fail("rank");
    }
    if (write(go[1], "", 1) != 1 || read(ready[0], &share, sizeof share) != sizeof share)
        fail("look");
    end(&bed);
    int fds[] = {ready[0], ready[1], go[0], go[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
    return share;
}

int main(int argc, char **argv)
{
    static const unsigned ranks[] = {2, 8, 64, RANKS_MAX};
    unsigned seconds = 30;
    if (argc == 3 && strcmp(argv[1], "--seconds") == 0)
        seconds = (unsigned)strtoul(argv[2], NULL, 10);
    if ((argc != 1 && argc != 3) || seconds == 0) {
        fprintf(stderr, "usage: scan_cost [--seconds N]\n");
        return 2;
    }
    printf("| ranks of the host | %% of a processor: the leader | each other | all |\n"
           "|---|---|---|---|\n");
    for (unsigned i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        double leader = measure(ranks[i], true, seconds), other = measure(ranks[i], false, seconds);
        printf("| %u | %.3f | %.4f | %.2f |\n", ranks[i], leader, other,
               leader + (ranks[i] - 1) * other);
        fflush(stdout);
    }
    return 0;
}
