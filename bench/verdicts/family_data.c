/* Families that split the data: DDP with buckets, FSDP with prefetch, context parallel. */
#include "base/nccl_types.h"
#include "program.h"

static void input(struct program_maker *maker, struct chance *chance)
{
    make_host(maker, PART_INPUT, chance_log(chance, 0.1e6, 3e6));
}

void make_data_parallel(struct job *job, struct chance *chance)
{
    struct program_maker maker = {.job = job, .program = &job->program[0]};
    unsigned buckets = 3 + chance_below(chance, 12);
    double work = job->work_ns / job->accumulate;
    double transfer = job->work_ns * chance_log(chance, 0.03, 0.5) / buckets;
    for (unsigned micro = 0; micro < job->accumulate; micro++) {
        bool last = micro + 1 == job->accumulate;
        maker.micro = !last;
        input(&maker, chance);
        make_kernel(&maker, PART_FORWARD, work * 0.33);
        for (unsigned b = 0; b < buckets; b++) {
            make_kernel(&maker, PART_BACKWARD, work * 0.64 / buckets);
            if (last) {
                make_call(&maker, GROUP_DATA, MUSTER_FUNC_ALL_REDUCE, 2,
                          b + 1 < buckets ? transfer : transfer * 0.3);
            }
        }
    }
    make_wait(&maker, 2);
    make_update(&maker, chance, GROUP_DATA);
}

/* One pass over the layers, the next one's weights on their way meanwhile. */
static void sharded_pass(struct program_maker *maker, unsigned layers, bool backward, double work,
                         double transfer)
{
    const unsigned gathered = 4;
    enum action_part part = backward ? PART_BACKWARD : PART_FORWARD;
    for (unsigned i = 0; i < layers; i++) {
        if (i == 0)
            make_call_early(maker, GROUP_DATA, MUSTER_FUNC_ALL_GATHER, gathered, transfer);
        if (i + 1 < layers) {
            make_call_early(maker, GROUP_DATA, MUSTER_FUNC_ALL_GATHER, gathered + (i + 1) % 4,
                            transfer);
        }
        make_wait(maker, gathered + i % 4);
        make_mark(maker);
        make_kernel(maker, part, work);
        if (backward && !maker->micro)
            make_call(maker, GROUP_DATA, MUSTER_FUNC_REDUCE_SCATTER, 3, transfer);
    }
}

void make_sharded(struct job *job, struct chance *chance)
{
    struct program_maker maker = {.job = job, .program = &job->program[0]};
    unsigned layers = 3 + chance_below(chance, 7);
    double work = job->work_ns / job->accumulate / layers;
    double transfer = work * chance_log(chance, 0.05, 0.5);
    for (unsigned micro = 0; micro < job->accumulate; micro++) {
        maker.micro = micro + 1 < job->accumulate;
        input(&maker, chance);
        sharded_pass(&maker, layers, false, work * 0.32, transfer);
        sharded_pass(&maker, layers, true, work * 0.64, transfer);
    }
    make_wait(&maker, 3);
    make_update(&maker, chance, GROUP_DATA);
}

/* Attention over pieces of the sequence that go around the ring while it computes. */
static void ring_pass(struct program_maker *maker, enum action_part part, double work,
                      double transfer)
{
    unsigned pieces = maker->job->shape[GROUP_RING].n;
    for (unsigned i = 0; i < pieces; i++) {
        if (i + 1 < pieces)
            make_ring(maker, 5, transfer);
        make_kernel(maker, part, work / pieces);
        if (i + 1 < pieces)
            make_wait(maker, 5);
    }
}

void make_context(struct job *job, struct chance *chance)
{
    struct program_maker maker = {.job = job, .program = &job->program[0]};
    unsigned layers = 2 + chance_below(chance, 3);
    double work = job->work_ns / layers;
    double piece = 0.3 * work / job->shape[GROUP_RING].n;
    double transfer = piece * chance_log(chance, 0.1, 0.9);
    double reduce = work * chance_log(chance, 0.05, 0.4);
    input(&maker, chance);
    for (unsigned l = 0; l < layers; l++) {
        ring_pass(&maker, PART_FORWARD, work * 0.15, transfer);
        make_kernel(&maker, PART_FORWARD, work * 0.17);
    }
    for (unsigned l = 0; l < layers; l++) {
        make_kernel(&maker, PART_BACKWARD, work * 0.33);
        ring_pass(&maker, PART_BACKWARD, work * 0.31, 2 * transfer);
        make_call(&maker, GROUP_ALL, MUSTER_FUNC_ALL_REDUCE, 2, reduce);
    }
    make_wait(&maker, 2);
    make_update(&maker, chance, GROUP_ALL);
}
