/* Putting together what a rank does in a step. Exits without memory. */
#ifndef MUSTER_BENCH_VERDICTS_PROGRAM_H
#define MUSTER_BENCH_VERDICTS_PROGRAM_H

#include "job.h"

struct program_maker {
    const struct job *job;
    struct program *program;
    bool micro;
};

void make_host(struct program_maker *maker, enum action_part part, double ns);
void make_kernel(struct program_maker *maker, enum action_part part, double ns);
/* A collective of the group; `ns`: its transfer, from which its size follows. */
void make_call(struct program_maker *maker, enum job_group group, unsigned func, unsigned slot,
               double ns);
/* The same, begun as soon as the newest mark is passed. */
void make_call_early(struct program_maker *maker, enum job_group group, unsigned func,
                     unsigned slot, double ns);
void make_exchange(struct program_maker *maker, bool by_sends, double ns);
void make_ring(struct program_maker *maker, unsigned slot, double ns);
void make_legs(struct program_maker *maker, const struct action_leg *leg, unsigned legs, double ns);
void make_wait(struct program_maker *maker, unsigned slot);
void make_mark(struct program_maker *maker);
void make_sync(struct program_maker *maker);
void program_free(struct program *program);

/* Each fills the programs of all stages from job's family, work_ns, accumulate and shapes, drawing
 * what is left open. */
void make_data_parallel(struct job *job, struct chance *chance);
void make_sharded(struct job *job, struct chance *chance);
void make_tensor(struct job *job, struct chance *chance);
void make_experts(struct job *job, struct chance *chance);
void make_context(struct job *job, struct chance *chance);
/* `chunks` of layers a stage: 1 is 1F1B, more interleaved. */
void make_pipeline(struct job *job, struct chance *chance, unsigned chunks);

/* End of every step: the norm of the gradients, the update, the loss. */
void make_update(struct program_maker *maker, struct chance *chance, enum job_group norm);

#endif
