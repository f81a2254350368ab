/*
 * What a job is called on NATS. A subject has the user and the job, so that credentials can decide
 * who may speak of which: a message that names another inside is refused.
 */
#ifndef MUSTER_FLEET_FLEET_NAME_H
#define MUSTER_FLEET_FLEET_NAME_H

#include <stddef.h>
#include <stdint.h>

#define MUSTER_FLEET_JOBS     "muster.job"     /* .<uid>.<job>: messages of agents */
#define MUSTER_FLEET_FINDINGS "muster.finding" /* .<uid>.<job>: findings, as JSON */
#define MUSTER_FLEET_STREAM   "MUSTER"         /* keeps the former for a minute */
#define MUSTER_FLEET_BUCKET   "muster_fleet"   /* leases, findings and states of jobs */

enum { MUSTER_FLEET_NAME = 96 };

/* "1000.muster-4711_0-5d2c81a3": user, the last part of the run directory without what NATS would
 * not take, and a hash of the whole of it. */
void muster_fleet_name(char to[static MUSTER_FLEET_NAME], uint32_t uid, const char *run_dir);

#endif
