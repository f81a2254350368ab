/*
 * chaos [--runs N] [--seed S]: N runs of random jobs with forks, unloading, SIGKILL, full disks,
 * full shared memory, communicator churn, corrupt segments and neighbours. Exit status 1 if a job
 * was harmed, a report was wrong, or a file was left that nobody reaps.
 */
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/clock.h"
#include "chaos.h"

/* Sanitizers: a search for leaks in a forked child waits for threads that it does not have, and
 * hundreds of processes would each sleep for a second at their exit. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

static void print_tally(const struct chaos_tally *tally, double seconds)
{
    printf("%u runs in %.0f s: %u jobs (%u pairs at once) with %llu operations on %u "
           "communicators\n",
           tally->runs, seconds, tally->jobs, tally->pairs, (unsigned long long)tally->operations,
           tally->communicators);
    printf("  killed by SIGKILL    %6u\n  forked children      %6u\n  unloaded, reloaded   %6u\n",
           tally->killed, tally->forks, tally->reloads);
    printf("  runs with a full disk %5u\n  with full shm        %6u\n  corrupt segments     %6u\n",
           tally->full_disks, tally->full_shms, tally->corrupt_segments);
    printf("  jobs with every operation accounted for %u, operations counted as dropped %llu\n",
           tally->exact, (unsigned long long)tally->dropped);
    printf("  harmed jobs %u, wrong reports %u, leftovers %u\n", tally->harmed, tally->wrong,
           tally->left);
}

/* Mounts of ours vanish with us. */
static void leave_mounts(void)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        fputs("chaos: no small file systems without root: a file size limit instead\n", stderr);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"runs", required_argument, NULL, 'n'},
                                            {"seed", required_argument, NULL, 's'},
                                            {NULL, 0, NULL, 0}};
    unsigned long long runs = 100, seed = 1;
    struct chaos_tally tally = {0};
    char base[] = "/tmp/muster-chaos-XXXXXX";
    int option;

    while ((option = getopt_long(argc, argv, "n:s:", options, NULL)) != -1)
        if (option == 'n')
            runs = strtoull(optarg, NULL, 10);
        else if (option == 's')
            seed = strtoull(optarg, NULL, 10);
        else
            return 2;
    if (!mkdtemp(base))
        return 2;
    leave_mounts();
    uint64_t begin = muster_now_ns();
    for (unsigned long long i = 0; i < runs; i++)
        chaos_run(base, seed + i, &tally);
    rmdir(base);
    print_tally(&tally, (double)(muster_now_ns() - begin) / 1e9);
    return tally.harmed || tally.wrong || tally.left;
}
