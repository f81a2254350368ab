/* What a case is: its family, size, noise, and how it is recorded. */
#include <string.h>

#include "program.h"

/* Families in which the category can happen. */
static unsigned families_of(enum job_category category)
{
    const unsigned all = (1u << FAMILIES) - 1;
    switch (category) {
    case CASE_3D:
    case CASE_STAGES:
        return 1u << FAMILY_PIPELINE | 1u << FAMILY_INTERLEAVED;
    case CASE_ROUTING:
    case CASE_HOT_EXPERT:
        return 1u << FAMILY_EXPERT_SENDS;
    case CASE_ACCUMULATE:
        return 1u << FAMILY_DDP | 1u << FAMILY_FSDP;
    case CASE_GRAPH:
        return 1u << FAMILY_DDP | 1u << FAMILY_TP;
    default:
        return all;
    }
}

static enum job_family draw_family(struct chance *chance, unsigned allowed)
{
    static const unsigned weight[FAMILIES] = {5, 5, 4, 3, 2, 2, 3, 2};
    unsigned sum = 0;
    for (unsigned f = 0; f < FAMILIES; f++)
        sum += allowed >> f & 1 ? weight[f] : 0;
    unsigned at = chance_below(chance, sum), f = 0;
    while (!(allowed >> f & 1) || at >= weight[f]) {
        at -= allowed >> f & 1 ? weight[f] : 0;
        f++;
    }
    return f;
}

static unsigned draw_ranks(struct chance *chance, enum job_category category)
{
    static const unsigned size[] = {8, 8, 16, 16, 16, 32, 32, 64, 64, 128};
    unsigned ranks = size[chance_below(chance, sizeof size / sizeof *size)];
    bool hosts = category == CASE_SLOW_HOST || category == CASE_SLOW_LINK ||
                 category == CASE_PARTIAL_IN || category == CASE_PARTIAL_OUT;
    return hosts && ranks < 24 ? 32 : ranks;
}

static unsigned one_of(struct chance *chance, unsigned a, unsigned b, unsigned c)
{
    unsigned at = chance_below(chance, 3);
    return at == 0 ? a : at == 1 ? b : c;
}

static void draw_shapes(struct job *job, struct chance *chance)
{
    unsigned tensor = 1, ring = 1, stages = 1;
    switch (job->family) {
    case FAMILY_TP:
        tensor = one_of(chance, 2, 4, job->ranks > 8 ? 8 : 4);
        break;
    case FAMILY_PIPELINE:
    case FAMILY_INTERLEAVED:
        stages = one_of(chance, 2, 4, job->ranks > 16 ? 8 : 4);
        tensor = job->ranks / stages >= 4 ? one_of(chance, 1, 2, 2) : 1;
        break;
    case FAMILY_CONTEXT:
        ring = one_of(chance, 2, 4, 8);
        break;
    default:
        break;
    }
    job->stages = stages;
    job->shape[GROUP_ALL] = (struct job_shape){job->ranks, 1};
    job->shape[GROUP_TENSOR] = (struct job_shape){tensor, 1};
    job->shape[GROUP_DATA] = (struct job_shape){job->ranks / tensor / stages, tensor};
    job->shape[GROUP_STAGES] = (struct job_shape){stages, job->ranks / stages};
    bool wide = job->ranks >= 16 && chance_is(chance, 0.1);
    job->shape[GROUP_EXPERT] = (struct job_shape){wide ? 16 : 8, 1};
    job->shape[GROUP_RING] = (struct job_shape){ring, 1};
}

static void draw_noise(struct job *job, struct chance *chance)
{
    struct job_noise *noise = &job->noise;
    bool loud = job->category == CASE_NOISE;
    noise->speed = chance_range(chance, 0.002, 0.025);
    noise->wander = chance_is(chance, 0.3) ? chance_range(chance, 0.02, 0.12) : 0;
    noise->wander_steps = 1 + chance_below(chance, 4);
    noise->kernel = loud ? chance_range(chance, 0.02, 0.06) : chance_log(chance, 0.002, 0.02);
    noise->spike_share = chance_log(chance, 1e-4, loud ? 2e-2 : 5e-3);
    noise->spike_ns = chance_log(chance, 0.05e6, loud ? 5e6 : 1e6);
    noise->host_speed = chance_range(chance, 0, 0.15);
    noise->host = chance_range(chance, 0.02, loud ? 0.5 : 0.2);
    noise->host_spike_share = chance_log(chance, 1e-3, loud ? 5e-2 : 1e-2);
    noise->host_spike_ns = chance_log(chance, 0.3e6, 5e6);
    noise->pause_share = chance_is(chance, 0.3) ? chance_log(chance, 1e-3, 5e-3) : 0;
    noise->pause_ns = chance_log(chance, 5e6, 60e6);
    noise->link = chance_range(chance, 0.01, loud ? 0.15 : 0.06);
    if (job->category == CASE_SEQUENCES)
        noise->batch = chance_range(chance, 0.05, 0.3);
    if (job->category == CASE_GC) {
        noise->pause_share = chance_log(chance, 0.01, 0.2);
        noise->pause_ns = chance_log(chance, 10e6, 150e6);
    }
    if (job->family == FAMILY_EXPERT_SENDS)
        noise->routing = chance_range(chance, 0.02, 0.08);
    if (job->category == CASE_ROUTING)
        noise->routing = chance_range(chance, 0.1, 0.4);
    if (job->category == CASE_INPUT_WAIT) {
        noise->input_share = chance_log(chance, 0.05, 1);
        noise->input_ns = job->work_ns * chance_log(chance, 0.1, 2);
    }
    if (job->category == CASE_WARM_UP) {
        noise->warm_up_steps = 1 + chance_below(chance, 4);
        noise->warm_up_ns = chance_log(chance, 0.5e9, 20e9);
    }
}

