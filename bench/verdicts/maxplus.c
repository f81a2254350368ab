#include "maxplus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double CALL_NS = 14e3;   /* host, to enqueue a collective */
static const double LAUNCH_NS = 9e3;  /* from a call until its kernel can begin */
static const double KERNEL_NS = 60e3; /* host, to launch the kernels of a block of layers */

struct lane {
    double host, compute, mark, last;
    double end[GROUPS];
    double slot[JOB_SLOTS];
    unsigned pc, step;
    double call, begin, late;
    double latest;      /* ACT_LEGS: begin of whoever came last */
    unsigned unmatched; /* bits of legs whose other side has not come */
    bool waiting;
};

struct meeting {
    unsigned come, number;
};

struct run {
    const struct job *job;
    unsigned faults, steps;
    launch_sink *sink;
    void *arg;
    struct lane *lane;
    struct meeting *meeting; /* [first member * GROUPS + group] */
    uint8_t *culprit;        /* bits of faults, of each rank */
    unsigned *stack, stacked;
};

enum draws {
    DRAW_SPEED,
    DRAW_WANDER,
    DRAW_KERNEL,
    DRAW_HOST,
    DRAW_PAUSE,
    DRAW_LINK,
    DRAW_BATCH,
    DRAW_ROUTING,
    DRAW_INPUT,
    DRAW_WARM_UP,
    DRAW_FAULT,
    DRAW_LEAVE
};

static uint64_t draw(const struct run *run, enum draws what, uint64_t who, uint64_t when)
{
    return chance_at(run->job->seed, (uint64_t)what + 1, who, when);
}

static uint64_t place_of(const struct lane *lane)
{
    return (uint64_t)lane->step << 16 | lane->pc;
}

/* How much longer kernels of this rank take in this step than those of the fastest GPU. */
static double speed_of(const struct run *run, unsigned rank, const struct lane *lane)
{
    const struct job_noise *noise = &run->job->noise;
    double factor = 1 + noise->speed * chance_unit(draw(run, DRAW_SPEED, rank, 0));
    if (noise->wander > 0) {
        uint64_t bits = draw(run, DRAW_WANDER, rank, lane->step / noise->wander_steps);
        double kind = chance_unit(bits), size = chance_unit(chance_mix(bits));
        factor += noise->wander * (kind < 0.5 ? 0 : kind < 0.9 ? 0.4 * size : 0.4 + 0.6 * size);
    }
    if (noise->batch > 0) {
        double bell = chance_bell(draw(run, DRAW_BATCH, rank, lane->step));
        factor *= fmax(0.3, 1 + noise->batch * bell);
    }
    return factor;
}

static bool strikes(const struct run *run, unsigned f, const struct lane *lane)
{
    const struct fault *fault = &run->job->fault[f];
    return lane->step >= fault->from && lane->step < fault->until &&
           (fault->every < 2 || lane->step % fault->every == 0) &&
           (fault->share >= 1 || chance_unit(draw(run, DRAW_FAULT, f, lane->step)) < fault->share);
}

/* What the rank's faults add to this action, which takes `ns` without them. */
static double fault_ns(const struct run *run, unsigned rank, const struct lane *lane,
                       const struct action *action, double ns)
{
    double more = 0;
    for (unsigned f = 0; f < run->job->faults; f++) {
        const struct fault *fault = &run->job->fault[f];
        if (!(run->culprit[rank] >> f & 1) || !strikes(run, f, lane))
            continue;
        bool kernel = action->kind == ACT_KERNEL;
        if ((fault->how == HOW_SLOW && kernel) ||
            (fault->how == HOW_EXPERT && action->part == PART_EXPERT))
            more += ns * fault->factor;
        else if (fault->how == HOW_DRIFT && kernel)
            more += ns * fault->factor * lane->step / run->job->steps;
        else if (fault->how == (kernel ? HOW_GPU : HOW_HOST) && fault->at == lane->pc)
            more += fault->ns *
                    (0.9 + 0.2 * chance_unit(draw(run, DRAW_FAULT, rank + 99, place_of(lane))));
    }
    return more;
}

static double kernel_ns(const struct run *run, unsigned rank, const struct lane *lane,
                        const struct action *action)
{
    const struct job_noise *noise = &run->job->noise;
    if (rank + 1 == run->job->calm)
        return action->ns * (1 + noise->speed / 2);
    uint64_t bits = draw(run, DRAW_KERNEL, rank, place_of(lane));
    double ns = action->ns * (1 + noise->kernel * chance_bell(bits)) * speed_of(run, rank, lane);
    if (action->part == PART_EXPERT && noise->routing > 0) {
        double bell = chance_bell(draw(run, DRAW_ROUTING, rank, place_of(lane)));
        ns *= fmax(0.2, 1 + noise->routing * bell);
    }
    bits = chance_mix(bits + 1);
    if (chance_unit(bits) < noise->spike_share)
        ns += noise->spike_ns * (0.3 + 2 * chance_unit(chance_mix(bits)));
    return ns;
}

