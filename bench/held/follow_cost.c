/*
 * What `muster diagnose --follow` takes while a job goes on: processor time of a look and memory,
 * after 1, 2, 5 and 10 minutes of simulated operations of which every one is timed.
 *
 * usage: follow_cost [--ranks N] [--minutes N]
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "diagnose/diagnose.h"
#include "held_ranks.h"

enum { OPS_A_SECOND = 200, LOOKS = 3 };

struct testbed {
    struct held_ranks held;
    uint64_t done; /* operations of each rank */
};

/* All ranks go on by a second's operations. */
static void go_on(struct testbed *bed)
{
    for (unsigned r = 0; r < bed->held.ranks; r++) {
        struct muster_segment *segment = bed->held.segment[r];
        for (uint64_t i = bed->done; i < bed->done + OPS_A_SECOND; i++)
            segment->ring[i % MUSTER_SEG_RING] = held_op(i, r);
        atomic_store_explicit(&segment->ring_head, bed->done + OPS_A_SECOND, memory_order_release);
        atomic_store_explicit(&segment->heartbeat_unix_ns, muster_unix_ns(), memory_order_relaxed);
    }
    bed->done += OPS_A_SECOND;
}

static double resident_mib(void)
{
    unsigned long total, resident = 0;
    FILE *in = fopen("/proc/self/statm", "r");
    if (!in || fscanf(in, "%lu %lu", &total, &resident) != 2)
        held_fail("/proc/self/statm");
    fclose(in);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void refresh(const struct testbed *bed, struct muster_run *run)
{
    const char *names[] = {bed->held.shm};
    const struct muster_run_query query = {
        .run = names, .runs = 1, .segment_dir = bed->held.shm, .streamed = true};
    struct muster_err err;
    if (muster_run_refresh(&query, run, &err) != 0) {
        fprintf(stderr, "follow_cost: %s\n", err.text);
        exit(2);
    }
}

/* As cli/diagnose/diagnose_look.c looks. *most_mib: while it does. */
static void look(const struct testbed *bed, struct muster_run *run, double *most_mib)
{
    struct muster_view view;
    struct muster_findings findings = {0};
    struct muster_err err;
    refresh(bed, run);
    if (muster_view_of_run(run, &view, &err) != 0 ||
        muster_diagnose_view(&view, 10 * MUSTER_NS_PER_S, &findings, &err) != 0) {
        fprintf(stderr, "follow_cost: %s\n", err.text);
        exit(2);
    }
    double now = resident_mib();
    *most_mib = now > *most_mib ? now : *most_mib;
    muster_findings_free(&findings);
    muster_view_free(&view);
}

static void print_looks(struct testbed *bed, struct muster_run *run, unsigned second)
{
    double most_mib = 0;
    uint64_t began = muster_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned i = 0; i < LOOKS; i++) {
        go_on(bed);
        look(bed, run, &most_mib);
    }
    double ms = (double)(muster_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - began) / 1e6 / LOOKS;
    malloc_trim(0);
    printf("| %u | %.1f | %.1f | %.1f |\n", second / 60, ms, resident_mib(), most_mib);
    fflush(stdout);
}

static void measure(struct testbed *bed, unsigned minutes)
{
    struct muster_run run = {0};
    for (unsigned second = 1; second <= 60 * minutes; second++) {
        go_on(bed);
        refresh(bed, &run);
        if (second == 60 || second == 120 || second == 300 || second == 60 * minutes)
            print_looks(bed, &run, second);
    }
    muster_run_free(&run);
}

static void start(struct testbed *bed)
{
    int ready[2];
    char byte;
    if (!mkdtemp(bed->held.shm) || pipe(ready) != 0)
        held_fail(bed->held.shm);
    for (unsigned r = 0; r < bed->held.ranks; r++) {
        bed->held.pid[r] = held_start(&bed->held, r, ready[1]);
        if (bed->held.pid[r] < 0 || read(ready[0], &byte, 1) != 1)
            held_fail("rank");
    }
    held_map_all(&bed->held);
}

int main(int argc, char **argv)
{
    struct testbed bed = {
        .held = {
            .shm = "/dev/shm/muster-follow-cost-XXXXXX", .ranks = 8, .comms = 1, .here = true}};
    unsigned minutes = 10;
    for (int i = 1; i + 1 < argc; i += 2) {
        unsigned value = (unsigned)strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--ranks") == 0)
            bed.held.ranks = value;
        else if (strcmp(argv[i], "--minutes") == 0)
            minutes = value;
    }
    if (argc % 2 == 0 || bed.held.ranks < 2 || bed.held.ranks > HELD_RANKS_MAX || minutes == 0) {
        fprintf(stderr, "usage: follow_cost [--ranks N] [--minutes N]\n");
        return 2;
    }
    start(&bed);
    printf("| minutes | ms a look | MiB between looks | MiB in a look |\n|---|---|---|---|\n");
    measure(&bed, minutes);
    held_end(&bed.held);
    return 0;
}