static void draw_recording(struct job *job, struct chance *chance)
{
    double kind = chance_next(chance);
    enum job_timing all = kind < 0.45 ? TIMED_FULL : TIMED_AUTO;
    /* Graphs have no events, only the stamps of their kernels. */
    job->by_events = chance_is(chance, 0.7) && !job->graph;
    job->lost = chance_is(chance, 0.15) ? chance_log(chance, 1e-3, 2e-2) : 0;
    /* What a process pays in `auto`: operations a second times a price, under 0.5 % of its time. */
    double price_ns = chance_log(chance, 2.5e3, 40e3);
    double paid = price_ns * job->program[0].calls / job->work_ns;
    while (paid > 0.005 && job->level < 8) {
        paid /= 2;
        job->level++;
    }
    job->level_differs = job->level > 0 && chance_is(chance, 0.3);
    for (unsigned r = 0; r < job->ranks; r++) {
        double own = chance_next(chance);
        job->timing[r] = (uint8_t)all;
        job->seen[r] = true;
        if (job->category == CASE_NO_GPU_TIMES)
            job->timing[r] = TIMED_LIGHT;
        if (job->category == CASE_MIXED_TIMING)
            job->timing[r] = own < 0.4 ? TIMED_FULL : own < 0.8 ? TIMED_AUTO : TIMED_LIGHT;
    }
}

static void make_programs(struct job *job, struct chance *chance)
{
    switch (job->family) {
    case FAMILY_DDP:
        make_data_parallel(job, chance);
        break;
    case FAMILY_FSDP:
        make_sharded(job, chance);
        break;
    case FAMILY_TP:
        make_tensor(job, chance);
        break;
    case FAMILY_PIPELINE:
        make_pipeline(job, chance, 1);
        break;
    case FAMILY_INTERLEAVED:
        make_pipeline(job, chance, 2);
        break;
    case FAMILY_CONTEXT:
        make_context(job, chance);
        break;
    default:
        make_experts(job, chance);
        break;
    }
}

static unsigned ops_of(const struct job *job, const struct action *action)
{
    bool is_call = action->kind == ACT_CALL || action->kind == ACT_RING;
    unsigned others = job->shape[GROUP_EXPERT].n - 1;
    return action->by_sends ? 2 * others : action->legs + (is_call ? 1u : 0u);
}

/* As many steps as there is room for operations. */
static unsigned steps_of(const struct job *job)
{
    enum { OPS = 60000, STEPS_MIN = 50, STEPS_MAX = 400 };
    const struct program *program = &job->program[0];
    unsigned ops = 0;
    for (unsigned i = 0; i < program->n; i++)
        ops += ops_of(job, &program->action[i]);
    unsigned steps = OPS / job->ranks / (ops ? ops : 1);
    return steps < STEPS_MIN ? STEPS_MIN : steps > STEPS_MAX ? STEPS_MAX : steps;
}

void job_draw(uint64_t seed, enum job_category category, enum job_family family, unsigned ranks,
              struct job *to)
{
    /* 26: so many categories there were first, and their cases stay what they are. */
    struct chance chance = {.state = seed * 26 + (uint64_t)category};
    memset(to, 0, sizeof *to);
    to->seed = chance_mix(seed * 1000003 + (uint64_t)category);
    to->category = category;
    unsigned allowed = families_of(category);
    enum job_family drawn = draw_family(&chance, allowed);
    to->family = family < FAMILIES && allowed >> family & 1 ? family : drawn;
    to->ranks = draw_ranks(&chance, category);
    to->ranks = ranks ? ranks : to->ranks;
    draw_shapes(to, &chance);
    to->work_ns = chance_log(&chance, 15e6, 500e6);
    to->accumulate = category == CASE_ACCUMULATE ? 2 + chance_below(&chance, 4) : 1;
    to->sync = chance_is(&chance, 0.6);
    to->sync |= category == CASE_NO_GPU_TIMES;
    to->graph = category == CASE_GRAPH;
    to->eager = chance_unit(chance_at(to->seed, 0xea6e4, 0, 0)) < 0.3;
    to->ahead_ns = chance_log(&chance, 20e6, 300e6);
    draw_noise(to, &chance);
    make_programs(to, &chance);
    to->steps = steps_of(to);
    draw_recording(to, &chance);
}
