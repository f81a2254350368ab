/*
 * allreduce: time of an all-reduce over all GPUs of this machine. What NCCL_PROFILER_PLUGIN names
 * is loaded, so that calls with different values of it, in turns, show what a plugin costs.
 */
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allreduce/allreduce.h"
#include "base/json.h"
#include "base/text.h"

static const char usage[] =
    "usage: allreduce [--gpus N] [--mode launch|gpu|step|first] [--sizes BYTES,...] [--iters N]\n"
    "                 [--warmup N] [--rounds N] [--late RANK] [--late-us N] [--late-host-us N]\n"
    "                 [--nccl PATH] [--deadline SECONDS] [--pin CPU,...] [--hosts] [--json]\n"
    "                 [--turns JOBS:FILE]\n"
    "launch: small operations back to back, host clock (default sizes 8,32768; 2000 iterations)\n"
    "gpu: large operations back to back, CUDA events (default 2MiB,64MiB; 200 iterations)\n"
    "step: each size once a round, each between CUDA events; here a rank can be late\n"
    "first: the communicator's first operations one by one, host clock (default 8; 1 iteration)\n"
    "--pin: after the warm-up rank r's calling thread stays on the r-th of these CPUs\n"
    "--hosts: each rank is a host of its own to NCCL, over this machine's sockets, so that ranks "
    "can share a GPU\n"
    "--turns: so many jobs that name this file share the GPUs; one at a time has a warm-up or "
    "round\n"
    "prints the median over rounds of the microseconds an all-reduce takes (mean over ranks)\n";

static const char *const modes[] = {"launch", "gpu", "step", "first"};

struct options {
    struct muster_allreduce_plan plan;
    unsigned deadline_s;
    bool json;
};

static int parse_mode(const char *text, int32_t *mode)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(text, modes[i]) == 0) {
            *mode = (int32_t)i;
            return 0;
        }
    return -1;
}

static int parse_sizes(const char *text, struct muster_allreduce_plan *plan)
{
    char word[32];
    plan->sizes = 0;
    while (*text) {
        size_t length = strcspn(text, ",");
        if (length >= sizeof word || plan->sizes == MUSTER_ALLREDUCE_SIZES)
            return -1;
        memcpy(word, text, length);
        word[length] = '\0';
        if (!muster_text_size(word, &plan->bytes[plan->sizes++]))
            return -1;
        text += length + (text[length] == ',');
    }
    return plan->sizes ? 0 : -1;
}

static int parse_cpus(const char *text, struct muster_allreduce_plan *plan)
{
    char *end = NULL;
    for (plan->cpus = 0; *text; text = *end == ',' ? end + 1 : end) {
        const long cpu = strtol(text, &end, 10);
        if (end == text || (*end && *end != ',') || cpu < 0 || cpu >= CPU_SETSIZE ||
            plan->cpus == MUSTER_ALLREDUCE_GPUS)
            return -1;
        plan->cpu[plan->cpus++] = (int32_t)cpu;
    }
    return plan->cpus ? 0 : -1;
}

static int parse_u32(const char *text, uint32_t *value)
{
    uint64_t number;
    if (!muster_text_u64(text, &number) || number > INT32_MAX)
        return -1;
    *value = (uint32_t)number;
    return 0;
}

static int parse_i32(const char *text, int32_t *value)
{
    uint32_t number;
    if (parse_u32(text, &number))
        return -1;
    *value = (int32_t)number;
    return 0;
}

static int parse_path(const char *text, struct muster_allreduce_plan *plan)
{
    int n = snprintf(plan->nccl, sizeof plan->nccl, "%s", text);
    return n < (int)sizeof plan->nccl ? 0 : -1;
}

static int parse_turns(const char *text, struct muster_allreduce_plan *plan)
{
    const char *file = strchr(text, ':');
    char jobs[16];
    if (!file || (size_t)(file - text) >= sizeof jobs)
        return -1;
    snprintf(jobs, sizeof jobs, "%.*s", (int)(file - text), text);
    const int n = snprintf(plan->turns, sizeof plan->turns, "%s", file + 1);
    return parse_u32(jobs, &plan->jobs) || plan->jobs == 0 || n == 0 || n >= (int)sizeof plan->turns
               ? -1
               : 0;
}

