/*
 * A job that this worker holds: reads what is kept of it and what comes, joins it, evaluates it,
 * and emits what it finds. One thread, but for its figures.
 */
#ifndef MUSTER_FLEET_NATS_HELD_JOB_H
#define MUSTER_FLEET_NATS_HELD_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "fleet/evaluator.h"
#include "fleet/join.h"
#include "fleet/nats/board.h"
#include "fleet/nats/hook_queue.h"

/* What a job needs of its worker. */
struct muster_held_by {
    struct muster_link *link;
    struct muster_board *board;
    struct muster_hook_queue *hooks; /* NULL: none */
    const char *worker;
    uint64_t hang_ns;
    FILE *log;
    uint64_t *ever; /* findings emitted, by kind */
};

struct muster_held_job;

/* NULL with an error: NATS does not give it, or no memory. */
struct muster_held_job *muster_held_job_new(const struct muster_held_by *by, const char *name,
                                            struct muster_err *err);
void muster_held_job_free(struct muster_held_job *job);

const char *muster_held_job_name(const struct muster_held_job *job);
const struct muster_join *muster_held_job_join(const struct muster_held_job *job);
const struct muster_evaluator *muster_held_job_evaluator(const struct muster_held_job *job);

/* Takes what came, for a tenth of a second at most. Returns how many messages. */
size_t muster_held_job_take(struct muster_held_job *job, uint64_t now_ns);
/* When that was: while the worker did something else, nobody fell silent. */
uint64_t muster_held_job_read_ns(const struct muster_held_job *job);
/* Evaluates it if everything that came has been read, or if that cannot be waited for any more. */
void muster_held_job_look(struct muster_held_job *job, uint64_t now_ns);
/* Nobody speaks of it any more: what was found of it is over. */
void muster_held_job_end(struct muster_held_job *job);

#endif
