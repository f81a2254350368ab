/*
 * What the diagnosis threads of all processes of a host cost together: one leader's look each
 * second, and a follower's for every other process, while all ranks make calls and one communicator
 * stands still.
 *
 * usage: scan_cost [--seconds N]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "diagnose/live/live.h"
#include "held_ranks.h"

enum { COMMS = 3, OPS_A_SECOND = 200 };

struct testbed {
    struct held_ranks held;
    uint64_t calls;
};

/* A second of the job: calls in all communicators but the last, timed operations in the first. */
static void go_on(struct testbed *bed, uint64_t now_ns)
{
    for (unsigned r = 0; r < bed->held.ranks; r++) {
        struct muster_segment *segment = bed->held.segment[r];
        if (!segment)
            held_fail("a rank is missing");
        segment->heartbeat_mono_ns = muster_now_ns() + 1000 * MUSTER_NS_PER_S;
        for (unsigned c = 0; c + 1 < COMMS; c++) {
            segment->comm[c].calls = bed->calls + OPS_A_SECOND;
            segment->comm[c].called_ns = now_ns;
        }
        for (uint64_t i = bed->calls; i < bed->calls + OPS_A_SECOND; i++)
            segment->ring[i % MUSTER_SEG_RING] = held_op(i, r);
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
        held_fail("settings");
    snprintf(settings.segment_dir, sizeof settings.segment_dir, "%s", bed->held.shm);
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
    held_create(&bed->held, rank, &file);
    if (write(ready[1], "", 1) != 1 || read(go[0], &byte, 1) != 1)
        _exit(2);
    held_map_all(&bed->held);
    double share = look(bed, &file, seconds);
    _exit(write(ready[1], &share, sizeof share) != sizeof share);
}

/* Of one process among `ranks`, who leads if it is the first. */
static double measure(unsigned ranks, bool leads, unsigned seconds)
{
    struct testbed bed = {
        .held = {.shm = "/dev/shm/muster-scan-cost-XXXXXX", .ranks = ranks, .comms = COMMS}};
    unsigned looks = leads ? 0 : ranks - 1;
    int ready[2], go[2];
    char byte;
    double share;
    if (!mkdtemp(bed.held.shm) || pipe(ready) != 0 || pipe(go) != 0)
        held_fail("testbed");
    for (unsigned r = 0; r < ranks; r++) {
        bed.held.pid[r] = r == looks ? start_looking(&bed, r, ready, go, seconds)
                                     : held_start(&bed.held, r, ready[1]);
        if (bed.held.pid[r] < 0 || read(ready[0], &byte, 1) != 1)
            held_fail("rank");
    }
    if (write(go[1], "", 1) != 1 || read(ready[0], &share, sizeof share) != sizeof share)
        held_fail("look");
    held_end(&bed.held);
    int fds[] = {ready[0], ready[1], go[0], go[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
    return share;
}

int main(int argc, char **argv)
{
    static const unsigned ranks[] = {2, 8, 64, HELD_RANKS_MAX};
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