static double host_ns(const struct run *run, unsigned rank, const struct lane *lane,
                      const struct action *action)
{
    const struct job_noise *noise = &run->job->noise;
    if (rank + 1 == run->job->calm)
        return action->ns * (1 + noise->host_speed / 2);
    uint64_t bits = draw(run, DRAW_HOST, rank, place_of(lane));
    double slower = noise->host_speed * chance_unit(draw(run, DRAW_HOST, rank, UINT64_MAX));
    double ns = action->ns * (1 + slower) * fmax(0.3, 1 + noise->host * chance_bell(bits));
    bits = chance_mix(bits + 1);
    if (chance_unit(bits) < noise->host_spike_share)
        ns += noise->host_spike_ns * (0.3 + 2 * chance_unit(chance_mix(bits)));
    if (lane->pc > 0)
        return ns;
    bits = draw(run, DRAW_PAUSE, rank, lane->step);
    if (chance_unit(bits) < noise->pause_share)
        ns += noise->pause_ns * (0.5 + chance_unit(chance_mix(bits)));
    bits = draw(run, DRAW_INPUT, 0, lane->step);
    if (chance_unit(bits) < noise->input_share) {
        double own = chance_unit(draw(run, DRAW_INPUT, rank + 1, lane->step));
        ns += noise->input_ns * (0.5 + chance_unit(chance_mix(bits)) + 0.05 * own);
    }
    if (lane->step < noise->warm_up_steps)
        ns += noise->warm_up_ns * chance_unit(draw(run, DRAW_WARM_UP, rank, lane->step));
    return ns;
}

bool simulate_is_slow(const struct job *job, const struct fault *fault, enum job_group group,
                      unsigned first)
{
    const struct job_shape *shape = &job->shape[group];
    bool from = false, to = false;
    for (unsigned i = 0; i < shape->n && fault->how == HOW_LINK; i++) {
        unsigned host = job_host(first + i * shape->stride);
        from |= host == fault->first;
        to |= host == fault->to;
    }
    return from && to;
}

/* Whether the launch sends to a rank on the host that the link goes to, or receives from there. */
static bool has_slow_leg(const struct job *job, const struct fault *fault,
                         const struct action *action, unsigned rank)
{
    const struct action_leg *leg = &job->program[job_stage(job, rank)].leg[action->leg];
    unsigned first = job_first(job, action->group, rank), here = job_host(rank);
    for (unsigned i = 0; i < action->legs; i++) {
        unsigned there = job_host(job_member(job, action->group, first, leg[i].peer));
        unsigned from = leg[i].send ? here : there, to = leg[i].send ? there : here;
        if (from == fault->first && to == fault->to)
            return true;
    }
    return false;
}

bool simulate_slows(const struct job *job, const struct fault *fault, const struct action *action,
                    unsigned rank)
{
    if (action->kind == ACT_LEGS)
        return fault->how == HOW_LINK && has_slow_leg(job, fault, action, rank);
    return simulate_is_slow(job, fault, action->group, job_first(job, action->group, rank));
}

static double transfer_ns(const struct run *run, const struct action *action, unsigned rank,
                          unsigned number)
{
    uint64_t who = (uint64_t)action->group << 16 | rank;
    uint64_t bits = draw(run, DRAW_LINK, who, number);
    double ns = action->ns * fmax(0.7, 1 + run->job->noise.link * fabs(chance_bell(bits)));
    for (unsigned f = 0; f < run->job->faults; f++)
        if (run->faults >> f & 1 && simulate_slows(run->job, &run->job->fault[f], action, rank))
            ns *= run->job->fault[f].factor;
    return ns;
}

static const struct program *program_of(const struct run *run, unsigned rank)
{
    return &run->job->program[job_stage(run->job, rank)];
}

static void go_on(struct run *run, unsigned rank)
{
    run->lane[rank].waiting = false;
    run->lane[rank].pc++;
    run->stack[run->stacked++] = rank;
}

