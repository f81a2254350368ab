/*
 * callback_cost: nanoseconds a profiler plugin keeps NCCL's thread per callback, and per
 * collective. The plugins, and a null plugin of ours with and without handles, take turns round by
 * round. Every figure is net of the clock; NCCL's own side of a callback is the null plugin's.
 */
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "bench_recorded.h"
#include "cost_worker.h"
#include "launch/scratch.h"

static const char usage[] =
    "usage: callback_cost [--threads N] [--rounds N] [--api V] [--gpu] [--cold KIB] PLUGIN.so...\n"
    "--threads N  that many threads, each with a communicator, call at once (default 1)\n"
    "--rounds N   rounds per plugin, 504 collectives per thread each (default 20)\n"
    "--api V      use interface V, from 4 to 7, of all of them (default: each one's newest)\n"
    "--gpu        the calling threads have the first GPU's CUDA context, as NCCL's have\n"
    "--cold KIB   so much memory is gone through before each collective, as what a job does\n"
    "             between two leaves the caches\n"
    "untimed collectives run under MUSTER_TIMING=light, timed ones under full, stamped ones under\n"
    "channels, unless it is set\n"
    "events are made with functions that do nothing, or MARK_DRIVER=PATH's\n";

enum { PLUGINS = 16, OWN = 2 };
enum mode { UNTIMED, MARKED, TIMED, STAMPED, MODES };

static const char *const own_plugins[OWN] = {"libnull-plugin.so", "libnull-plugin-handles.so"};
static const char *const own_names[OWN] = {"null", "null+handles"};

struct bench {
    unsigned threads, rounds, api, cold_kib;
    bool gpu;
    unsigned plugins;
    const char *path[PLUGINS];
    char own_path[OWN][PATH_MAX];
    char cuda[PATH_MAX];
    struct cost_worker worker[MODES][PLUGINS];
    double step_ns; /* of the clock */
    char dir[PATH_MAX];
};

static int parse_count(const char *text, unsigned max, unsigned *value)
{
    uint64_t number;
    if (!muster_text_u64(text, &number) || number < 1 || number > max) {
        fprintf(stderr, "callback_cost: %s: from 1 to %u is possible\n", text, max);
        return -1;
    }
    *value = (unsigned)number;
    return 0;
}

static int parse(int argc, char **argv, struct bench *bench)
{
    static const struct option known[] = {{"threads", 1, NULL, 't'}, {"rounds", 1, NULL, 'r'},
                                          {"api", 1, NULL, 'a'},     {"gpu", 0, NULL, 'g'},
                                          {"cold", 1, NULL, 'c'},    {NULL, 0, NULL, 0}};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        bench->gpu |= option == 'g';
        if (option != 'g' &&
            (option != 't' || parse_count(optarg, COST_THREADS, &bench->threads)) &&
            (option != 'r' || parse_count(optarg, 100000, &bench->rounds)) &&
            (option != 'c' || parse_count(optarg, 1 << 20, &bench->cold_kib)) &&
            (option != 'a' || parse_count(optarg, NCCL_NEWEST_API, &bench->api)))
            return -1;
    }
    if (argc - optind > PLUGINS - OWN)
        return -1;
    while (optind < argc)
        bench->path[bench->plugins++] = argv[optind++];
    return bench->plugins > OWN ? 0 : -1;
}

static void join(char path[PATH_MAX], const char *dir, const char *name)
{
    if ((size_t)snprintf(path, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        path[0] = '\0';
}

/* The null plugins and the driver stand beside this program. */
static void find_own(struct bench *bench)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n > 0 ? n : 0] = '\0';
    const char *dir = dirname(exe);
    for (int i = 0; i < OWN; i++) {
        join(bench->own_path[i], dir, own_plugins[i]);
        bench->path[bench->plugins++] = bench->own_path[i];
    }
    join(bench->cuda, dir, "mark-driver/libcuda.so.1");
}

static bool coarse(const struct bench *bench)
{
    return bench->step_ns > 2;
}

static double typical_ns(const struct bench *bench, const struct cost_worker *worker, unsigned row)
{
    return coarse(bench) ? cost_mean_ns(worker, row, 0.02) : cost_quantile_ns(worker, row, 0.5);
}

static int start_workers(struct bench *bench, struct muster_err *err)
{
    struct cost_plan plan = {.threads = bench->threads,
                             .api = bench->api,
                             .run_dir = bench->dir,
                             .gpu = bench->gpu,
                             .cold_bytes = (size_t)bench->cold_kib << 10};
    plan.tick_ns = bench_tick_ns();
    bench_tick_cost(&plan.tick_cost);
    bench->step_ns = plan.tick_ns * (double)plan.tick_cost.step;
    printf("# clock: steps of %.1f ns, %.1f ns a reading (taken off)\n", bench->step_ns,
           plan.tick_ns * plan.tick_cost.ticks);
    if (coarse(bench))
        printf("# the clock is coarse: a median is the mean without the slowest 2 %%\n");
    fflush(stdout);
    for (int mode = 0; mode < MODES; mode++)
        for (unsigned i = 0; i < bench->plugins; i++) {
            static const char *const timings[MODES] = {"light", "light", "full", "channels"};
            plan.timed = mode == STAMPED;
            plan.marks = mode == MARKED;
            plan.cuda = mode == MARKED || mode == TIMED ? bench->cuda : NULL;
            plan.timing = timings[mode];
            plan.plugin = bench->path[i];
            struct cost_worker *worker = &bench->worker[mode][i];
            if (cost_worker_start(worker, &plan, err))
                return -1;
            if (i < OWN)
                snprintf(worker->name, sizeof worker->name, "%s", own_names[i]);
        }
    return 0;
}

