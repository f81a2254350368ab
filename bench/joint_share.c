/*
 * joint_share: which share of a communicator's operations `auto` times, and which share all its
 * ranks time, so that they can be compared: by the rate of calls, and by the level of one rank.
 * Ranks choose their levels alone: here each also calls other communicators, up to `spread` times
 * as often as the common one, so that their levels differ.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "record/launch_price.h"
#include "record/sampling.h"

static const char usage[] = "usage: joint_share [--seconds N]\n"
                            "--seconds N  that each job runs (default 120)\n";

enum { RANKS = 64, JOBS = 8, CPUS = 16, SPREAD = 8, BYTES = 1 << 20 };

struct rank {
    struct muster_meter meter;
    struct muster_sampling common, own;
    double own_rate; /* operations of its own for each common one */
    double own_calls;
    bool timed; /* the common communicator's window */
};

struct job {
    struct rank rank[RANKS];
    uint32_t random;
};

struct share {
    uint64_t windows, timed, jointly; /* of a communicator; timed: by its first rank */
    uint64_t pairs;                   /* timed by its first two ranks */
};

static double draw(struct job *job)
{
    job->random = job->random * 1664525u + 1013904223u;
    return (double)(job->random >> 8) / (1 << 24);
}

static void turn(struct muster_sampling *level, struct muster_meter *meter, uint64_t now_ns)
{
    level->price_ns += MUSTER_SAMPLING_WINDOW * muster_price_ns(BYTES, CPUS);
    muster_sampling_next(level, meter, now_ns);
}

/* One window of the common communicator, and what each rank does beside it. */
static void run_window(struct job *job, unsigned ranks, uint64_t id, uint64_t window,
                       uint64_t now_ns)
{
    for (unsigned r = 0; r < ranks; r++) {
        struct rank *rank = &job->rank[r];
        turn(&rank->common, &rank->meter, now_ns);
        for (rank->own_calls += rank->own_rate; rank->own_calls >= 1; rank->own_calls--)
            turn(&rank->own, &rank->meter, now_ns);
        rank->timed = muster_sampling_takes(id, window, rank->common.level);
    }
}

static void count(const struct job *job, unsigned ranks, struct share *share)
{
    unsigned timed = 0;
    for (unsigned r = 0; r < ranks; r++)
        timed += job->rank[r].timed;
    share->windows++;
    share->timed += job->rank[0].timed;
    share->pairs += job->rank[0].timed && job->rank[1].timed;
    share->jointly += timed == ranks;
}

/* rate: of the common communicator's operations, a second. */
static struct share run_jobs(unsigned ranks, uint64_t rate, uint64_t seconds)
{
    static struct job job;
    struct share share = {0};
    for (uint32_t seed = 1; seed <= JOBS; seed++) {
        memset(&job, 0, sizeof job);
        job.random = seed;
        for (unsigned r = 0; r < ranks; r++)
            job.rank[r].own_rate = r == 0 ? 0 : draw(&job) * (SPREAD - 1);
        uint64_t window_ns = MUSTER_SAMPLING_WINDOW * MUSTER_NS_PER_S / rate;
        uint64_t windows = seconds * MUSTER_NS_PER_S / window_ns;
        for (uint64_t b = 0; b < windows; b++) {
            run_window(&job, ranks, seed * 0x9e3779b97f4a7c15ull, b,
                       MUSTER_NS_PER_S + b * window_ns);
            if (b >= windows / 4) /* the levels have been chosen */
                count(&job, ranks, &share);
        }
    }
    return share;
}

static double percent(uint64_t part, uint64_t all)
{
    return all ? 100 * (double)part / (double)all : 0;
}

static int parse(int argc, char **argv, uint64_t *seconds)
{
    static const struct option known[] = {{"seconds", 1, NULL, 's'}, {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
        if (option != 's' || !muster_text_u64(optarg, seconds) || *seconds < 1 || *seconds > 10000)
            return -1;
    return optind == argc ? 0 : -1;
}

static void print_by_rate(uint64_t seconds)
{
    static const uint64_t rates[] = {100, 300, 1000, 3000, 10000, 30000, 100000};
    printf("# percent of a communicator's windows; its first rank calls nothing else, the others "
           "up to "
           "%d times as much\n%-9s %-6s %16s %20s %10s\n",
           SPREAD - 1, "calls/s", "ranks", "timed by first", "by the first two", "by all");
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        for (unsigned ranks = 2; ranks <= RANKS; ranks *= 2) {
            struct share share = run_jobs(ranks, rates[i], seconds);
            printf("%-9llu %-6u %16.2f %20.2f %10.2f\n", (unsigned long long)rates[i], ranks,
                   percent(share.timed, share.windows), percent(share.pairs, share.windows),
                   percent(share.jointly, share.windows));
            fflush(stdout);
        }
}

/* A rate at three quarters of what keeps the first rank, which calls nothing else, at the level. */
static uint64_t rate_of_level(unsigned level)
{
    uint64_t most = ((uint64_t)MUSTER_TIMING_PPM << level) * 1000 / muster_price_ns(BYTES, CPUS);
    return most * 3 / 4;
}

/* Its rates are high: a quarter of the time has as many windows as the other table. */
static void print_by_level(uint64_t seconds)
{
    printf("\n# the same by the first rank's level; all: percent of the windows that all ranks time"
           "\n%-6s %-9s %16s",
           "level", "calls/s", "timed by first");
    for (unsigned ranks = 2; ranks <= RANKS; ranks *= 2)
        printf("  all %2u", ranks);
    for (unsigned level = 0; level <= MUSTER_SAMPLING_SPARSEST; level++) {
        uint64_t rate = rate_of_level(level);
        for (unsigned ranks = 2; ranks <= RANKS; ranks *= 2) {
            struct share share = run_jobs(ranks, rate, (seconds + 3) / 4);
            if (ranks == 2)
                printf("\n%-6u %-9llu %16.2f", level, (unsigned long long)rate,
                       percent(share.timed, share.windows));
            printf(" %7.2f", percent(share.jointly, share.windows));
            fflush(stdout);
        }
    }
    putchar('\n');
}

int main(int argc, char **argv)
{
    uint64_t seconds = 120;
    if (parse(argc, argv, &seconds)) {
        fputs(usage, stderr);
        return 2;
    }
    print_by_rate(seconds);
    print_by_level(seconds);
    return 0;
}
