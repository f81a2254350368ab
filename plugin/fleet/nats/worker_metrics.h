/* A worker's page: the findings of its jobs as agents name theirs, coverage, and itself. */
#ifndef MUSTER_FLEET_NATS_WORKER_METRICS_H
#define MUSTER_FLEET_NATS_WORKER_METRICS_H

#include <stdio.h>

#include "agent/finding_metrics.h"
#include "fleet/nats/held_job.h"

/* What is shown of a job. */
struct muster_worker_job {
    char run[64], uid[12];
    struct muster_join_coverage is;
    uint64_t messages, lost, refused, silenced;
};

/* A picture of the worker, taken by its thread and printed by the server's. */
struct muster_worker_picture {
    struct muster_worker_job *job;
    size_t jobs; /* that are held */
    struct muster_finding_metrics findings;
    bool up;
    uint64_t cpu_ns;
};

void muster_worker_picture_add(struct muster_worker_picture *picture,
                               const struct muster_held_job *job);
void muster_worker_print(const struct muster_worker_picture *picture, bool open_metrics, FILE *out);

#endif
