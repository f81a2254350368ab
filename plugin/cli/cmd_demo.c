/* `muster demo`: a job with a late rank, on this machine's GPUs if it can be, else a recording. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allreduce/allreduce.h"
#include "base/env.h"
#include "base/nccl_types.h"
#include "cli/cmd.h"
#include "cli/cmd_report.h"
#include "demo/demo_recording.h"
#include "launch/job_environment.h"
#include "launch/scratch.h"

enum {
    PROBE_S = 30,
    JOB_S = 90,
    STEPS = 60,
    WARMUP_STEPS = 5,
    LATE_US = 2000,
};

struct demo_options {
    const char *nccl, *out;
    bool recording;
};

static const struct muster_opt options[] = {
    {.name = "nccl",
     .type = MUSTER_OPT_TEXT,
     .offset = offsetof(struct demo_options, nccl),
     .value = "PATH",
     .help = "libnccl.so.2 to use (default: the loader's, else a Python environment's)"},
    {.name = "recording",
     .type = MUSTER_OPT_FLAG,
     .offset = offsetof(struct demo_options, recording),
     .help = "play the recording even where a job could run"},
    {.name = "dir",
     .letter = 'd',
     .also = "out",
     .type = MUSTER_OPT_TEXT,
     .offset = offsetof(struct demo_options, out),
     .value = "DIR",
     .help = "keep the run directory there (default: it is removed)"},
    {.name = NULL},
};

/* Why no job can run here, or 0. */
static int find_gpus(const struct demo_options *given, struct muster_allreduce_probe *probe,
                     struct muster_err *err)
{
    if (given->recording)
        return muster_fail(err, "--recording was given");
    if (muster_allreduce_probe(given->nccl, PROBE_S, probe, err))
        return -1;
    if (probe->gpus < 2)
        return muster_fail(err, "%d GPU%s here, and a job needs two", probe->gpus,
                           probe->gpus == 1 ? "" : "s");
    return 0;
}

static int set_environment(const char *run, struct muster_err *err)
{
    const struct muster_capture capture = {.dir = run};
    struct muster_environment environment;
    /* Whatever the user's configuration has of timing: the demo shows GPU times. */
    if (muster_environment_plan(&capture, &environment, err) ||
        muster_environment_add(&environment, "MUSTER_TIMING", "full", err) ||
        muster_environment_add(&environment, "MUSTER_OFF", "0", err))
        return -1;
    return muster_environment_apply(&environment, err);
}

static struct muster_allreduce_plan make_plan(int gpus, const char *nccl)
{
    struct muster_allreduce_plan plan = {
        .gpus = gpus < MUSTER_ALLREDUCE_GPUS ? gpus : MUSTER_ALLREDUCE_GPUS,
        .mode = MUSTER_ALLREDUCE_STEP,
        .sizes = 5,
        .bytes = {4 << 20, 16 << 20, 256 << 10, 1 << 10, 32 << 20},
        .warmup = WARMUP_STEPS,
        .rounds = STEPS,
        .late_gpu_us = LATE_US,
    };
    plan.late_rank = plan.gpus / 2;
    snprintf(plan.nccl, sizeof plan.nccl, "%s", nccl ? nccl : "");
    return plan;
}

static int run_job(const struct muster_allreduce_probe *probe, const char *nccl,
                   struct muster_err *err)
{
    static const char *const self[] = {"demo", NULL};
    struct muster_allreduce_result result[MUSTER_ALLREDUCE_SIZES];
    struct muster_allreduce_plan plan = make_plan(probe->gpus, nccl);
    char version[24];
    muster_nccl_version_text(version, sizeof version, (uint32_t)probe->nccl);
    printf("A job on %d GPUs (%s), NCCL %s: %d training steps of %u all-reduces. Rank %d has "
           "%d ms\nmore GPU work before each step.\n\n",
           plan.gpus, probe->gpu, version, STEPS + WARMUP_STEPS, plan.sizes, plan.late_rank,
           LATE_US / 1000);
    fflush(stdout);
    return muster_allreduce_run(&plan, self, JOB_S, result, err);
}

static int play_recording(const char *scratch, const char *run, const char *why,
                          struct muster_err *err)
{
    char *argv[] = {(char *)"replay", (char *)(uintptr_t)scratch, (char *)"--out",
                    (char *)(uintptr_t)run, NULL};
    printf("No job on GPUs here: %s.\n"
           "So this is a recording of one: %d ranks, each on an NVIDIA H200, NCCL 2.28.9, 45 "
           "training\n"
           "steps; from the sixth step on rank %d had %d ms more GPU work before each step.\n\n",
           why, MUSTER_DEMO_RANKS, MUSTER_DEMO_LATE_RANK, MUSTER_DEMO_LATE_MS);
    fflush(stdout);
    if (muster_demo_recording_write(scratch, err))
        return -1;
    if (muster_cmd_replay.run(&muster_cmd_replay, 4, argv))
        return muster_fail(err, "the recording could not be played");
    return 0;
}

static int demonstrate(const struct demo_options *given, const char *scratch,
                       struct muster_err *err)
{
    struct muster_allreduce_probe probe;
    struct muster_err why;
    char inside[PATH_MAX];
    int n = snprintf(inside, sizeof inside, "%s/run", scratch);
    if (n < 0 || (size_t)n >= sizeof inside)
        return muster_fail(err, "%s: the name is too long", scratch);
    const char *run = given->out ? given->out : inside;
    if (set_environment(run, err))
        return -1;
    if (find_gpus(given, &probe, &why) ? play_recording(scratch, run, why.text, err)
                                       : run_job(&probe, given->nccl, err))
        return -1;
    const struct muster_run_query query = {.run = &run, .runs = 1};
    if (muster_report_print(&query, &(struct muster_report_request){0}, stdout, err))
        return -1;
    if (!given->out)
        printf(
            "\nThe run directory was temporary and is gone; `muster demo --dir DIR` keeps it.\n");
    return 0;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct demo_options given = {0};
    struct muster_err err;
    char scratch[PATH_MAX];
    const char *below = muster_env("TMPDIR");
    int status;
    if (muster_allreduce_is_rank(argc, argv))
        return muster_allreduce_rank(argv[argc - 1]);
    if (!muster_opt_parse_all(self, argc, argv, &given, &status))
        return status;
    int failed = muster_scratch_make(scratch, sizeof scratch, below ? below : "/tmp", &err);
    if (!failed) {
        failed = demonstrate(&given, scratch, &err);
        muster_scratch_remove(scratch);
    }
    if (failed)
        fprintf(stderr, "muster demo: %s\n", err.text);
    return failed ? MUSTER_STATUS_USAGE : MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_demo = {
    .name = "demo",
    .summary = "record and report a job with a late rank: on this machine's GPUs, or recorded",
    .usage = "[options]",
    .about = "With two or more GPUs and a loadable NCCL a built-in all-reduce job runs on all of\n"
             "them, and one rank is late. Otherwise a recording of such a job on 4 GPUs, which is\n"
             "part of this command, is played through the same plugin.\n",
    .examples = "  muster demo\n"
                "Kept for a closer look:\n"
                "  muster demo --dir demo-run && muster report --by op demo-run\n",
    .options = options,
    .run = run,
};