static void end_call(struct run *run, unsigned rank, double end, double transfer)
{
    struct lane *lane = &run->lane[rank];
    const struct program *program = program_of(run, rank);
    const struct action *action = &program->action[lane->pc];
    lane->end[action->group] = lane->slot[action->slot] = end;
    lane->last = fmax(lane->last, end);
    if (run->sink) {
        run->sink(run->arg, &(struct launch){action, program, rank, lane->step, lane->call,
                                             lane->begin, end, transfer, lane->late});
    }
    lane->late = 0;
    go_on(run, rank);
}

/* Begin of whoever of the two neighbours and the rank itself came last. */
static double ring_latest(const struct run *run, enum job_group group, unsigned first, unsigned i)
{
    const struct job_shape *shape = &run->job->shape[group];
    unsigned next = job_member(run->job, group, first, (i + 1) % shape->n);
    unsigned before = job_member(run->job, group, first, (i + shape->n - 1) % shape->n);
    unsigned self = job_member(run->job, group, first, i);
    double received = fmax(run->lane[self].begin, run->lane[before].begin);
    return run->job->eager ? received : fmax(received, run->lane[next].begin);
}

static void end_meeting(struct run *run, const struct action *action, unsigned first,
                        struct meeting *meeting)
{
    const struct job *job = run->job;
    enum job_group group = action->group;
    unsigned n = job->shape[group].n;
    double transfer = transfer_ns(run, action, first, meeting->number++);
    double spread = job_crosses(job, group, first) ? 0.08 * transfer : 1500;
    double latest = 0, end[JOB_RANKS_MAX];
    meeting->come = 0;
    for (unsigned i = 0; i < n; i++)
        latest = fmax(latest, run->lane[job_member(job, group, first, i)].begin);
    for (unsigned i = 0; i < n; i++) {
        unsigned rank = job_member(job, group, first, i);
        double from = action->kind == ACT_RING ? ring_latest(run, group, first, i) : latest;
        uint64_t bits = draw(run, DRAW_LEAVE, rank, place_of(&run->lane[rank]));
        end[i] = from + transfer + spread * chance_unit(bits);
    }
    for (unsigned i = 0; i < n; i++)
        end_call(run, job_member(job, group, first, i), end[i], transfer);
}

static void meet(struct run *run, unsigned rank, const struct action *action)
{
    unsigned first = job_first(run->job, action->group, rank);
    struct meeting *meeting = &run->meeting[first * GROUPS + action->group];
    run->lane[rank].waiting = true;
    if (++meeting->come == run->job->shape[action->group].n)
        end_meeting(run, action, first, meeting);
}

static void end_legs(struct run *run, unsigned rank)
{
    struct lane *lane = &run->lane[rank];
    const struct action *action = &program_of(run, rank)->action[lane->pc];
    double transfer = transfer_ns(run, action, rank, lane->step << 16 | lane->pc);
    end_call(run, rank, lane->latest + transfer, transfer);
}

/* The leg of a waiting rank that is the other side of a send or receive; -1: none. */
static int other_side(const struct run *run, unsigned rank, unsigned peer, bool send)
{
    const struct lane *lane = &run->lane[rank];
    const struct program *program = program_of(run, rank);
    const struct action *action = &program->action[lane->pc];
    if (!lane->waiting || action->kind != ACT_LEGS)
        return -1;
    for (unsigned i = 0; i < action->legs; i++) {
        const struct action_leg *leg = &program->leg[action->leg + i];
        if (lane->unmatched >> i & 1 && leg->peer == peer && leg->send != send)
            return (int)i;
    }
    return -1;
}

static void match_legs(struct run *run, unsigned rank, const struct action *action)
{
    struct lane *lane = &run->lane[rank];
    const struct program *program = program_of(run, rank);
    unsigned first = job_first(run->job, GROUP_STAGES, rank);
    unsigned own = job_local(run->job, GROUP_STAGES, rank);
    lane->waiting = true;
    lane->latest = lane->begin;
    lane->unmatched = (1u << action->legs) - 1;
    for (unsigned i = 0; i < action->legs; i++) {
        const struct action_leg *leg = &program->leg[action->leg + i];
        unsigned peer = job_member(run->job, GROUP_STAGES, first, leg->peer);
        int side = other_side(run, peer, own, leg->send);
        if (side < 0)
            continue;
        struct lane *other = &run->lane[peer];
        lane->unmatched &= ~(1u << i);
        other->unmatched &= ~(1u << side);
        if (!leg->send || !run->job->eager)
            lane->latest = fmax(lane->latest, other->begin);
        if (leg->send || !run->job->eager)
            other->latest = fmax(other->latest, lane->begin);
        if (!other->unmatched)
            end_legs(run, peer);
    }
    if (!lane->unmatched)
        end_legs(run, rank);
}

