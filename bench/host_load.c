/*
 * host_load: what muster takes of a host, by its ranks. Each rank is a process that makes
 * all-reduces at a steady rate; no GPU is needed, and none is seen. Counted is what the plugin
 * adds: memory, the segment, threads, descriptors, and the processor time of each of its threads.
 */
#include <dirent.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "bench_collective.h"
#include "launch/scratch.h"
#include "own_use.h"

static const char usage[] = "usage: host_load [--rate N] [--seconds N] PLUGIN.so\n"
                            "--rate N     all-reduces a second of each rank (default 100)\n"
                            "--seconds N  for each row (default 10)\n";

enum { THREADS = 4, RANKS_MAX = 128, SETTLE_MS = 1500, SETTLE_RANK_MS = 20 };

static const char *const thread_names[THREADS] = {"muster-drain", "muster-log", "muster-diag",
                                                  "muster-topo"};
static const unsigned rows[] = {1, 8, 16, 64, RANKS_MAX};

struct use {
    double anonymous_kib, cpu_percent[THREADS];
    int threads, descriptors;
};

struct bench {
    const char *plugin;
    unsigned rate, seconds;
    char run_dir[PATH_MAX], segment_dir[PATH_MAX];
    struct use *use; /* of each rank; shared with them */
};

static int thread_number(pid_t tid)
{
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)tid);
    FILE *file = fopen(path, "re");
    if (file && fgets(name, sizeof name, file))
        name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
    for (int i = 0; i < THREADS; i++)
        if (strcmp(name, thread_names[i]) == 0)
            return i;
    return -1;
}

/* Of each of muster's threads so far; by the clock that pthread_getcpuclockid would give for it. */
static void read_cpu(uint64_t ns[THREADS])
{
    struct dirent *entry;
    DIR *dir = opendir("/proc/self/task");
    memset(ns, 0, THREADS * sizeof *ns);
    while (dir && (entry = readdir(dir))) {
        uint64_t tid;
        struct timespec t;
        int i = muster_text_u64(entry->d_name, &tid) ? thread_number((pid_t)tid) : -1;
        if (i >= 0 && clock_gettime((clockid_t)(~(unsigned)tid << 3 | 6), &t) == 0)
            ns[i] = (uint64_t)t.tv_sec * MUSTER_NS_PER_S + (uint64_t)t.tv_nsec;
    }
    if (dir)
        closedir(dir);
}

