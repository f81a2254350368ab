/*
 * A connection to NATS that looks after itself: it comes up when a server is there, comes again
 * after every loss, and logs on a stream what became of it. Nothing here waits for a server longer
 * than a request may take. Credentials come from a file, never from the command line, where every
 * user of the host could read them.
 */
#ifndef MUSTER_FLEET_NATS_LINK_H
#define MUSTER_FLEET_NATS_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <nats/nats.h>

#include "base/err.h"
#include "fleet/nats/nats_access.h"

/* A request that takes longer has failed. */
enum { MUSTER_LINK_WAIT_MS = 1000 };

struct muster_link_options {
    struct muster_nats_access nats;
    const char *who; /* "muster agent": begins each line */
    FILE *log;
    bool quiet; /* logs nothing of coming and going */
    /* What the server answered to messages published asynchronously; called by a thread of libnats.
     * NULL: nobody asks. */
    jsPubAckHandler acked;
    void *acked_arg;
};

struct muster_link;

/* Fails for options that can never work; a server that is not there is none of these. The options'
 * texts stay. */
int muster_link_open(const struct muster_link_options *options, struct muster_link **link,
                     struct muster_err *err);
void muster_link_close(struct muster_link *link);

/* Once a second or so: begins anew where the library has given up, as it does after wrong
 * credentials. Returns how often that was: everything that was made from the connection before is
 * gone then. */
unsigned muster_link_tend(struct muster_link *link, uint64_t now_ns);
bool muster_link_is_up(const struct muster_link *link);
/* The library has given it up. */
bool muster_link_is_over(const struct muster_link *link);
/* Of one that is not up: the reason as far as it is known, and what to look at. Returns -1. */
int muster_link_why_down(const struct muster_link *link, struct muster_err *err);
/* NULL while there is none. */
natsConnection *muster_link_connection(const struct muster_link *link);
jsCtx *muster_link_js(const struct muster_link *link);

#endif
