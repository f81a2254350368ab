/*
 * Messages on their way to JetStream: kept until the server confirms that it has them, in order,
 * and sent again after every loss (fleet/nats/outbox.h). Nothing waits for the server. One thread
 * adds and sends; figures are anybody's.
 */
#ifndef MUSTER_FLEET_NATS_SENDER_H
#define MUSTER_FLEET_NATS_SENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "fleet/nats/link.h"

struct muster_sender;

struct muster_sender_figures {
    bool good;                   /* connected, and the server takes what it is given */
    uint64_t waiting;            /* messages that it has not taken yet */
    uint64_t there, lost, bytes; /* ever: taken; too old or too many; made */
};

/* `link`: its `acked` is the sender's own. `instance`: unlike any other sender's, as the server
 * knows messages by it. Fails for options that can never work; the options' texts stay. */
int muster_sender_open(const struct muster_link_options *link, uint64_t instance,
                       struct muster_sender **sender, struct muster_err *err);
/* Takes `data` over. */
void muster_sender_add(struct muster_sender *sender, const char *subject, void *data, size_t bytes,
                       uint64_t now_ns);
/* Sends what is kept, as far as the server takes it now. */
void muster_sender_send(struct muster_sender *sender);
/* Waits a second for the server's word on what was sent. NULL passes. */
void muster_sender_close(struct muster_sender *sender);
struct muster_sender_figures muster_sender_figures(struct muster_sender *sender);

#endif
