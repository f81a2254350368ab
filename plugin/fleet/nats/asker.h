/*
 * Who asks what the fleet's workers know of one job: a connection, and what stands on the board.
 * Nothing is changed there. One thread.
 */
#ifndef MUSTER_FLEET_NATS_ASKER_H
#define MUSTER_FLEET_NATS_ASKER_H

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "fleet/fleet_name.h"
#include "fleet/nats/nats_access.h"

struct muster_asker_options {
    struct muster_nats_access nats;
    const char *job; /* its name, or a part of it that is unique */
    const char *who; /* "muster top" */
};

/* JSON as it stands there: nobody has looked at it. All in `memory`. */
struct muster_answer {
    char name[MUSTER_FLEET_NAME]; /* of the job */
    const char *state;            /* an object (fleet/picture.h); NULL: no worker holds it now */
    const char **line;            /* a finding each */
    size_t lines;
    struct muster_arena memory;
};

struct muster_asker;

/* Waits some seconds for the server. The options' texts stay. */
int muster_asker_open(const struct muster_asker_options *options, struct muster_asker **asker,
                      struct muster_err *err);
/* Fails where no job, or more than one, is called so. *answer is muster_answer_free's either way.
 */
int muster_asker_ask(struct muster_asker *asker, struct muster_answer *answer,
                     struct muster_err *err);
void muster_answer_free(struct muster_answer *answer);
/* NULL passes. */
void muster_asker_close(struct muster_asker *asker);

#endif
