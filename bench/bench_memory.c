/*
 * memory: what a profiler plugin takes per communicator. Counted is anonymous memory (heap, stacks,
 * the plugin's own mappings, not its shared segment), as the kernel and as malloc see it.
 */
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "bench_collective.h"
#include "launch/scratch.h"

static const char usage[] =
    "usage: memory [--communicators N] [--ops N] PLUGIN.so\n"
    "--communicators N  to create (default 64)\n"
    "--ops N            all-reduces shown to each (default 1000)\n"
    "Every collective has KernelCh events if the plugin asks for them: see MUSTER_TIMING.\n";

enum {
    COMMUNICATORS_MAX = 4096,
    BURST = 256,
    PAUSE_US = 5000,    /* for the plugin's own thread to empty what a burst left */
    SETTLE_US = 300000, /* for its periodic work to have run */
};

struct memory {
    double anonymous_kib;
    double heap_kib;
};

struct bench {
    const char *plugin;
    unsigned communicators, ops;
    char run_dir[PATH_MAX], segment_dir[PATH_MAX];
    struct muster_driver driver;
    int mask;
    struct bench_lane *lane;
};

static int read_memory(struct memory *memory, struct muster_err *err)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    if (!file)
        return muster_fail(err, "cannot read /proc/self/smaps_rollup");
    while (kib < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, "Anonymous:", 10) == 0)
            kib = strtol(line + 10, NULL, 10);
    fclose(file);
    if (kib < 0)
        return muster_fail(err, "/proc/self/smaps_rollup has no Anonymous line");
    struct mallinfo2 heap = mallinfo2();
    memory->anonymous_kib = (double)kib;
    memory->heap_kib = (double)(heap.uordblks + heap.hblkhd) / 1024;
    return 0;
}

static int show(const char *when, const struct memory *base, double communicators,
                struct memory *now, struct muster_err *err)
{
    if (read_memory(now, err))
        return -1;
    printf("%-34s %14.0f %10.1f", when, now->anonymous_kib, now->heap_kib);
    if (base)
        printf(" %21.1f %10.1f", (now->anonymous_kib - base->anonymous_kib) / communicators,
               (now->heap_kib - base->heap_kib) / communicators);
    putchar('\n');
    return 0;
}

static int create(struct bench *bench, unsigned from, unsigned to, struct muster_err *err)
{
    for (unsigned i = from; i < to; i++)
        if (bench_lane_init(&bench->lane[i], &bench->driver, 0x6d656d + i, &bench->mask, err))
            return -1;
    return 0;
}

static void run_ops(struct bench *bench)
{
    const bool timed = bench->mask >> MUSTER_EVENT_KERNEL_CH & 1;
    unsigned shown = 0;
    for (unsigned op = 0; op < bench->ops; op++)
        for (unsigned i = 0; i < bench->communicators; i++) {
            bench_lane_collective(&bench->lane[i], timed);
            if (++shown % BURST == 0)
                usleep(PAUSE_US);
        }
    usleep(SETTLE_US);
}

static void print_segments(const struct bench *bench)
{
    char pattern[PATH_MAX + 8];
    glob_t found;
    struct stat stat_of;
    snprintf(pattern, sizeof pattern, "%s/*.seg", bench->segment_dir);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (stat(found.gl_pathv[i], &stat_of) == 0)
            printf("segment: %lld bytes, %lld KiB of shared memory\n", (long long)stat_of.st_size,
                   (long long)stat_of.st_blocks / 2);
    globfree(&found);
}

/* The first communicator pays for what there is once a process. */
static int measure(struct bench *bench, struct muster_err *err)
{
    const double more = bench->communicators - 1;
    struct memory first, now;
    char when[64];
    printf("%-34s %14s %10s %21s %10s\n", "KiB", "anonymous", "heap", "anonymous per comm.",
           "heap");
    if (show("plugin loaded", NULL, 0, &now, err) || create(bench, 0, 1, err))
        return -1;
    usleep(SETTLE_US);
    if (show("1 communicator", NULL, 0, &first, err) || create(bench, 1, bench->communicators, err))
        return -1;
    usleep(SETTLE_US);
    snprintf(when, sizeof when, "%u communicators", bench->communicators);
    if (show(when, &first, more, &now, err))
        return -1;
    run_ops(bench);
    snprintf(when, sizeof when, "after %u all-reduces on each", bench->ops);
    if (show(when, &first, more, &now, err))
        return -1;
    print_segments(bench);
    for (unsigned i = 0; i < bench->communicators; i++)
        muster_driver_fini(&bench->driver, bench->lane[i].context);
    usleep(SETTLE_US);
    return show("all finalized", NULL, 0, &now, err);
}

static int run(struct bench *bench, struct muster_err *err)
{
    bench->lane = calloc(bench->communicators, sizeof *bench->lane);
    if (!bench->lane)
        return muster_fail(err, "no memory for %u communicators", bench->communicators);
    setenv("MUSTER_DIR", bench->run_dir, 1);
    setenv("MUSTER_SEGMENT_DIR", bench->segment_dir, 1);
    if (muster_driver_open(&bench->driver, bench->plugin, 0, 0, err))
        return -1;
    if (bench->driver.api < 4)
        return muster_fail(err, "%s: its newest interface is v%u; v4 or newer is needed",
                           bench->plugin, bench->driver.api);
    return measure(bench, err);
}

static int parse(int argc, char **argv, struct bench *bench)
{
    static const struct option known[] = {
        {"communicators", 1, NULL, 'c'}, {"ops", 1, NULL, 'o'}, {NULL, 0, NULL, 0}};
    uint64_t number;
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?' || !muster_text_u64(optarg, &number) || number > 1000000)
            return -1;
        if (option == 'c' && (number < 2 || number > COMMUNICATORS_MAX))
            return -1;
        *(option == 'c' ? &bench->communicators : &bench->ops) = (unsigned)number;
    }
    if (argc - optind != 1)
        return -1;
    bench->plugin = argv[optind];
    return 0;
}

/* In a process of its own, so that the directories go after the plugin's exit handlers ran. */
static int run_apart(struct bench *bench)
{
    struct muster_err err;
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int failed = run(bench, &err);
        free(bench->lane);
        if (failed)
            fprintf(stderr, "memory: %s\n", err.text);
        exit(failed ? 1 : 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    return status ? 1 : 0;
}

int main(int argc, char **argv)
{
    static struct bench bench = {.communicators = 64, .ops = 1000};
    struct muster_err err;
    if (parse(argc, argv, &bench)) {
        fputs(usage, stderr);
        return 2;
    }
    if (muster_scratch_make(bench.run_dir, sizeof bench.run_dir, "/tmp", &err) ||
        muster_scratch_make(bench.segment_dir, sizeof bench.segment_dir, "/dev/shm", &err)) {
        fprintf(stderr, "memory: %s\n", err.text);
        return 1;
    }
    int status = run_apart(&bench);
    muster_scratch_remove(bench.run_dir);
    muster_scratch_remove(bench.segment_dir);
    return status;
}
