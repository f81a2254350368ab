#include "fleet_job.h"

#include <string.h>

#include "base/nccl_types.h"
#include "maxplus.h"
#include "program.h"

enum { EXPERTS = 8, TURN_S = 3, WARM_UP_STEPS = 8 };
static const double WORK_NS = 240e6; /* of a stage in a step; two wait for each other */
static const double DELAY_SHARE = 0.1;

int fleet_fault_of(const char *word)
{
    static const char *const words[FLEET_FAULTS] = {"none", "rank", "host", "moves"};
    for (int i = 0; i < FLEET_FAULTS; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

static void make_half(struct program_maker *maker, enum action_part part, double ns)
{
    make_kernel(maker, part, ns * 0.6);
    make_call(maker, GROUP_TENSOR, MUSTER_FUNC_ALL_REDUCE, 3, ns * 0.02);
    make_wait(maker, 3);
    make_kernel(maker, PART_EXPERT, ns * 0.4);
    if (maker->job->shape[GROUP_EXPERT].n > 1)
        make_exchange(maker, false, ns * 0.04);
}

/* The first stage goes ahead and waits for what comes back. */
static void make_stage(struct job *job, unsigned stage)
{
    struct program_maker maker = {.job = job, .program = &job->program[stage]};
    const struct action_leg to = {.peer = (uint8_t)!stage, .send = true},
                            from = {.peer = (uint8_t)!stage};
    bool alone = job->stages < 2;
    make_host(&maker, PART_INPUT, 1e6);
    if (!alone && stage == 1)
        make_legs(&maker, &from, 1, 1e6);
    make_half(&maker, PART_FORWARD, job->work_ns / 3);
    if (!alone && stage == 0) {
        make_legs(&maker, &to, 1, 1e6);
        make_legs(&maker, &from, 1, 1e6);
    }
    make_half(&maker, PART_BACKWARD, job->work_ns * 2 / 3);
    if (!alone && stage == 1)
        make_legs(&maker, &to, 1, 1e6);
    if (job->shape[GROUP_DATA].n > 1) {
        make_call(&maker, GROUP_DATA, MUSTER_FUNC_ALL_REDUCE, 2, 10e6);
        make_wait(&maker, 2);
    }
    make_kernel(&maker, PART_UPDATE, 5e6);
    make_call(&maker, GROUP_ALL, MUSTER_FUNC_ALL_REDUCE, 1, 20e3);
    make_wait(&maker, 1);
    make_sync(&maker);
}

static void shape(struct job *job)
{
    unsigned per_stage = job->ranks / 2;
    job->stages = per_stage >= JOB_HOST_GPUS && job->ranks % 2 == 0 ? 2 : 1;
    per_stage = job->ranks / job->stages;
    bool experts = per_stage % (EXPERTS * JOB_HOST_GPUS) == 0;
    job->shape[GROUP_ALL] = (struct job_shape){job->ranks, 1};
    job->shape[GROUP_TENSOR] = (struct job_shape){JOB_HOST_GPUS, 1};
    job->shape[GROUP_DATA] = (struct job_shape){per_stage / JOB_HOST_GPUS, JOB_HOST_GPUS};
    job->shape[GROUP_STAGES] = (struct job_shape){job->stages, per_stage};
    job->shape[GROUP_EXPERT] = (struct job_shape){experts ? EXPERTS : 1, JOB_HOST_GPUS};
    job->shape[GROUP_RING] = (struct job_shape){1, 1};
}

static struct fault *add(struct job *job, unsigned first, unsigned ranks, double from_s)
{
    struct fault *fault = &job->fault[job->faults++];
    *fault = (struct fault){.how = HOW_GPU,
                            .first = first,
                            .ranks = ranks,
                            .stage = job_stage(job, first),
                            .ns = DELAY_SHARE * job->step_ns,
                            .share = 1,
                            .from = (unsigned)(from_s * 1e9 / job->step_ns),
                            .until = UINT32_MAX,
                            .owed = true};
    const struct program *program = &job->program[fault->stage];
    while (program->action[fault->at].kind != ACT_KERNEL)
        fault->at++;
    return fault;
}

static void add_faults(struct job *job, enum fleet_fault fault, unsigned seconds, double from_s)
{
    unsigned hosts = job->ranks / JOB_HOST_GPUS, rank = hosts / 2 * JOB_HOST_GPUS + 3;
    if (fault == FLEET_RANK)
        add(job, rank, 1, from_s);
    if (fault == FLEET_HOST) {
        struct fault *host = add(job, hosts / 2 * JOB_HOST_GPUS, JOB_HOST_GPUS, from_s);
        host->how = HOW_SLOW; /* what slows a whole host slows all that it does */
        host->factor = DELAY_SHARE * job->step_ns / job->work_ns;
    }
    for (unsigned i = 0; fault == FLEET_MOVES && i < JOB_FAULTS_MAX && from_s < seconds; i++) {
        struct fault *one = add(job, i % 2 ? 5 : rank, 1, from_s);
        from_s += TURN_S;
        one->until = i + 1 < JOB_FAULTS_MAX ? (unsigned)(from_s * 1e9 / job->step_ns) : UINT32_MAX;
    }
}

void fleet_job_make(unsigned ranks, unsigned seconds, enum fleet_fault fault, double from_s,
                    struct job *job)
{
    memset(job, 0, sizeof *job);
    job->seed = chance_mix(ranks);
    job->ranks = ranks;
    job->work_ns = WORK_NS;
    job->accumulate = 1;
    job->ahead_ns = 100e6;
    job->by_events = true;
    job->noise = (struct job_noise){.speed = 0.01,
                                    .kernel = 0.005,
                                    .spike_share = 1e-3,
                                    .spike_ns = 0.2e6,
                                    .host_speed = 0.05,
                                    .host = 0.05,
                                    .link = 0.02};
    shape(job);
    for (unsigned stage = 0; stage < job->stages; stage++)
        make_stage(job, stage);
    for (unsigned r = 0; r < ranks; r++) {
        job->timing[r] = TIMED_FULL;
        job->seen[r] = true;
    }
    job->step_ns = simulate(job, 0, WARM_UP_STEPS, NULL, NULL) / WARM_UP_STEPS;
    job->steps = (unsigned)(seconds * 1e9 / job->step_ns) + 2;
    add_faults(job, fault, seconds, from_s);
}

/* ---- what it costs, by when ---- */

struct ends {
    double *end_ns; /* of each step, of rank 0's last launch */
};

static void note_end(void *arg, const struct launch *launch)
{
    struct ends *ends = arg;
    if (launch->rank == 0)
        ends->end_ns[launch->step] = launch->end_ns;
}

double fleet_job_cost_s(const struct job *job, double cost_ns)
{
    static double with[1 << 12], without[1 << 12];
    unsigned steps = job->steps < (1 << 12) ? job->steps : 1 << 12;
    if (job->faults == 0)
        return -1;
    simulate(job, (1u << job->faults) - 1, steps, note_end, &(struct ends){with});
    simulate(job, 0, steps, note_end, &(struct ends){without});
    for (unsigned s = 0; s < steps; s++)
        if (with[s] - without[s] >= cost_ns)
            return (with[s] - 1e9) / 1e9;
    return -1;
}