static bool skipped(const struct bench *bench, int mode, unsigned plugin)
{
    const struct cost_worker *worker = &bench->worker[mode][plugin];
    return (mode == STAMPED && !worker->asks_kernel) ||
           ((mode == MARKED || mode == TIMED) && !worker->asks_launch);
}

static int run_rounds(struct bench *bench, struct muster_err *err)
{
    for (unsigned round = 0; round < bench->rounds; round++)
        for (int mode = 0; mode < MODES; mode++)
            for (unsigned i = 0; i < bench->plugins; i++)
                if (!skipped(bench, mode, i) && cost_worker_round(&bench->worker[mode][i], err))
                    return -1;
    return 0;
}

static void print_cell(double ns)
{
    if (ns < 0)
        printf(" %8s", "-");
    else
        printf(" %8.1f", ns);
}

static void print_row(const struct bench *bench, int mode, unsigned row, const char *name)
{
    printf("%-20s", name);
    for (unsigned i = 0; i < bench->plugins; i++) {
        print_cell(typical_ns(bench, &bench->worker[mode][i], row));
        print_cell(cost_quantile_ns(&bench->worker[mode][i], row, 0.99));
    }
    putchar('\n');
}

static void print_table(const struct bench *bench, int mode)
{
    static const char *const titles[MODES] = {"untimed", "untimed, with marks", "timed by events",
                                              "stamps, 8 channels"};
    printf("\n%-20s", titles[mode]);
    for (unsigned i = 0; i < bench->plugins; i++)
        printf(" %17.17s", bench->worker[mode][i].name);
    printf("\n%-20s", "ns");
    for (unsigned i = 0; i < bench->plugins; i++)
        printf(" %8s %8s", "median", "p99");
    putchar('\n');
    for (unsigned row = 0; row < BENCH_CALLS; row++)
        if ((mode == STAMPED || row < BENCH_KERNEL_START) &&
            (mode == MARKED || row != BENCH_LAUNCH_MARK))
            print_row(bench, mode, row, bench_call_name((enum bench_call)row));
    print_row(bench, mode, COST_WHOLE, "whole collective");
    for (unsigned i = 0; i < bench->plugins; i++)
        if (skipped(bench, mode, i))
            printf("# %s did not ask for %s events\n", bench->worker[mode][i].name,
                   mode == STAMPED ? "KernelCh" : "KernelLaunch");
    if (mode == TIMED)
        printf("# of which the driver takes for two records and a look at the stream: %.1f\n",
               bench->worker[mode][0].driver_ns);
}

static int finish_workers(struct bench *bench, struct muster_err *err)
{
    uint64_t shown = 0, collectives;
    for (int mode = 0; mode < MODES; mode++)
        for (unsigned i = 0; i < bench->plugins; i++) {
            if (cost_worker_finish(&bench->worker[mode][i], &collectives, err))
                return -1;
            shown += collectives;
        }
    printf("\n# %llu collectives shown by %u threads in %u rounds\n", (unsigned long long)shown,
           bench->threads, bench->rounds);
    struct bench_recorded recorded;
    if (bench_recorded(bench->dir, &recorded))
        printf("# muster recorded %llu of them and dropped %llu things, in %llu processes\n",
               (unsigned long long)recorded.ops, (unsigned long long)recorded.drops,
               (unsigned long long)recorded.processes);
    return 0;
}

static int run(struct bench *bench, struct muster_err *err)
{
    if (start_workers(bench, err) || run_rounds(bench, err))
        return -1;
    for (int mode = 0; mode < MODES; mode++)
        print_table(bench, mode);
    return finish_workers(bench, err);
}

int main(int argc, char **argv)
{
    static struct bench bench = {.threads = 1, .rounds = 20};
    struct muster_err err;
    find_own(&bench);
    if (parse(argc, argv, &bench)) {
        fputs(usage, stderr);
        return 2;
    }
    if (muster_scratch_make(bench.dir, sizeof bench.dir, "/tmp", &err)) {
        fprintf(stderr, "callback_cost: %s\n", err.text);
        return 1;
    }
    int rc = run(&bench, &err);
    for (int mode = 0; mode < MODES; mode++)
        for (unsigned i = 0; i < bench.plugins; i++)
            cost_worker_free(&bench.worker[mode][i]);
    muster_scratch_remove(bench.dir);
    if (rc)
        fprintf(stderr, "callback_cost: %s\n", err.text);
    return rc ? 1 : 0;
}
