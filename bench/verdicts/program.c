#include "program.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/nccl_types.h"

static void *grow(void *old, unsigned n, unsigned *room, size_t size)
{
    if (n < *room)
        return old;
    *room = *room ? 2 * *room : 64;
    void *fresh = realloc(old, *room * size);
    if (!fresh) {
        fprintf(stderr, "verdicts: out of memory\n");
        exit(2);
    }
    return fresh;
}

static struct action *add(struct program_maker *maker, enum action_kind kind, double ns)
{
    struct program *program = maker->program;
    program->action = grow(program->action, program->n, &program->room, sizeof *program->action);
    struct action *action = &program->action[program->n++];
    *action = (struct action){.kind = (uint8_t)kind, .ns = ns, .micro = maker->micro};
    return action;
}

void make_host(struct program_maker *maker, enum action_part part, double ns)
{
    add(maker, ACT_HOST, ns)->part = (uint8_t)part;
}

void make_kernel(struct program_maker *maker, enum action_part part, double ns)
{
    add(maker, ACT_KERNEL, ns)->part = (uint8_t)part;
}

/* Bytes that take so long: 200 bytes a ns inside a host, 40 between hosts. */
static uint64_t count_of(const struct job *job, enum job_group group, double ns)
{
    const struct job_shape *shape = &job->shape[group];
    double pace = shape->n * shape->stride > JOB_HOST_GPUS ? 40 : 200;
    double bytes = ns > 12e3 ? (ns - 10e3) * pace : 256;
    /* Whole pages, as buckets and layers are, so that sizes repeat. */
    return bytes < 8192 ? (uint64_t)bytes / 4 : (uint64_t)(bytes / 8192) * 2048;
}

static struct action *call(struct program_maker *maker, enum job_group group, unsigned func,
                           unsigned slot, double ns)
{
    struct action *action = add(maker, ACT_CALL, ns);
    action->group = (uint8_t)group;
    action->func = (uint8_t)func;
    action->slot = (uint8_t)slot;
    action->count = count_of(maker->job, group, ns);
    maker->program->calls++;
    return action;
}

void make_call(struct program_maker *maker, enum job_group group, unsigned func, unsigned slot,
               double ns)
{
    call(maker, group, func, slot, ns);
}

void make_call_early(struct program_maker *maker, enum job_group group, unsigned func,
                     unsigned slot, double ns)
{
    call(maker, group, func, slot, ns)->need = NEED_MARK;
}

void make_exchange(struct program_maker *maker, bool by_sends, double ns)
{
    call(maker, GROUP_EXPERT, MUSTER_FUNC_ALL_TO_ALL, 0, ns)->by_sends = by_sends;
    make_wait(maker, 0);
}

void make_ring(struct program_maker *maker, unsigned slot, double ns)
{
    call(maker, GROUP_RING, MUSTER_FUNC_SEND, slot, ns)->kind = ACT_RING;
}

void make_legs(struct program_maker *maker, const struct action_leg *leg, unsigned legs, double ns)
{
    struct program *program = maker->program;
    struct action *action = call(maker, GROUP_STAGES, MUSTER_FUNC_SEND, 0, ns);
    action->kind = ACT_LEGS;
    action->legs = (uint8_t)legs;
    action->leg = (uint16_t)program->legs;
    for (unsigned i = 0; i < legs; i++) {
        program->leg = grow(program->leg, program->legs, &program->leg_room, sizeof *program->leg);
        program->leg[program->legs++] = leg[i];
    }
    make_wait(maker, 0);
}

void make_wait(struct program_maker *maker, unsigned slot)
{
    add(maker, ACT_WAIT, 0)->slot = (uint8_t)slot;
}

void make_mark(struct program_maker *maker)
{
    add(maker, ACT_MARK, 0);
}

void make_sync(struct program_maker *maker)
{
    add(maker, ACT_SYNC, 0);
}

void program_free(struct program *program)
{
    free(program->action);
    free(program->leg);
    *program = (struct program){0};
}

void make_update(struct program_maker *maker, struct chance *chance, enum job_group norm)
{
    const struct job *job = maker->job;
    maker->micro = false;
    if (job->shape[norm].n > 1 && chance_is(chance, 0.6)) {
        make_call(maker, norm, MUSTER_FUNC_ALL_REDUCE, 1, 10e3);
        make_wait(maker, 1);
    }
    make_kernel(maker, PART_UPDATE, job->work_ns * 0.03);
    make_mark(maker);
    if (job->sync)
        make_sync(maker);
}
