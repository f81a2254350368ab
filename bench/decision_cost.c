/*
 * decision_cost: nanoseconds of one getCollInfo of any tuner plugin, with 1 and with 1,000 rules.
 * Each plugin and number of rules runs in a process of its own, which reads the rules as muster's
 * policy (MUSTER_POLICY_INLINE) and as the lines of NCCL's example tuner (NCCL_TUNER_CONFIG_FILE).
 * Every call gets a fresh cost table; a function that does nothing is called in the same loop, and
 * its time is subtracted.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/scratch.h"
#include "nccl/tuner_abi.h"
#include "ticks.h"

enum {
    ALGOS = 7,
    PROTOS = 3,
    ENTRIES = ALGOS * PROTOS,
    ALL_REDUCE = 4,
    RANKS = 8,
    SIZES = 4096,
    CALLS = 64, /* between two readings of the clock */
    BATCHES = 20000,
    OLDEST = 3,
    NEWEST = 7,
};

static const unsigned rule_counts[] = {1, 1000};

typedef int ask_v4(void *context, int func, size_t bytes, int pipe_ops, float *cost, int algos,
                   int protos, int registered, int *channels);

struct tuner {
    unsigned api;
    void *context;
    ask_v4 *ask;
    int (*ask_v3)(void *context, int func, size_t bytes, int pipe_ops, float *cost, int algos,
                  int protos, int *channels);
};

static int ask_nothing(void *context, int func, size_t bytes, int pipe_ops, float *cost, int algos,
                       int protos, int registered, int *channels)
{
    (void)context, (void)func, (void)bytes, (void)pipe_ops, (void)cost, (void)algos, (void)protos;
    (void)registered, (void)channels;
    return 0;
}

static void report_nothing(int level, unsigned long flags, const char *file, int line,
                           const char *format, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)format;
}

/* ---- Rules: as many intervals from 1 KiB to 1 GiB, tree and ring by turns ---- */

static unsigned long long bound(unsigned i, unsigned rules)
{
    return (unsigned long long)(1024 * pow(2, 20.0 * i / rules));
}

static void write_rules(unsigned rules, const char *csv)
{
    char *policy;
    size_t size;
    FILE *ours = open_memstream(&policy, &size), *theirs = fopen(csv, "w");
    if (!ours || !theirs) {
        fprintf(stderr, "decision_cost: %s: cannot write the rules\n", csv);
        exit(EXIT_FAILURE);
    }
    fprintf(ours, "muster: 1\npolicy:\n");
    for (unsigned i = 0; i < rules; i++) {
        unsigned long long from = bound(i, rules), to = bound(i + 1, rules) - 1;
        const char *algo = i % 2 ? "tree" : "ring";
        fprintf(ours, "- {name: r%u, match: {bytes: %llu..%llu}, prefer: {algo: %s}}\n", i, from,
                to, algo);
        fprintf(theirs, "allreduce,%llu,%llu,%s,simple,-1,-1,-1,-1,-1\n", from, to, algo);
    }
    fclose(ours);
    fclose(theirs);
    setenv("MUSTER_POLICY_INLINE", policy, 1);
    setenv("NCCL_TUNER_CONFIG_FILE", csv, 1);
    free(policy);
}

/* ---- A plugin ---- */

static int open_tuner(struct tuner *tuner, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "decision_cost: %s\n", dlerror());
        return -1;
    }
    const struct nccl_tuner_v5 *table = NULL;
    for (tuner->api = NEWEST; tuner->api >= OLDEST; tuner->api--) {
        char name[32];
        snprintf(name, sizeof name, "ncclTunerPlugin_v%u", tuner->api);
        if ((table = dlsym(library, name)))
            break;
    }
    if (!table) {
        fprintf(stderr, "decision_cost: %s: no tuner interface from v3 to v7\n", path);
        return -1;
    }
    struct nccl_nvl_domains domains = {1, RANKS, RANKS};
    struct nccl_tuner_constants_v7 constants;
    memset(&constants, 0, sizeof constants);
    const struct nccl_tuner_v3 *old = (const void *)table;
    tuner->ask = table->get_coll_info;
    tuner->ask_v3 = tuner->api == 3 ? old->get_coll_info : NULL;
    return tuner->api < 5
               ? old->init(RANKS, 1, report_nothing, &tuner->context)
               : table->init(&tuner->context, 1, RANKS, 1, report_nothing, &domains, &constants);
}

