/* Pipelines: 1F1B, and interleaved with several chunks of layers a stage. The order of each stage
 * is the usual one (warm-up, one forward one backward, cool-down); turns in which every stage
 * computes at most once say which sends and receives go out together. */
#include <stdio.h>
#include <stdlib.h>

#include "base/nccl_types.h"
#include "program.h"

enum { CHUNKS_MAX = 4, MICRO_MAX = 32, WORKS_MAX = 2 * CHUNKS_MAX * MICRO_MAX };

/* Forward or backward of a micro-batch through a chunk. */
struct work {
    bool backward;
    uint8_t chunk, micro;
};

struct schedule {
    unsigned stages, chunks, micros;
    struct work work[JOB_STAGES_MAX][WORKS_MAX]; /* in order */
    unsigned next[JOB_STAGES_MAX];
    /* What has come in, for each chunk and micro-batch. */
    bool forward[JOB_STAGES_MAX][CHUNKS_MAX][MICRO_MAX];
    bool backward[JOB_STAGES_MAX][CHUNKS_MAX][MICRO_MAX];
};

/* The k-th forward (or backward) of a stage: micro-batches go in groups of `stages` through one
 * chunk after the other. */
static struct work work_of(const struct schedule *s, unsigned k, bool backward)
{
    unsigned round = s->stages * s->chunks;
    unsigned chunk = k % round / s->stages;
    unsigned micro = s->chunks == 1 ? k : k / round * s->stages + k % s->stages;
    return (struct work){.backward = backward,
                         .chunk = (uint8_t)(backward ? s->chunks - 1 - chunk : chunk),
                         .micro = (uint8_t)micro};
}

static void order(struct schedule *s, unsigned stage)
{
    unsigned all = s->chunks * s->micros, n = 0, backward = 0;
    unsigned ahead = s->chunks == 1 ? s->stages - 1 - stage
                                    : 2 * (s->stages - 1 - stage) + (s->chunks - 1) * s->stages;
    ahead = ahead > all ? all : ahead;
    for (unsigned k = 0; k < all; k++) {
        s->work[stage][n++] = work_of(s, k, false);
        if (k >= ahead)
            s->work[stage][n++] = work_of(s, backward++, true);
    }
    while (backward < all)
        s->work[stage][n++] = work_of(s, backward++, true);
}

/* Where the result of a work goes: false, nowhere. */
static bool receiver(const struct schedule *s, unsigned stage, const struct work *work,
                     unsigned *to, unsigned *chunk)
{
    unsigned last = s->stages - 1;
    *chunk = work->chunk;
    if (!work->backward) {
        *chunk += stage == last;
        *to = stage == last ? 0 : stage + 1;
        return *chunk < s->chunks;
    }
    if (stage == 0 && work->chunk == 0)
        return false;
    *chunk -= stage == 0;
    *to = stage == 0 ? last : stage - 1;
    return true;
}

static bool ready(const struct schedule *s, unsigned stage, const struct work *work)
{
    if (!work->backward)
        return (stage == 0 && work->chunk == 0) || s->forward[stage][work->chunk][work->micro];
    return (stage + 1 == s->stages && work->chunk + 1u == s->chunks) ||
           s->backward[stage][work->chunk][work->micro];
}

struct pipeline {
    struct job *job;
    struct program_maker maker[JOB_STAGES_MAX];
    double forward_ns, tensor_ns, leg_ns;
};

static void compute(struct pipeline *pipeline, unsigned stage, const struct work *work)
{
    struct job *job = pipeline->job;
    struct program_maker *maker = &pipeline->maker[stage];
    enum action_part part = work->backward ? PART_BACKWARD : PART_FORWARD;
    double ns = pipeline->forward_ns * (work->backward ? 2 : 1);
    if (stage == 0 && !work->backward)
        make_host(maker, PART_INPUT, 0.1e6);
    bool tensor = job->shape[GROUP_TENSOR].n > 1;
    for (unsigned i = 0; i < 2; i++) {
        make_kernel(maker, part, ns / 2);
        if (tensor) {
            make_call(maker, GROUP_TENSOR, MUSTER_FUNC_ALL_REDUCE, 3, pipeline->tensor_ns);
            make_wait(maker, 3);
        }
    }
}

static void turn(struct pipeline *pipeline, struct schedule *s, unsigned *left)
{
    struct action_leg leg[JOB_STAGES_MAX][4];
    unsigned legs[JOB_STAGES_MAX] = {0}, done = 0;
    const struct work *did[JOB_STAGES_MAX] = {0};
    for (unsigned stage = 0; stage < s->stages; stage++) {
        const struct work *work = &s->work[stage][s->next[stage]];
        if (s->next[stage] < 2 * s->chunks * s->micros && ready(s, stage, work))
            did[stage] = work;
    }
    for (unsigned stage = 0; stage < s->stages; stage++) {
        unsigned to, chunk;
        if (!did[stage])
            continue;
        compute(pipeline, stage, did[stage]);
        s->next[stage]++;
        done++;
        if (!receiver(s, stage, did[stage], &to, &chunk))
            continue;
        (did[stage]->backward ? s->backward : s->forward)[to][chunk][did[stage]->micro] = true;
        if (to == stage)
            continue;
        leg[stage][legs[stage]++] = (struct action_leg){.peer = (uint8_t)to, .send = true};
        leg[to][legs[to]++] = (struct action_leg){.peer = (uint8_t)stage};
    }
    for (unsigned stage = 0; stage < s->stages; stage++)
        if (legs[stage])
            make_legs(&pipeline->maker[stage], leg[stage], legs[stage], pipeline->leg_ns);
    if (done == 0) {
        fprintf(stderr, "verdicts: a pipeline of %u stages stands still\n", s->stages);
        exit(2);
    }
    *left -= done;
}

void make_pipeline(struct job *job, struct chance *chance, unsigned chunks)
{
    struct schedule *s = calloc(1, sizeof *s);
    if (!s)
        exit(2);
    s->stages = job->stages;
    s->chunks = chunks;
    s->micros = job->stages * (2 + (chunks == 1 ? chance_below(chance, 2) : 0));
    double each = job->work_ns / (3 * chunks * s->micros);
    struct pipeline pipeline = {.job = job,
                                .forward_ns = each,
                                .tensor_ns = each * chance_log(chance, 0.01, 0.08),
                                .leg_ns = each * chance_log(chance, 0.01, 0.1)};
    for (unsigned stage = 0; stage < s->stages; stage++) {
        pipeline.maker[stage] = (struct program_maker){.job = job, .program = &job->program[stage]};
        make_host(&pipeline.maker[stage], PART_INPUT, chance_log(chance, 0.1e6, 1e6));
        order(s, stage);
    }
    for (unsigned left = s->stages * 2 * chunks * s->micros; left > 0;)
        turn(&pipeline, s, &left);
    double reduce = job->work_ns * chance_log(chance, 0.02, 0.2);
    struct chance same = *chance;
    for (unsigned stage = 0; stage < s->stages; stage++) {
        *chance = same; /* a collective of all ranks is one in every program or in none */
        if (job->shape[GROUP_DATA].n > 1) {
            make_call(&pipeline.maker[stage], GROUP_DATA, MUSTER_FUNC_ALL_REDUCE, 2, reduce);
            make_wait(&pipeline.maker[stage], 2);
        }
        make_update(&pipeline.maker[stage], chance, GROUP_ALL);
    }
    free(s);
}
