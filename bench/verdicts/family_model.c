/* Families that split the model inside a step: tensor parallel, experts. */
#include "base/nccl_types.h"
#include "program.h"

static void reduce_pair(struct program_maker *maker, enum action_part part, double work,
                        double transfer)
{
    make_kernel(maker, part, work / 2);
    make_call(maker, GROUP_TENSOR, MUSTER_FUNC_ALL_REDUCE, 0, transfer);
    make_wait(maker, 0);
    make_kernel(maker, part, work / 2);
    make_call(maker, GROUP_TENSOR, MUSTER_FUNC_ALL_REDUCE, 0, transfer);
    make_wait(maker, 0);
}

void make_tensor(struct job *job, struct chance *chance)
{
    struct program_maker maker = {.job = job, .program = &job->program[0]};
    unsigned layers = 2 + chance_below(chance, 5);
    double work = job->work_ns / layers;
    double transfer = work * chance_log(chance, 0.01, 0.1);
    double reduce = work * chance_log(chance, 0.05, 0.4);
    make_host(&maker, PART_INPUT, chance_log(chance, 0.1e6, 3e6));
    for (unsigned l = 0; l < layers; l++)
        reduce_pair(&maker, PART_FORWARD, work * 0.33, transfer);
    for (unsigned l = 0; l < layers; l++) {
        reduce_pair(&maker, PART_BACKWARD, work * 0.64, transfer);
        make_call(&maker, GROUP_DATA, MUSTER_FUNC_ALL_REDUCE, 2, reduce);
    }
    make_wait(&maker, 2);
    make_update(&maker, chance, GROUP_DATA);
}

static void expert_layer(struct program_maker *maker, enum action_part part, double work,
                         double transfer)
{
    bool by_sends = maker->job->family == FAMILY_EXPERT_SENDS;
    make_kernel(maker, part, work * 0.4);
    make_exchange(maker, by_sends, transfer);
    make_kernel(maker, PART_EXPERT, work * 0.6);
    make_exchange(maker, by_sends, transfer);
}

void make_experts(struct job *job, struct chance *chance)
{
    struct program_maker maker = {.job = job, .program = &job->program[0]};
    unsigned layers = 1 + chance_below(chance, 3);
    double work = job->work_ns / layers;
    double transfer = work * chance_log(chance, 0.02, 0.15);
    double reduce = work * chance_log(chance, 0.05, 0.4);
    make_host(&maker, PART_INPUT, chance_log(chance, 0.1e6, 3e6));
    for (unsigned l = 0; l < layers; l++)
        expert_layer(&maker, PART_FORWARD, work * 0.33, transfer);
    for (unsigned l = 0; l < layers; l++) {
        expert_layer(&maker, PART_BACKWARD, work * 0.64, transfer);
        make_call(&maker, GROUP_ALL, MUSTER_FUNC_ALL_REDUCE, 2, reduce);
    }
    make_wait(&maker, 2);
    make_update(&maker, chance, GROUP_ALL);
}
