/*
 * Whether RDMA datagrams pass from this member's ports to those of all others, and with what size.
 * The library and its drivers are called by a child process alone, which a driver may hang or
 * crash; this side never waits longer than it sets.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_RDMA_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_RDMA_H

#include "doctor/hosts/hosts_member.h"

struct muster_hosts_rdma; /* opaque */

/* Begins to open the ports that NCCL takes; `sysfs` stands for /sys; `token`: the member's. NULL:
 * there are none, or they cannot be used, with err. All of it is in `memory`. */
struct muster_hosts_rdma *muster_hosts_rdma_new(const char *sysfs, uint64_t token,
                                                struct muster_arena *memory,
                                                struct muster_err *err);
/* Where they can be reached, into *member: rdma and no_rdma. Waits some seconds at most. */
void muster_hosts_rdma_hello(struct muster_hosts_rdma *rdma, struct muster_hosts_member *member);
/* Begins to ask all ports of members but `self`. */
void muster_hosts_rdma_begin(struct muster_hosts_rdma *rdma,
                             const struct muster_hosts_member *members, unsigned n, unsigned self);
/* True: every datagram has ended somehow, or nothing is heard of them any more. */
bool muster_hosts_rdma_step(struct muster_hosts_rdma *rdma);
/* Of each member its ports, one after the other, a letter each; "": nothing was asked. */
const char *muster_hosts_rdma_ends(const struct muster_hosts_rdma *rdma);
/* Ends the child; others are not answered any more. NULL passes. */
void muster_hosts_rdma_end(struct muster_hosts_rdma *rdma);

#endif
