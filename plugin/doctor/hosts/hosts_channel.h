/*
 * How a leader and its members talk: lines through the standard input and output of whatever
 * started the members (ssh, kubectl exec, srun), files in a folder that all share, or connections
 * to the leader. What the leader sends goes to all members.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_CHANNEL_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* One end. Made by the functions below, ended by `close`. */
struct muster_hosts_channel {
    void *self;
    int (*send)(void *self, const char *text, struct muster_err *err);
    /* 1: a message of member *from; 0: none within wait_ms; -1: none will come any more. *text is
     * valid until the next call. */
    int (*take)(void *self, unsigned wait_ms, unsigned *from, const char **text, size_t *size,
                struct muster_err *err);
    /* Of the leader: why nothing more will come from a member; NULL: it may. */
    const char *(*lost)(void *self, unsigned member);
    void (*close)(void *self);
};

/* Starts a member on each host: the words of `launcher`, "{}" in them replaced by the host's name,
 * then `command` (NULL at the end) and the member's number; a launcher without "{}" is started once
 * and starts them all, and the number is "launcher". */
int muster_hosts_start(const char *launcher, const char *const *command, const char *const *host,
                       unsigned n, struct muster_hosts_channel *channel, struct muster_err *err);
/* A member that was started so: standard input and output of this process. What else this process
 * prints goes to standard error from now on. */
int muster_hosts_started(unsigned member, struct muster_hosts_channel *channel,
                         struct muster_err *err);

/* The folder `below`/muster-hosts.KEY: the leader makes it, and removes it at its end. */
int muster_hosts_share_lead(const char *below, const char *key, unsigned n,
                            struct muster_hosts_channel *channel, struct muster_err *err);
int muster_hosts_share_join(const char *below, const char *key, unsigned member,
                            struct muster_hosts_channel *channel, struct muster_err *err);

/* Connections to "HOST:PORT" ("[::1]:29501"), a port of the leader's host. The leader listens there
 * and takes one member of each number that sends the same KEY; members try for two minutes. Who
 * reaches that port and knows the key can pass for a member: as with MASTER_PORT, it belongs into
 * the job's own network. */
int muster_hosts_meet_lead(const char *at, const char *key, unsigned n,
                           struct muster_hosts_channel *channel, struct muster_err *err);
int muster_hosts_meet_join(const char *at, const char *key, unsigned member,
                           struct muster_hosts_channel *channel, struct muster_err *err);
/* The two parts of "HOST:PORT", HOST without brackets into host[256]. -1: err. */
int muster_hosts_meet_place(const char *at, char *host, uint16_t *port, struct muster_err *err);
/* What a member sends first, into line[160]; and whether a line without its end is that of a member
 * of this job. */
void muster_hosts_meet_line(const char *key, unsigned member, char *line);
bool muster_hosts_meet_read(const char *line, const char *key, unsigned members, unsigned *member);

#endif