static void fill(float *cost)
{
    for (unsigned i = 0; i < ENTRIES; i++)
        cost[i] = i < 6 || i == 14 ? 10 + (float)i : -1;
}

/* ---- Time ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void batch(const struct tuner *tuner, ask_v4 *ask, const size_t *sizes)
{
    static float fresh[ENTRIES];
    if (fresh[0] == 0)
        fill(fresh);
    for (unsigned i = 0; i < CALLS; i++) {
        float cost[ENTRIES];
        int channels = 0;
        memcpy(cost, fresh, sizeof cost);
        if (tuner->ask_v3 && ask != ask_nothing)
            tuner->ask_v3(tuner->context, ALL_REDUCE, sizes[i], 1, cost, ALGOS, PROTOS, &channels);
        else
            ask(tuner->context, ALL_REDUCE, sizes[i], 1, cost, ALGOS, PROTOS, 0, &channels);
        __asm__ volatile("" : : "r"(cost), "r"(&channels) : "memory");
    }
}

static bool differ(const float *a, const float *b)
{
    bool differ = false;
    for (unsigned i = 0; i < ENTRIES; i++)
        differ |= a[i] < b[i] || a[i] > b[i];
    return differ;
}

/* Nanoseconds a call: median and 99th percentile over batches. */
static void measure(const struct tuner *tuner, ask_v4 *ask, double step_ns, double *median,
                    double *tail)
{
    static double time[BATCHES];
    static size_t sizes[SIZES];
    ask_v4 *volatile hidden = ask; /* not to be inlined */
    for (unsigned i = 0; i < SIZES; i++)
        sizes[i] = (size_t)bound(i * 2654435761u % SIZES, SIZES);
    for (unsigned i = 0; i < BATCHES; i++) {
        uint64_t begin = bench_ticks();
        batch(tuner, hidden, &sizes[i * CALLS % SIZES]);
        time[i] = (double)(bench_ticks() - begin) * step_ns / CALLS;
    }
    qsort(time, BATCHES, sizeof *time, compare);
    *median = time[BATCHES / 2];
    *tail = time[BATCHES * 99 / 100];
}

static int in_child(const char *path, unsigned rules)
{
    struct tuner tuner = {0};
    double none, none_tail, median, tail, step_ns = bench_tick_ns();
    float cost[ENTRIES];
    int channels = 0;
    if (open_tuner(&tuner, path) != 0)
        return EXIT_FAILURE;
    fill(cost);
    struct tuner v4 = tuner;
    measure(&v4, ask_nothing, step_ns, &none, &none_tail);
    measure(&tuner, tuner.ask, step_ns, &median, &tail);
    if (tuner.ask_v3)
        tuner.ask_v3(tuner.context, ALL_REDUCE, 2048, 1, cost, ALGOS, PROTOS, &channels);
    else
        tuner.ask(tuner.context, ALL_REDUCE, 2048, 1, cost, ALGOS, PROTOS, 0, &channels);
    float before[ENTRIES];
    fill(before);
    const char *name = strrchr(path, '/');
    printf("%-36s v%u %6u %9.1f %9.1f   %s\n", name ? name + 1 : path, tuner.api, rules,
           median - none, tail - none, differ(cost, before) ? "steers" : "writes nothing");
    fflush(stdout);
    return EXIT_SUCCESS;
}

static int run(const char *path, unsigned rules, const char *dir)
{
    char csv[4096 + 16];
    int status = -1;
    snprintf(csv, sizeof csv, "%s/rules.csv", dir);
    pid_t child = fork();
    if (child == 0) {
        write_rules(rules, csv);
        _exit(in_child(path, rules));
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status) == EXIT_SUCCESS ? 0 : -1;
}

int main(int argc, char **argv)
{
    char dir[4096];
    struct muster_err err;
    int failed = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: decision_cost PLUGIN.so...\n");
        return EXIT_FAILURE;
    }
    if (muster_scratch_make(dir, sizeof dir, "/tmp", &err) != 0) {
        fprintf(stderr, "decision_cost: %s\n", err.text);
        return EXIT_FAILURE;
    }
    printf("%-36s %2s %6s %9s %9s\n", "ns per getCollInfo", "", "rules", "median", "p99");
    fflush(stdout);
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof rule_counts / sizeof rule_counts[0]; k++)
            failed |= run(argv[i], rule_counts[k], dir);
    muster_scratch_remove(dir);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
