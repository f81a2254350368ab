/*
 * What one scrape of `muster agent` costs: reading the segments of all ranks of a host and printing
 * them, median and worst of some rounds. Finding the segments in their directory is not in it.
 *
 * usage: agent_scrape [--ranks N] [--rounds N] [--most MS]
 *
 * Exits with 1 where the median is more than --most.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_metrics.h"
#include "base/clock.h"
#include "base/sort.h"
#include "segment/image.h"

enum { RANKS_MAX = 512, ROUNDS_MAX = 1001, COMMS = 8, ROWS = 48, NETS = 16 };

static char dir[] = "/dev/shm/muster-scrape-XXXXXX";

/* As of a job with tensor, pipeline and data parallelism. */
static void fill(struct muster_segment *segment, unsigned rank, unsigned ranks)
{
    for (unsigned c = 0; c < COMMS; c++) {
        struct muster_seg_comm *comm = &segment->comm[c];
        comm->uid = c + 1;
        comm->id = 0x100 + c + (c ? rank / 8 * 16 : 0);
        comm->nranks = c ? 8 : ranks;
        comm->nnodes = 1;
        comm->calls = comm->called_ns = 1000000 + rank;
        snprintf(comm->gpu_uuid, sizeof comm->gpu_uuid, "GPU-%08x-0000-0000-0000-000000000000",
                 rank);
    }
    for (unsigned r = 0; r < ROWS; r++) {
        struct muster_seg_row *row = &segment->row[MUSTER_FUNCS + r];
        row->comm = r % COMMS + 1;
        row->peer = -1;
        row->func = (uint8_t)(1 + r % 5);
        row->count = 1000 + r;
        row->bytes = 1u << 20;
        row->event_timed = 900;
        row->sum_ns = 1000000000;
        for (unsigned b = 60; b < 120; b++)
            row->hist.n[b] = 15;
    }
    for (unsigned i = 0; i < NETS; i++)
        segment->net[i] = (struct muster_seg_net){
            .comm = 1, .peer = (int32_t)i, .send = i % 2, .count = 10, .bytes = 1000};
    segment->heartbeat_mono_ns = muster_now_ns();
    segment->heartbeat_unix_ns = muster_unix_ns();
}

static void make_rank(struct muster_found *found, unsigned rank, unsigned ranks)
{
    struct muster_seg_identity who = {.pid = 1000 + rank,
                                      .start_ticks = 77,
                                      .rank = (int32_t)rank,
                                      .local_rank = (int32_t)rank,
                                      .world = (int32_t)ranks,
                                      .host = "node0",
                                      .hostname = "node0",
                                      .run_dir = "/jobs/muster-4711.0"};
    char path[128];
    struct muster_segment *segment = aligned_alloc(64, sizeof *segment);
    snprintf(path, sizeof path, "%s/%u.seg", dir, rank);
    memset(segment, 0, sizeof *segment);
    muster_segment_init(segment, &who);
    fill(segment, rank, ranks);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, segment, sizeof *segment) != (ssize_t)sizeof *segment) {
        perror(path);
        exit(2);
    }
    close(fd);
    free(segment);
    *found = (struct muster_found){.path = strdup(path), .alive = true};
}

struct scrape {
    uint64_t cpu_ns;
    size_t series, bytes;
};

static struct scrape scrape(struct muster_agent_sample *sample, const struct muster_found *found,
                            unsigned ranks)
{
    static const struct muster_agent_news news;
    struct scrape one = {0};
    char *text = NULL;
    uint64_t begin = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    FILE *out = open_memstream(&text, &one.bytes);
    if (!out || !muster_agent_sample_take(sample, found, ranks)) {
        fputs("no memory\n", stderr);
        exit(2);
    }
    one.series = muster_agent_metrics(NULL, sample, &news, 0, false, out);
    fclose(out);
    one.cpu_ns = muster_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    free(text);
    return one;
}

static unsigned number(int argc, char **argv, const char *name, unsigned usual, unsigned most)
{
    for (int i = 1; i + 1 < argc; i++) {
        int value = strcmp(argv[i], name) == 0 ? atoi(argv[i + 1]) : 0;
        if (value > 0)
            return (unsigned)value < most ? (unsigned)value : most;
    }
    return usual;
}

int main(int argc, char **argv)
{
    unsigned ranks = number(argc, argv, "--ranks", 64, RANKS_MAX);
    unsigned rounds = number(argc, argv, "--rounds", 21, ROUNDS_MAX);
    unsigned most_ms = number(argc, argv, "--most", UINT32_MAX, UINT32_MAX);
    static struct muster_found found[RANKS_MAX];
    static uint64_t ns[ROUNDS_MAX];
    struct muster_agent_sample sample = {0};
    struct scrape one = {0};
    if (!mkdtemp(dir)) {
        perror(dir);
        return 2;
    }
    for (unsigned r = 0; r < ranks; r++)
        make_rank(&found[r], r, ranks);
    for (unsigned i = 0; i < rounds; i++) {
        one = scrape(&sample, found, ranks);
        ns[i] = one.cpu_ns;
    }
    for (unsigned r = 0; r < ranks; r++) {
        unlink(found[r].path);
        free(found[r].path);
    }
    rmdir(dir);
    muster_agent_sample_free(&sample);
    muster_sort_u64(ns, rounds);
    printf("%u ranks: %zu series (%.1f a rank), %zu bytes; processor time of a scrape: median "
           "%.2f ms, worst of %u %.2f ms\n",
           ranks, one.series, (double)one.series / ranks, one.bytes, (double)ns[rounds / 2] / 1e6,
           rounds, (double)ns[rounds - 1] / 1e6);
    return ns[rounds / 2] > most_ms * MUSTER_NS_PER_MS;
}
