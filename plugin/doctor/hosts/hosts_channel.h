/*
 * How a leader and its members talk: lines through the standard input and output of whatever
 * started the members (ssh, kubectl exec, srun), or files in a folder that all share. What the
 * leader sends goes to all members.
 */
#ifndef MUSTER_DOCTOR_HOSTS_HOSTS_CHANNEL_H
#define MUSTER_DOCTOR_HOSTS_HOSTS_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
