/* What is wrong in a case: whose work takes how much longer, where and when. */
#include <string.h>

#include "job.h"

static unsigned stage_program(const struct job *job, unsigned rank)
{
    return job_stage(job, rank);
}

/* A place of the step with GPU work, or with host work. */
static unsigned draw_place(const struct job *job, struct chance *chance, unsigned rank, bool host)
{
    const struct program *program = &job->program[stage_program(job, rank)];
    unsigned n = 0;
    for (unsigned pass = 0, chosen = 0;; pass++) {
        unsigned seen = 0;
        for (unsigned i = 0; i < program->n; i++) {
            const struct action *action = &program->action[i];
            bool fits = action->kind == (host ? ACT_HOST : ACT_KERNEL) &&
                        (job->category != CASE_ACCUMULATE || action->micro);
            if (fits && pass == 1 && seen == chosen)
                return i;
            seen += fits;
        }
        n = seen;
        chosen = n ? chance_below(chance, n) : 0;
        if (pass == 1)
            return 0;
    }
}

/* Share of the step that is lost: mostly what matters, sometimes what hardly does. */
static double draw_cost(struct chance *chance)
{
    return chance_log(chance, 0.004, 0.3);
}

static struct fault *add(struct job *job, enum fault_how how, unsigned first, unsigned ranks)
{
    struct fault *fault = &job->fault[job->faults++];
    *fault = (struct fault){.how = how,
                            .first = first,
                            .ranks = ranks,
                            .stage = job_stage(job, first),
                            .share = 1,
                            .until = job->steps,
                            .owed = true};
    return fault;
}

static struct fault *add_delay(struct job *job, struct chance *chance, bool host, unsigned rank)
{
    struct fault *fault = add(job, host ? HOW_HOST : HOW_GPU, rank, 1);
    fault->at = draw_place(job, chance, rank, host);
    fault->share = chance_is(chance, 0.6) ? 1 : chance_range(chance, 0.3, 1);
    fault->ns = draw_cost(chance) * job->step_ns / fault->share;
    return fault;
}

static struct fault *add_slow(struct job *job, struct chance *chance, bool drift, unsigned rank)
{
    struct fault *fault = add(job, drift ? HOW_DRIFT : HOW_SLOW, rank, 1);
    /* GPUs of a kind differ by up to 2.5 % of themselves: less than twice that is nobody's fault.
     */
    fault->factor = chance_log(chance, drift ? 0.08 : 0.05, 0.4);
    return fault;
}

static struct fault *add_any(struct job *job, struct chance *chance, unsigned rank)
{
    double kind = chance_next(chance);
    return kind < 0.4   ? add_delay(job, chance, false, rank)
           : kind < 0.7 ? add_delay(job, chance, true, rank)
                        : add_slow(job, chance, false, rank);
}

static unsigned draw_rank(const struct job *job, struct chance *chance)
{
    return chance_below(chance, job->ranks);
}

static void draw_slow_host(struct job *job, struct chance *chance)
{
    unsigned host = chance_below(chance, job->ranks / JOB_HOST_GPUS);
    bool gpus = chance_is(chance, 0.5);
    struct fault *fault = add(job, gpus ? HOW_SLOW : HOW_HOST, host * JOB_HOST_GPUS, JOB_HOST_GPUS);
    fault->factor = chance_log(chance, 0.05, 0.3);
    fault->ns = draw_cost(chance) * job->step_ns;
    fault->at = 0; /* the input: first in every program */
    fault->stage = JOB_STAGES_MAX;
}

static void draw_link(struct job *job, struct chance *chance)
{
    unsigned hosts = job->ranks / JOB_HOST_GPUS, from = chance_below(chance, hosts);
    struct fault *fault = add(job, HOW_LINK, from, 0);
    fault->to = (from + 1) % hosts;
    fault->factor = chance_log(chance, 1.3, 8);
}

static void draw_moves(struct job *job, struct chance *chance)
{
    unsigned n = 2 + chance_below(chance, 3);
    for (unsigned i = 0; i < n; i++) {
        struct fault *fault = add_any(job, chance, draw_rank(job, chance));
        fault->from = job->steps * i / n;
        fault->until = job->steps * (i + 1) / n;
        fault->share = 1;
    }
}

static void draw_two(struct job *job, struct chance *chance)
{
    unsigned first = draw_rank(job, chance);
    add_any(job, chance, first);
    add_any(job, chance, (first + 1 + chance_below(chance, job->ranks - 1)) % job->ranks);
}

