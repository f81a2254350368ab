/*
 * drain_load: what muster's own threads take of a core while a process makes operations at a steady
 * rate. Each row is a process of its own, so that the plugin reads its timing mode anew. With a
 * driver launches have events, and the last row is a rank that waits all the time for one launch.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "bench_collective.h"
#include "fake_driver.h"
#include "launch/scratch.h"

static const char usage[] =
    "usage: drain_load [--rate N] [--seconds N] [--driver LIB] PLUGIN.so\n"
    "--rate N      all-reduces a second (default 1000)\n"
    "--seconds N   for each row (default 10)\n"
    "--driver LIB  the made-up CUDA driver of tests/host/cuda: launches take 20 us each\n";

enum { THREADS = 3, SETTLE_MS = 500, RATE_MAX = 1000000, SECONDS_MAX = 3600 };
#define KERNEL_NS (20 * MUSTER_NS_PER_US)
/* Sleeping takes some 50 us more than asked for: what is due sooner is made at once. */
#define AHEAD_NS (100 * MUSTER_NS_PER_US)

static const char *const thread_names[THREADS] = {"muster-drain", "muster-log", "muster-events"};

enum work { IDLE, OPERATE, WAIT };

struct row {
    const char *what, *timing;
    enum work work;
};

static const struct row bare_rows[] = {
    {"no operations", "light", IDLE},
    {"untimed (light)", "light", OPERATE},
    {"auto", "auto", OPERATE},
    {"all timed, 8 channels (channels)", "channels", OPERATE},
    {NULL, NULL, IDLE},
};
static const struct row driver_rows[] = {
    {"no operations", "auto", IDLE},
    {"completion marks (light)", "light", OPERATE},
    {"auto", "auto", OPERATE},
    {"all timed (full)", "full", OPERATE},
    {"a rank that waits (auto)", "auto", WAIT},
    {NULL, NULL, IDLE},
};

struct bench {
    const char *plugin, *driver;
    unsigned rate, seconds;
    char run_dir[PATH_MAX];
};

/* The job's side of the made-up driver. */
struct gpu {
    const struct fake_driver *driver; /* NULL: none */
    void *stream;
};

/* Threads by name; a tid of 0: there is none. */
static void find_threads(pid_t tid[THREADS])
{
    struct dirent *entry;
    DIR *dir = opendir("/proc/self/task");
    memset(tid, 0, THREADS * sizeof *tid);
    while (dir && (entry = readdir(dir))) {
        char path[64], name[32] = "";
        uint64_t number;
        if (!muster_text_u64(entry->d_name, &number))
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%u/comm", (unsigned)number);
        FILE *file = fopen(path, "re");
        if (!file)
            continue;
        if (fgets(name, sizeof name, file))
            name[strcspn(name, "\n")] = '\0';
        fclose(file);
        for (int i = 0; i < THREADS; i++)
            if (strcmp(name, thread_names[i]) == 0)
                tid[i] = (pid_t)number;
    }
    if (dir)
        closedir(dir);
}

