/*
 * What looking for late ranks costs the leader's thread: processor time of one second of its life,
 * with the rings of all ranks of a host going round at a given pace.
 *
 * usage: live_cost [--seconds N]
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "diagnose/live/live_slow.h"
#include "segment/image.h"

enum { RANKS_MAX = 64, STEP = 5, BLOCK = 64, CYCLE = 2176, SKIP_S = 8 };

struct host {
    char dir[64];
    unsigned ranks;
    struct muster_segment *segment[RANKS_MAX];
    int fd[RANKS_MAX];
    struct muster_live_peers peers;
    uint64_t done; /* operations of each rank */
};

static void open_rank(struct host *host, unsigned r)
{
    struct muster_seg_identity who = {.pid = 1000 + r, .rank = (int32_t)r, .host = "node0"};
    struct muster_segment *segment = aligned_alloc(64, sizeof *segment);
    struct muster_live_peer *peer = &host->peers.peer[r];
    memset(segment, 0, sizeof *segment);
    muster_segment_init(segment, &who);
    segment->comm[0].uid = 1;
    segment->comm[0].id = 0xabc;
    segment->comm[0].rank = (int32_t)r;
    segment->comm[0].nranks = host->ranks;
    segment->comm[0].nnodes = 1;
    segment->comm[0].gpu_index = (int32_t)r;
    snprintf(peer->path, sizeof peer->path, "%s/%u.seg", host->dir, r);
    peer->alive = true;
    host->segment[r] = segment;
    host->fd[r] = open(peer->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (host->fd[r] < 0 || write(host->fd[r], segment, sizeof *segment) != sizeof *segment) {
        perror(peer->path);
        exit(2);
    }
}

static void close_host(struct host *host)
{
    for (unsigned r = 0; r < host->ranks; r++) {
        close(host->fd[r]);
        unlink(host->peers.peer[r].path);
        free(host->segment[r]);
    }
    rmdir(host->dir);
    free(host->peers.peer);
}

static void put(int fd, const struct muster_segment *segment, size_t offset, size_t bytes)
{
    const char *from = (const char *)segment + offset;
    if (pwrite(fd, from, bytes, (off_t)offset) != (ssize_t)bytes)
        exit(2);
}

/* All ranks go on by n operations; what the ring cannot hold is overwritten, as in a job. */
static void go_on(struct host *host, uint64_t n, bool full)
{
    uint64_t from = n > MUSTER_SEG_RING ? host->done + n - MUSTER_SEG_RING : host->done;
    for (unsigned r = 0; r < host->ranks; r++) {
        struct muster_segment *segment = host->segment[r];
        for (uint64_t i = from; i < host->done + n; i++) {
            uint64_t end_us = 1000000 + i * 100;
            bool timed = full || i % CYCLE < BLOCK;
            segment->ring[i % MUSTER_SEG_RING] = (struct muster_op){
                .number = i,
                .enqueue_ns = end_us * 1000,
                .begin_ns = timed ? (end_us - 40 - (i * 7 + r * 3) % 5) * 1000 : 0,
                .end_ns = timed ? end_us * 1000 : 0,
                .count = 1ull << (10 + i % STEP),
                .comm = 1,
                .peer = -1,
                .func = MUSTER_FUNC_ALL_REDUCE,
                .dtype = MUSTER_DTYPE_FLOAT32,
                .source = timed ? MUSTER_SOURCE_GPU : MUSTER_SOURCE_NONE};
        }
        segment->ring_head = host->done + n;
        put(host->fd[r], segment, offsetof(struct muster_segment, ring), sizeof segment->ring);
        put(host->fd[r], segment, offsetof(struct muster_segment, ring_head),
            sizeof segment->ring_head);
    }
    host->done += n;
}

static uint64_t cpu_ns(void)
{
    return muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* The leader's second: takes at its pace, then one evaluation, as often as it allows itself. */
static double measure(unsigned ranks, uint64_t per_s, bool full, unsigned seconds)
{
    struct host host = {.dir = "/dev/shm/muster-live-cost-XXXXXX", .ranks = ranks};
    struct muster_live_run *run = muster_live_run_new();
    struct muster_live_slow slow = {0};
    uint64_t take = 0, evaluate = 0, takes = 0, evaluated = 0;
    if (!mkdtemp(host.dir) || !run)
        exit(2);
    host.peers.peer = calloc(ranks, sizeof *host.peers.peer);
    host.peers.n = ranks;
    for (unsigned r = 0; r < ranks; r++)
        open_rank(&host, r);
    uint64_t allowed_ms = 0, pause_ms = per_s ? MUSTER_SEG_RING * 2000 / 3 / per_s : 1000;
    pause_ms = pause_ms < 100 ? 100 : pause_ms > 1000 ? 1000 : pause_ms;
    for (unsigned s = 0; s < SKIP_S + seconds; s++) {
        for (uint64_t ms = 0, pause; ms < 1000; ms += pause) {
            pause = allowed_ms > pause_ms ? allowed_ms : pause_ms;
            go_on(&host, per_s * pause / 1000, full);
            uint64_t began = cpu_ns();
            /* Rings go round in no time here: what it answers is what its cost allows. */
            allowed_ms = muster_live_run_take(run, &host.peers) / MUSTER_NS_PER_MS;
            take += s < SKIP_S ? 0 : cpu_ns() - began;
            takes += s >= SKIP_S;
        }
        uint64_t now = (s + 1) * MUSTER_NS_PER_S, began = cpu_ns();
        struct muster_findings findings = {0};
        if (muster_live_slow_due(&slow, run, now, false)) {
            muster_live_slow_evaluate(&slow, run, &host.peers, now, &findings, NULL, NULL);
            evaluate += s < SKIP_S ? 0 : cpu_ns() - began;
            evaluated += s >= SKIP_S;
        }
        muster_findings_free(&findings);
    }
    double share = (double)(take + evaluate) / 1e7 / seconds;
    printf("| %u | %llu | %s | %.0f | %.2f | %u | %.3f |\n", ranks, (unsigned long long)per_s,
           full ? "full" : "auto", (double)take / (double)takes / 1e3,
           evaluated ? (double)evaluate / (double)evaluated / 1e6 : 0.0,
           (unsigned)(evaluated * 100 / seconds), share);
    fflush(stdout);
    muster_live_run_free(run);
    close_host(&host);
    return share;
}

int main(int argc, char **argv)
{
    static const unsigned ranks[] = {2, 4, 8, 16, 64};
    static const uint64_t per_s[] = {200, 2000, 10000, 100000};
    unsigned seconds = 20;
    double most = 0;
    if (argc == 3 && strcmp(argv[1], "--seconds") == 0)
        seconds = (unsigned)strtoul(argv[2], NULL, 10);
    if ((argc != 1 && argc != 3) || seconds == 0) {
        fprintf(stderr, "usage: live_cost [--seconds N]\n");
        return 2;
    }
    printf("| ranks | operations/s | timing | us a take | ms a judgement | judged, %% of seconds | "
           "%% of a processor |\n|---|---|---|---|---|---|---|\n");
    for (unsigned f = 0; f < 2; f++)
        for (unsigned r = 0; r < sizeof ranks / sizeof *ranks; r++)
            for (unsigned p = 0; p < sizeof per_s / sizeof *per_s; p++)
                most = fmax(most, measure(ranks[r], per_s[p], f == 1, seconds));
    printf("at most %.2f %% of a processor, of a host with up to %u ranks\n", most, RANKS_MAX);
    return 0;
}
