/*
 * A member's connections to all others, and its answers to theirs: one loop for both, so that
 * everybody can be asked while asking. One thread.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_REACH_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_REACH_H

#include "doctor/hosts/hosts_ear.h"

struct muster_hosts_reach; /* opaque */

/* Answers from now on; the ear stays the caller's. NULL: err. */
struct muster_hosts_reach *muster_hosts_reach_new(const struct muster_hosts_ear *ear,
                                                  struct muster_err *err);
/* Begins to connect to all members but `self`; they and `memory`, which what comes of it is in,
 * must stay until the end. Without memory it has failed, and nothing begins. */
void muster_hosts_reach_begin(struct muster_hosts_reach *reach,
                              const struct muster_hosts_member *members, unsigned n, unsigned self,
                              unsigned timeout_ms, struct muster_arena *memory);
/* Does what there is to do within wait_ms. True: every connection has ended somehow. */
bool muster_hosts_reach_step(struct muster_hosts_reach *reach, unsigned wait_ms);
/* What came of it, as a message's fields, in the memory that it was begun with. */
void muster_hosts_reach_result(const struct muster_hosts_reach *reach,
                               struct muster_hosts_message *message);
/* Closes the connections; the ear listens on. NULL passes. */
void muster_hosts_reach_free(struct muster_hosts_reach *reach);

#endif
