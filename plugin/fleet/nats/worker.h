/*
 * `muster fleet`: a worker that evaluates jobs over all their hosts, each job leased to one worker.
 * It keeps nothing that is not kept by NATS: it may be ended and started anew at any time, and
 * others take its jobs over within two seconds.
 */
#ifndef MUSTER_FLEET_NATS_WORKER_H
#define MUSTER_FLEET_NATS_WORKER_H

#include <stdio.h>

#include "base/err.h"
#include "config/settings.h"
#include "fleet/nats/nats_access.h"

struct muster_worker_options {
    struct muster_nats_access nats;
    const char *listen;                     /* /metrics; "": nowhere */
    const char *web;                        /* agent_http.h */
    const struct muster_settings *settings; /* hang_seconds, on */
    FILE *log;
};

/* Works until SIGINT or SIGTERM. Fails for options that can never work, and where a fleet of
 * another version is at work. */
int muster_worker_run(const struct muster_worker_options *options, struct muster_err *err);

/* What is known of one job: findings and state, as text or JSON. `job`: its name, or a part of it
 * that is unique. *found: findings that hold. */
struct muster_fleet_question {
    struct muster_nats_access nats;
    const char *job;
    bool json;
    const char *ras; /* where NCCL's RAS is asked about a hang; NULL: nowhere */
};
int muster_fleet_ask(const struct muster_fleet_question *question, FILE *out, size_t *found,
                     struct muster_err *err);

#endif
