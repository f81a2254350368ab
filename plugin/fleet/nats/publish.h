/*
 * The agent's part in a fleet: a thread that sends NATS what this host's jobs do, one message a job
 * and half second. The jobs and the agent's other work never wait for it. While NATS is away, or
 * does not take messages, a minute of them is kept and sent when it is back; older ones are counted
 * as lost.
 */
#ifndef MUSTER_FLEET_NATS_PUBLISH_H
#define MUSTER_FLEET_NATS_PUBLISH_H

#include <stdbool.h>
#include <stdio.h>

#include "agent/exposition.h"
#include "base/err.h"
#include "diagnose/finding.h"
#include "fleet/nats/nats_access.h"
#include "segment/reap.h"

struct muster_publish_options {
    struct muster_nats_access nats;
    const char *segment_dir;
    bool all; /* segments of all users */
    FILE *log;
    bool quiet; /* logs nothing of coming and going */
};

struct muster_publish;

/* Fails for options that can never work. The options' texts stay. */
int muster_publish_start(const struct muster_publish_options *options,
                         struct muster_publish **publish, struct muster_err *err);
/* Sends what is kept if NATS takes it within a second; NULL passes. */
void muster_publish_stop(struct muster_publish *publish);

/* What the agent finds of a job's late ranks now: sent with its next message, if it is news. Any
 * thread; struct muster_agent_options. */
void muster_publish_findings(void *publish, uint32_t uid, const char *run_dir,
                             const struct muster_finding *finding, size_t findings);

/* The segments of this host as the agent's look found them: nobody need look for them twice. Takes
 * them over; any thread; struct muster_agent_options. */
void muster_publish_found(void *publish, struct muster_found *found, size_t n);

/* How it goes, for the agent's page; any thread. */
void muster_publish_metrics(void *publish, struct muster_exposition *to);

#endif
