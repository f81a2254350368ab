/*
 * Which jobs this worker has, by a key for each in a bucket of JetStream: made or changed only
 * against the revision that was seen last, so that one worker has a job. The holder writes it anew
 * each half second and gives the job up after a second and a half without having been able to;
 * others take it when they have seen no change for as long, by their own monotonic clocks. The
 * holder counts from before his request, the others from after they heard of it: his time is over
 * first. A thread of its own renews, so that a long evaluation loses nothing.
 */
#ifndef MUSTER_FLEET_NATS_LEASE_H
#define MUSTER_FLEET_NATS_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fleet/fleet_name.h"
#include "fleet/nats/link.h"

#define MUSTER_LEASE_RENEW_NS 500000000ull
#define MUSTER_LEASE_OVER_NS  1500000000ull

struct muster_leases;

/* `worker`: this worker's name, unlike any other's. */
int muster_leases_start(kvStore *bucket, const char *worker, struct muster_leases **leases,
                        struct muster_err *err);
/* Gives all jobs back, so that others need not wait. */
void muster_leases_stop(struct muster_leases *leases);

/* Takes the job if it is free. It is this worker's from now on, until muster_leases_has returns
 * false. */
bool muster_leases_take(struct muster_leases *leases, const char *job);
bool muster_leases_has(struct muster_leases *leases, const char *job);
void muster_leases_give(struct muster_leases *leases, const char *job);

#endif