static int parse_option(int option, const char *text, struct options *options)
{
    struct muster_allreduce_plan *plan = &options->plan;
    switch (option) {
    case 'g':
        return parse_i32(text, &plan->gpus);
    case 'm':
        return parse_mode(text, &plan->mode);
    case 's':
        return parse_sizes(text, plan);
    case 'i':
        return parse_u32(text, &plan->iters);
    case 'w':
        return parse_u32(text, &plan->warmup);
    case 'r':
        return parse_u32(text, &plan->rounds);
    case 'l':
        return parse_i32(text, &plan->late_rank);
    case 'u':
        return parse_u32(text, &plan->late_gpu_us);
    case 'h':
        return parse_u32(text, &plan->late_host_us);
    case 'n':
        return parse_path(text, plan);
    case 'p':
        return parse_cpus(text, plan);
    case 'o':
        plan->hosts = 1;
        return 0;
    case 't':
        return parse_turns(text, plan);
    case 'd':
        return parse_u32(text, &options->deadline_s);
    case 'j':
        options->json = true;
        return 0;
    default:
        return -1;
    }
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"gpus", 1, NULL, 'g'},  {"mode", 1, NULL, 'm'},    {"sizes", 1, NULL, 's'},
        {"iters", 1, NULL, 'i'}, {"warmup", 1, NULL, 'w'},  {"rounds", 1, NULL, 'r'},
        {"late", 1, NULL, 'l'},  {"late-us", 1, NULL, 'u'}, {"late-host-us", 1, NULL, 'h'},
        {"nccl", 1, NULL, 'n'},  {"json", 0, NULL, 'j'},    {"deadline", 1, NULL, 'd'},
        {"pin", 1, NULL, 'p'},   {"hosts", 0, NULL, 'o'},   {"turns", 1, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
        if (parse_option(option, optarg, options)) {
            if (option != '?')
                fprintf(stderr, "allreduce: bad value: %s\n", optarg);
            return -1;
        }
    return optind == argc ? 0 : -1;
}

static void set_defaults(struct options *options)
{
    struct muster_allreduce_plan *plan = &options->plan;
    const bool launch = plan->mode == MUSTER_ALLREDUCE_LAUNCH;
    const bool first = plan->mode == MUSTER_ALLREDUCE_FIRST;
    if (plan->sizes == 0)
        (void)parse_sizes(first ? "8" : launch ? "8,32768" : "2MiB,64MiB", plan);
    if (plan->iters == 0)
        plan->iters = first ? 1 : launch ? 2000 : 200;
}

static void print(const struct options *options, const struct muster_allreduce_result *result)
{
    const struct muster_allreduce_plan *plan = &options->plan;
    struct muster_json json;
    if (!options->json)
        printf("# %d GPUs, %s, %u rounds of %u\n#      bytes   us (median)\n", plan->gpus,
               modes[plan->mode], plan->rounds, plan->iters);
    for (uint32_t i = 0; i < plan->sizes; i++) {
        if (!options->json) {
            printf("%12llu %13.3f\n", (unsigned long long)result[i].bytes, result[i].median_us);
            continue;
        }
        muster_json_begin(&json, stdout, false);
        muster_json_object(&json, NULL);
        muster_json_i64(&json, "gpus", plan->gpus);
        muster_json_str(&json, "mode", modes[plan->mode]);
        muster_json_u64(&json, "bytes", result[i].bytes);
        muster_json_real(&json, "median_us", result[i].median_us, 3);
        muster_json_array(&json, "us");
        for (uint32_t round = 0; round < plan->rounds; round++)
            muster_json_real(&json, NULL, result[i].us[round], 3);
        muster_json_end(&json);
        muster_json_end(&json);
    }
}

int main(int argc, char **argv)
{
    static const char *const self[] = {NULL};
    struct options options = {
        .plan = {.warmup = 50, .rounds = 20, .late_rank = -1},
        .deadline_s = 300,
    };
    struct muster_allreduce_result result[MUSTER_ALLREDUCE_SIZES];
    struct muster_allreduce_probe probe;
    struct muster_err err;
    if (muster_allreduce_is_rank(argc, argv))
        return muster_allreduce_rank(argv[argc - 1]);
    if (parse(argc, argv, &options)) {
        fputs(usage, stderr);
        return 2;
    }
    set_defaults(&options);
    if (options.plan.gpus == 0) {
        if (muster_allreduce_probe(*options.plan.nccl ? options.plan.nccl : NULL, 60, &probe,
                                   &err)) {
            fprintf(stderr, "allreduce: %s\n", err.text);
            return 1;
        }
        options.plan.gpus = probe.gpus;
    }
    if (muster_allreduce_run(&options.plan, self, options.deadline_s, result, &err)) {
        fprintf(stderr, "allreduce: %s\n", err.text);
        return 1;
    }
    print(&options, result);
    return 0;
}
