/*
 * Which of a rank's timed operations are told: those of the densest nested level
 * (record/sampling.h) whose operations fit the bytes that a rank has. Ranks that choose different
 * levels share the sparser one's windows, so nothing is agreed. One thread.
 */
#ifndef MUSTER_FLEET_THINNING_H
#define MUSTER_FLEET_THINNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/sampling.h"

enum {
    MUSTER_THINNING_OP_BYTES = 8
}; /* an operation, as a rule: seven, and now and then a class */

struct muster_thinning {
    unsigned level;
    uint64_t since_ns, calm_ns; /* begin of the period; since when a denser level would do */
    uint64_t seen[MUSTER_SAMPLING_SPARSEST + 1]; /* operations in it that each level tells */
};

/* Whether the level tells the operation, which is counted. */
bool muster_thinning_takes(struct muster_thinning *thinning, uint64_t comm_id, uint64_t number);
/* At each message: a level that does not fit `bytes` a second makes way at once, a denser one comes
 * when it would have done for ten seconds. True: it has become sparser. */
bool muster_thinning_turn(struct muster_thinning *thinning, uint64_t now_ns, unsigned bytes);
/* By which level so many operations that wait are to be thinned again, so that they are not told
 * later than some seconds: a sparser one than the rank's. 0: by none. */
unsigned muster_thinning_behind(const struct muster_thinning *thinning, unsigned bytes,
                                size_t waiting);

#endif
