/*
 * The job that the simulated agents of bench/fleet tell of: tensor parallel inside hosts, two
 * pipeline stages, experts over eight hosts, data parallel over all of a stage, and a collective of
 * all ranks in each step of about half a second; played by the generator of bench/verdicts.
 */
#ifndef MUSTER_BENCH_FLEET_FLEET_JOB_H
#define MUSTER_BENCH_FLEET_FLEET_JOB_H

#include "job.h"

enum fleet_fault { FLEET_NOBODY, FLEET_RANK, FLEET_HOST, FLEET_MOVES, FLEET_FAULTS };

/* -1: no such word. */
int fleet_fault_of(const char *word);

/* `ranks`: 8 to JOB_RANKS_MAX, eight a host. Somebody is late by a tenth of a step from `from_s`
 * on; FLEET_MOVES: two ranks by turns of three seconds. job_free in the end. */
void fleet_job_make(unsigned ranks, unsigned seconds, enum fleet_fault fault, double from_s,
                    struct job *job);
/* Seconds after which the faults have cost so much; -1: never. */
double fleet_job_cost_s(const struct job *job, double cost_ns);

#endif
