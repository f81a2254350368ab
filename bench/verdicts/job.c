#include "job.h"

#include <string.h>

#include "program.h"

static const char *const family_word[FAMILIES] = {
    [FAMILY_DDP] = "ddp",
    [FAMILY_FSDP] = "fsdp",
    [FAMILY_TP] = "tp-dp",
    [FAMILY_PIPELINE] = "tp-pp-dp",
    [FAMILY_INTERLEAVED] = "interleaved",
    [FAMILY_EXPERTS] = "experts",
    [FAMILY_EXPERT_SENDS] = "expert-sends",
    [FAMILY_CONTEXT] = "context",
};

static const char *const category_word[CASES] = {
    [CASE_LATE_GPU] = "late-gpu",
    [CASE_LATE_CPU] = "late-cpu",
    [CASE_SLOW_GPU] = "slow-gpu",
    [CASE_THERMAL] = "thermal-drift",
    [CASE_SLOW_HOST] = "slow-host",
    [CASE_SLOW_LINK] = "slow-link",
    [CASE_TWO] = "two-culprits",
    [CASE_MOVES] = "culprit-moves",
    [CASE_MIXED_TIMING] = "mixed-timing",
    [CASE_3D] = "late-in-3d",
    [CASE_MISSING_LOGS] = "missing-logs",
    [CASE_NOISE] = "late-in-noise",
    [CASE_PARTIAL_IN] = "partial-culprit-in",
    [CASE_PARTIAL_OUT] = "partial-culprit-out",
    [CASE_ACCUMULATE] = "grad-accum-late",
    [CASE_RANK0] = "rank0-periodic",
    [CASE_TICKS] = "daemon-ticks",
    [CASE_GRAPH] = "cuda-graph",
    [CASE_CLEAN] = "clean",
    [CASE_SEQUENCES] = "seq-imbalance",
    [CASE_ROUTING] = "moe-routing",
    [CASE_HOT_EXPERT] = "moe-hot-expert",
    [CASE_GC] = "gc-pauses",
    [CASE_STAGES] = "uneven-stages",
    [CASE_INPUT_WAIT] = "input-wait",
    [CASE_WARM_UP] = "warm-up",
    [CASE_NO_GPU_TIMES] = "no-gpu-times",
};

const char *job_family_word(unsigned family)
{
    return family < FAMILIES ? family_word[family] : "any";
}

const char *job_category_word(unsigned category)
{
    return category < CASES ? category_word[category] : "any";
}

static int index_of(const char *const *word, int n, const char *what)
{
    int i = n;
    while (i-- > 0 && strcmp(word[i], what) != 0) {
    }
    return i;
}

int job_family_of(const char *word)
{
    return index_of(family_word, FAMILIES, word);
}

int job_category_of(const char *word)
{
    return index_of(category_word, CASES, word);
}

bool job_crosses(const struct job *job, enum job_group group, unsigned first)
{
    const struct job_shape *shape = &job->shape[group];
    return job_host(first) != job_host(first + (shape->n - 1) * shape->stride);
}

void job_free(struct job *job)
{
    for (unsigned s = 0; s < JOB_STAGES_MAX; s++)
        program_free(&job->program[s]);
}