/* Of a thread of this process, by the clock that pthread_getcpuclockid would give for it. */
static uint64_t cpu_ns(pid_t tid)
{
    const clockid_t clock = (clockid_t)(~(unsigned)tid << 3 | 6);
    struct timespec t;
    if (tid == 0 || clock_gettime(clock, &t))
        return 0;
    return (uint64_t)t.tv_sec * MUSTER_NS_PER_S + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
    const struct timespec t = {(time_t)(ns / MUSTER_NS_PER_S), (long)(ns % MUSTER_NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
        ;
}

/* Returns how many of the operations had kernel stamps. */
static uint64_t operate(const struct bench *bench, const struct gpu *gpu, struct bench_lane *lane,
                        bool stamped)
{
    const uint64_t all = (uint64_t)bench->rate * bench->seconds, begin = muster_now_ns();
    for (uint64_t i = 0; i < all; i++) {
        uint64_t due = begin + i * MUSTER_NS_PER_S / bench->rate;
        if (due > muster_now_ns() + AHEAD_NS)
            sleep_until(due);
        if (gpu->driver)
            gpu->driver->launch(gpu->stream, KERNEL_NS);
        bench_lane_collective(lane, stamped);
    }
    return stamped ? all : 0;
}

static uint64_t work(const struct bench *bench, enum work work, const struct gpu *gpu,
                     struct bench_lane *lane, bool stamped)
{
    const uint64_t begin = muster_now_ns(), length = bench->seconds * MUSTER_NS_PER_S;
    uint64_t timed = 0;
    if (work == OPERATE)
        timed = operate(bench, gpu, lane, stamped);
    if (work == WAIT && gpu->driver) {
        gpu->driver->launch(gpu->stream, length);
        bench_lane_collective(lane, false);
    }
    sleep_until(begin + length);
    return timed;
}

static int open_gpu(const struct bench *bench, struct gpu *gpu, struct muster_err *err)
{
    *gpu = (struct gpu){NULL, NULL};
    if (!bench->driver)
        return 0;
    void *library = dlopen(bench->driver, RTLD_NOW | RTLD_GLOBAL);
    gpu->driver = library ? dlsym(library, "fake_driver") : NULL;
    if (!gpu->driver)
        return muster_fail(err, "%s", dlerror());
    gpu->stream = gpu->driver->stream_create(0);
    return 0;
}

static int measure(const struct bench *bench, const struct row *row, struct muster_err *err)
{
    static int mask;
    struct muster_driver driver;
    struct bench_lane lane;
    struct gpu gpu;
    pid_t tid[THREADS];
    uint64_t before[THREADS];
    if (open_gpu(bench, &gpu, err) || muster_driver_open(&driver, bench->plugin, 0, 0, err) ||
        bench_lane_init(&lane, &driver, 0x6472, &mask, err))
        return -1;
    lane.launch.v7.kernel_launch.stream = gpu.stream;
    sleep_until(muster_now_ns() + SETTLE_MS * MUSTER_NS_PER_MS);
    find_threads(tid);
    if (tid[0] == 0)
        return muster_fail(err, "%s started no thread %s", bench->plugin, thread_names[0]);
    for (int i = 0; i < THREADS; i++)
        before[i] = cpu_ns(tid[i]);
    const uint64_t begin = muster_now_ns();
    uint64_t timed = work(bench, row->work, &gpu, &lane, mask >> MUSTER_EVENT_KERNEL_CH & 1);
    if (gpu.driver)
        timed = gpu.driver->use().recorded;
    const double wall = (double)(muster_now_ns() - begin);
    printf("%-30s %10llu", row->what, (unsigned long long)timed);
    for (int i = 0; i < THREADS; i++)
        printf(" %13.3f", 100 * (double)(cpu_ns(tid[i]) - before[i]) / wall);
    putchar('\n');
    muster_driver_fini(&driver, lane.context);
    return 0;
}

static int measure_apart(const struct bench *bench, const struct row *row)
{
    int status = -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct muster_err err;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("MUSTER_TIMING", row->timing, 1);
        setenv("MUSTER_DIR", bench->run_dir, 1);
        setenv("NCCL_ALLGATHERV_ENABLE", "0", 1); /* else the newest interface stamps no kernels */
        int rc = measure(bench, row, &err);
        if (rc)
            fprintf(stderr, "drain_load: %s\n", err.text);
        exit(rc ? 1 : 0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status ? -1 : 0;
}

static int parse(int argc, char **argv, struct bench *bench)
{
    static const struct option known[] = {
        {"rate", 1, NULL, 'r'}, {"seconds", 1, NULL, 's'}, {"driver", 1, NULL, 'd'}, {0}};
    uint64_t value;
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'd') {
            bench->driver = optarg;
            continue;
        }
        if (option == '?' || !muster_text_u64(optarg, &value) || value < 1 ||
            value > (option == 'r' ? RATE_MAX : SECONDS_MAX))
            return -1;
        *(option == 'r' ? &bench->rate : &bench->seconds) = (unsigned)value;
    }
    if (argc - optind != 1)
        return -1;
    bench->plugin = argv[optind];
    return 0;
}

int main(int argc, char **argv)
{
    struct bench bench = {.rate = 1000, .seconds = 10};
    struct muster_err err;
    int rc = 0;
    if (parse(argc, argv, &bench)) {
        fputs(usage, stderr);
        return 2;
    }
    if (muster_scratch_make(bench.run_dir, sizeof bench.run_dir, "/tmp", &err)) {
        fprintf(stderr, "drain_load: %s\n", err.text);
        return 1;
    }
    printf("# %u all-reduces a second for %u s; percent of a core\n%-30s %10s", bench.rate,
           bench.seconds, "", bench.driver ? "events" : "timed");
    for (int i = 0; i < THREADS; i++)
        printf(" %13s", thread_names[i]);
    putchar('\n');
    for (const struct row *row = bench.driver ? driver_rows : bare_rows; row->what && rc == 0;
         row++)
        rc = measure_apart(&bench, row);
    muster_scratch_remove(bench.run_dir);
    return rc ? 1 : 0;
}
