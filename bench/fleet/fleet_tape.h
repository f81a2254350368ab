/*
 * What the agents of all hosts of a job tell in each half second, made before it is told: the
 * bodies of their messages (fleet/wire.h), thinned as an agent thins. Heads are whoever's who
 * tells.
 */
#ifndef MUSTER_BENCH_FLEET_FLEET_TAPE_H
#define MUSTER_BENCH_FLEET_FLEET_TAPE_H

#include "fleet/wire.h"
#include "job.h"

struct fleet_tape {
    unsigned hosts, halves;
    unsigned char *byte;
    size_t bytes, room;
    size_t *at;  /* body of `host` in `half` begins at [half * hosts + host], ends at the next */
    bool *again; /* it says who everybody is; likewise */
    uint64_t *mono_ns; /* its host's clock; likewise */
};

/* Whether an agent begins to speak then. */
typedef bool fleet_begins(unsigned host, unsigned half);

/* Exits without memory. */
void fleet_tape_make(const struct job *job, unsigned halves, fleet_begins *begins,
                     struct fleet_tape *tape);
void fleet_tape_free(struct fleet_tape *tape);

#endif
