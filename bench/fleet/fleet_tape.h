/*
 * What the agents of all hosts of a job tell in each half second, made before it is told: the
 * bodies of their messages (fleet/wire.h), as agents make them (fleet_host.h). Heads are whoever's
 * who tells.
 */
#ifndef MUSTER_BENCH_FLEET_FLEET_TAPE_H
#define MUSTER_BENCH_FLEET_FLEET_TAPE_H

#include "fleet/wire.h"
#include "job.h"

#define FLEET_TAPE_RUN "/scratch/muster-bench" /* the run directory that all tell of */
enum { FLEET_TAPE_UID = 1000 };                /* whose */

struct fleet_message {
    size_t at, bytes; /* of the body */
    unsigned processes;
    bool described;   /* its head names the host */
    uint64_t mono_ns; /* its host's clock */
};

struct fleet_tape {
    unsigned ranks, hosts, halves;
    unsigned char *byte;
    size_t bytes, room;
    struct fleet_message *message; /* [half * hosts + host] */
    uint64_t begin_unix_ns;        /* of a recorded run */
};

/* Whether an agent begins to speak then. */
typedef bool fleet_begins(unsigned host, unsigned half);

/* Exits without memory. */
void fleet_tape_make(const struct job *job, unsigned halves, fleet_begins *begins,
                     struct fleet_tape *tape);
/* The same of a recorded run, from when its operations begin; each host's agent speaks all the
 * time. Another `salt` makes other communicators of them, and so other windows are told. Exits
 * where it cannot be read. */
void fleet_tape_of_run(const char *dir, uint64_t salt, unsigned halves, struct fleet_tape *tape);
void fleet_tape_free(struct fleet_tape *tape);

#endif