static void call(struct run *run, unsigned rank, const struct action *action)
{
    struct lane *lane = &run->lane[rank];
    double from = action->need == NEED_MARK ? lane->mark : lane->compute;
    if (!run->job->graph)
        lane->host += CALL_NS;
    lane->call = lane->host;
    lane->begin = fmax(fmax(lane->call + LAUNCH_NS, from), lane->end[action->group]);
    if (action->kind == ACT_LEGS)
        match_legs(run, rank, action);
    else
        meet(run, rank, action);
}

static void compute(struct run *run, unsigned rank, const struct action *action)
{
    struct lane *lane = &run->lane[rank];
    double ns = kernel_ns(run, rank, lane, action);
    double more = run->culprit[rank] ? fault_ns(run, rank, lane, action, ns) : 0;
    double begin = fmax(lane->compute, lane->host + LAUNCH_NS);
    lane->host += run->job->graph ? 0 : KERNEL_NS;
    lane->compute = fmax(begin + ns + more, lane->host + LAUNCH_NS);
    lane->late += more;
}

static void work(struct run *run, unsigned rank, const struct action *action)
{
    struct lane *lane = &run->lane[rank];
    double ns = host_ns(run, rank, lane, action);
    double more = run->culprit[rank] ? fault_ns(run, rank, lane, action, ns) : 0;
    lane->host += ns + more;
    lane->late += more;
}

/* One action that is no call. */
static void act(struct run *run, unsigned rank, const struct action *action)
{
    struct lane *lane = &run->lane[rank];
    switch (action->kind) {
    case ACT_HOST:
        work(run, rank, action);
        break;
    case ACT_KERNEL:
        compute(run, rank, action);
        break;
    case ACT_WAIT:
        lane->compute = fmax(lane->compute, lane->slot[action->slot]);
        break;
    case ACT_MARK:
        lane->mark = lane->compute;
        break;
    default:
        lane->host = fmax(lane->host, lane->compute) + 20e3;
        break;
    }
    lane->host = fmax(lane->host, lane->compute - run->job->ahead_ns);
    lane->pc++;
}

/* Until its next call, or its end. */
static void advance(struct run *run, unsigned rank)
{
    struct lane *lane = &run->lane[rank];
    const struct program *program = program_of(run, rank);
    while (lane->step < run->steps) {
        if (lane->pc == program->n) {
            lane->pc = 0;
            lane->step++;
            continue;
        }
        const struct action *action = &program->action[lane->pc];
        if (action->kind == ACT_CALL || action->kind == ACT_RING || action->kind == ACT_LEGS) {
            call(run, rank, action);
            return;
        }
        act(run, rank, action);
    }
}

static void begin(struct run *run)
{
    const struct job *job = run->job;
    for (unsigned r = 0; r < job->ranks; r++) {
        struct lane *lane = &run->lane[r];
        lane->host = lane->compute = lane->mark = 1e9;
        run->stack[run->stacked++] = r;
        for (unsigned f = 0; f < job->faults; f++) {
            const struct fault *fault = &job->fault[f];
            bool hit = r >= fault->first && r < fault->first + fault->ranks;
            run->culprit[r] |= (uint8_t)((hit && run->faults >> f & 1) << f);
        }
    }
}

static void *get(size_t n, size_t size)
{
    void *memory = calloc(n, size);
    if (!memory) {
        fprintf(stderr, "verdicts: out of memory\n");
        exit(2);
    }
    return memory;
}

double simulate(const struct job *job, unsigned faults, unsigned steps, launch_sink *sink,
                void *arg)
{
    struct run run = {.job = job, .faults = faults, .steps = steps, .sink = sink, .arg = arg};
    double length = 0;
    run.lane = get(job->ranks, sizeof *run.lane);
    run.meeting = get((size_t)job->ranks * GROUPS, sizeof *run.meeting);
    run.culprit = get(job->ranks, 1);
    run.stack = get(2 * job->ranks, sizeof *run.stack);
    begin(&run);
    while (run.stacked)
        advance(&run, run.stack[--run.stacked]);
    for (unsigned r = 0; r < job->ranks; r++) {
        const struct lane *lane = &run.lane[r];
        length = fmax(length, fmax(lane->last, fmax(lane->host, lane->compute)));
        if (lane->step < steps) {
            fprintf(stderr, "verdicts: rank %u stands in step %u for ever\n", r, lane->step);
            exit(2);
        }
    }
    free(run.lane);
    free(run.meeting);
    free(run.culprit);
    free(run.stack);
    return length - 1e9;
}