static void sleep_until(uint64_t ns)
{
    const struct timespec t = {(time_t)(ns / MUSTER_NS_PER_S), (long)(ns % MUSTER_NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
        ;
}

static int run_rank(const struct bench *bench, unsigned rank, unsigned ranks, uint64_t begin,
                    struct muster_err *err)
{
    static int mask;
    struct muster_driver driver;
    struct bench_lane lane;
    struct use *use = &bench->use[rank];
    char text[16];
    uint64_t before[THREADS], after[THREADS];
    const struct use bare = {.anonymous_kib = (double)own_anonymous_kib(),
                             .threads = own_entries("/proc/self/task"),
                             .descriptors = own_entries("/proc/self/fd")};
    snprintf(text, sizeof text, "%u", rank);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);
    snprintf(text, sizeof text, "%u", ranks);
    setenv("WORLD_SIZE", text, 1);
    if (muster_driver_open(&driver, bench->plugin, 0, 0, err) ||
        bench_lane_join(&lane, &driver,
                        &(struct muster_event_init){.comm_hash = 0x6c6f6164,
                                                    .nnodes = 1,
                                                    .nranks = (int)ranks,
                                                    .rank = (int)rank,
                                                    .api = driver.api},
                        &mask, err))
        return -1;
    sleep_until(begin);
    read_cpu(before);
    for (uint64_t i = 0; i < (uint64_t)bench->rate * bench->seconds; i++) {
        sleep_until(begin + i * MUSTER_NS_PER_S / bench->rate);
        bench_lane_collective(&lane, false);
    }
    double wall = (double)(muster_now_ns() - begin);
    read_cpu(after);
    for (int i = 0; i < THREADS; i++)
        use->cpu_percent[i] = 100 * (double)(after[i] - before[i]) / wall;
    use->anonymous_kib = (double)own_anonymous_kib() - bare.anonymous_kib;
    use->threads = own_entries("/proc/self/task") - bare.threads;
    use->descriptors = own_entries("/proc/self/fd") - bare.descriptors;
    muster_driver_fini(&driver, lane.context);
    return 0;
}

static void print_row(const struct bench *bench, unsigned ranks)
{
    struct use sum = {0};
    double all = 0, leader = 0;
    for (unsigned r = 0; r < ranks; r++) {
        const struct use *use = &bench->use[r];
        sum.anonymous_kib += use->anonymous_kib;
        sum.threads += use->threads;
        sum.descriptors += use->descriptors;
        for (int i = 0; i < THREADS; i++) {
            sum.cpu_percent[i] += use->cpu_percent[i];
            all += use->cpu_percent[i];
        }
        leader = use->cpu_percent[2] > leader ? use->cpu_percent[2] : leader;
    }
    printf("%5u %9.0f %8.1f %8.1f", ranks, sum.anonymous_kib / ranks, (double)sum.threads / ranks,
           (double)sum.descriptors / ranks);
    for (int i = 0; i < THREADS; i++)
        printf(" %12.3f", sum.cpu_percent[i] / ranks);
    printf(" %8.2f %8.2f %8.2f\n", leader, sum.cpu_percent[2], all);
    fflush(stdout);
}

static int run_row(const struct bench *bench, unsigned ranks)
{
    const uint64_t begin =
        muster_now_ns() + (SETTLE_MS + ranks * SETTLE_RANK_MS) * MUSTER_NS_PER_MS;
    int failed = 0, status;
    fflush(stdout);
    for (unsigned r = 0; r < ranks; r++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct muster_err err;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            int rc = run_rank(bench, r, ranks, begin, &err);
            if (rc)
                fprintf(stderr, "host_load: %s\n", err.text);
            exit(rc ? 1 : 0);
        }
        failed |= pid < 0;
    }
    while (wait(&status) > 0)
        failed |= status;
    if (!failed)
        print_row(bench, ranks);
    return failed ? -1 : 0;
}

static int parse(int argc, char **argv, struct bench *bench)
{
    static const struct option known[] = {
        {"rate", 1, NULL, 'r'}, {"seconds", 1, NULL, 's'}, {NULL, 0, NULL, 0}};
    uint64_t number;
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == '?' || !muster_text_u64(optarg, &number) || number == 0 || number > 100000)
            return -1;
        *(option == 'r' ? &bench->rate : &bench->seconds) = (unsigned)number;
    }
    if (argc - optind != 1)
        return -1;
    bench->plugin = argv[optind];
    return 0;
}

static int run_rows(const struct bench *bench)
{
    setenv("MUSTER_DIR", bench->run_dir, 1);
    setenv("MUSTER_SEGMENT_DIR", bench->segment_dir, 1);
    printf(
        "                                      percent of a core: mean of a rank's thread          "
        " "
        "   muster-diag     all of\n"
        "ranks  KiB/rank  threads      fds muster-drain   muster-log  muster-diag  muster-topo   "
        "leader   host's them all\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (run_row(bench, rows[i]))
            return 1;
    return 0;
}

static int prepare(struct bench *bench, struct muster_err *err)
{
    if (muster_scratch_make(bench->run_dir, sizeof bench->run_dir, "/tmp", err) ||
        muster_scratch_make(bench->segment_dir, sizeof bench->segment_dir, "/dev/shm", err))
        return -1;
    bench->use = mmap(NULL, RANKS_MAX * sizeof *bench->use, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return (void *)bench->use == MAP_FAILED ? muster_fail_memory(err, "what the ranks use") : 0;
}

int main(int argc, char **argv)
{
    static struct bench bench = {.rate = 100, .seconds = 10};
    struct muster_err err;
    int status = 1;
    if (parse(argc, argv, &bench)) {
        fputs(usage, stderr);
        return 2;
    }
    if (prepare(&bench, &err))
        fprintf(stderr, "host_load: %s\n", err.text);
    else
        status = run_rows(&bench);
    muster_scratch_remove(bench.run_dir);
    muster_scratch_remove(bench.segment_dir);
    return status;
}
