/*
 * Late ranks that hosts' agents find, each among the ranks of its own host. An agent sees all of
 * their operations, a worker a share of them; but who is late beside other hosts, or with all of
 * its host, no agent can see. One thread.
 */
#ifndef MUSTER_FLEET_HOST_FINDINGS_H
#define MUSTER_FLEET_HOST_FINDINGS_H

#include "diagnose/finding.h"
#include "fleet/join.h"

/* Adds what agents that are heard find now. An agent is believed about ranks that live on its host
 * and on no other, and if that costs half as much at least as what another agent finds: where all
 * wait for a rank of another host, who is late beside its own is late for nobody. False: no memory.
 */
bool muster_host_findings(const struct muster_join *join, uint64_t now_ns,
                          struct muster_findings *findings);

#endif