/* Somebody else's program on the host of one rank, at its own pace. */
static void draw_ticks(struct job *job, struct chance *chance)
{
    struct fault *fault = add_delay(job, chance, true, draw_rank(job, chance));
    fault->share = chance_range(chance, 0.1, 0.5);
    fault->ns = draw_cost(chance) * job->step_ns / fault->share;
}

static void draw_rank0(struct job *job, struct chance *chance)
{
    struct fault *fault = add_delay(job, chance, chance_is(chance, 0.7), 0);
    fault->every = 2 + chance_below(chance, job->steps / 30 > 9 ? 9 : job->steps / 30 + 1);
    fault->share = 1;
    fault->ns = draw_cost(chance) * job->step_ns * fault->every;
}

/* What a job is like: nobody has to be named, and nobody but these may. */
static void draw_model(struct job *job, struct chance *chance)
{
    if (job->category == CASE_HOT_EXPERT) {
        struct fault *fault = add(job, HOW_EXPERT, draw_rank(job, chance), 1);
        fault->factor = chance_range(chance, 0.3, 1.5);
        fault->owed = false;
    } else if (job->category == CASE_STAGES) {
        unsigned stage = job->ranks / job->stages;
        struct fault *fault = add(job, HOW_SLOW, job->ranks - stage, stage);
        fault->factor = chance_range(chance, 0.1, 0.6);
        fault->owed = false;
    }
}

/* Who left no recording: not the culprits, unless that is the case. */
static void hide(struct job *job, struct chance *chance)
{
    unsigned culprit = job->faults ? job->fault[0].first : 0;
    unsigned hosts = job->ranks / JOB_HOST_GPUS;
    unsigned kept = 1 + chance_below(chance, hosts - 1);
    bool in = job->category == CASE_PARTIAL_IN;
    double gone = chance_range(chance, 0.05, 0.3);
    for (unsigned r = 0; r < job->ranks; r++) {
        unsigned after = (job_host(r) + hosts - job_host(culprit)) % hosts;
        bool lost = chance_is(chance, gone);
        if (job->category == CASE_MISSING_LOGS)
            job->seen[r] = r == culprit || !lost;
        else if (in || job->category == CASE_PARTIAL_OUT)
            job->seen[r] = in ? after < kept : after >= hosts - kept;
    }
}

static void draw_late(struct job *job, struct chance *chance)
{
    unsigned rank = draw_rank(job, chance);
    if (job->category == CASE_MIXED_TIMING && job->timing[rank] == TIMED_LIGHT)
        job->timing[rank] = TIMED_FULL;
    if (job->category == CASE_LATE_CPU || job->category == CASE_LATE_GPU ||
        job->category == CASE_GRAPH || job->category == CASE_NO_GPU_TIMES)
        add_delay(job, chance, job->category == CASE_LATE_CPU || job->category == CASE_NO_GPU_TIMES,
                  rank);
    else
        add_any(job, chance, rank);
}

void job_draw_faults(struct job *job)
{
    struct chance chance = {.state = job->seed ^ 0xfa017};
    switch (job->category) {
    case CASE_SLOW_GPU:
    case CASE_THERMAL:
        add_slow(job, &chance, job->category == CASE_THERMAL, draw_rank(job, &chance));
        break;
    case CASE_SLOW_HOST:
        draw_slow_host(job, &chance);
        break;
    case CASE_SLOW_LINK:
        draw_link(job, &chance);
        break;
    case CASE_TWO:
        draw_two(job, &chance);
        break;
    case CASE_MOVES:
        draw_moves(job, &chance);
        break;
    case CASE_ACCUMULATE:
        add_delay(job, &chance, chance_is(&chance, 0.5), draw_rank(job, &chance));
        break;
    case CASE_TICKS:
        draw_ticks(job, &chance);
        break;
    case CASE_RANK0:
        draw_rank0(job, &chance);
        break;
    case CASE_CLEAN:
    case CASE_SEQUENCES:
    case CASE_ROUTING:
    case CASE_HOT_EXPERT:
    case CASE_GC:
    case CASE_STAGES:
    case CASE_INPUT_WAIT:
    case CASE_WARM_UP:
        draw_model(job, &chance);
        break;
    default:
        draw_late(job, &chance);
        break;
    }
    if (job->ranks > JOB_HOST_GPUS || job->category == CASE_MISSING_LOGS)
        hide(job, &chance);
}
