/*
 * Which of a rank's timed operations are sent: those of the densest nested level whose operations
 * fit the bytes that a rank has. Levels are in steps of a quarter of an octave; down to a fourth
 * they send some of the four blocks of 16 operations of each timed window (record/sampling.h),
 * beyond one block of some windows. Ranks that choose different levels share the sparser one's
 * blocks, so nothing is agreed. One thread.
 */
#ifndef MUSTER_FLEET_THINNING_H
#define MUSTER_FLEET_THINNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/sampling.h"

enum {
    MUSTER_THINNING_OP_BYTES = 8, /* an operation, as a rule: seven, and now and then a class */
    MUSTER_THINNING_STEPS = 4,    /* levels that halve */
    MUSTER_THINNING_BEHIND_S = 3, /* nothing should wait for longer while more comes */
    MUSTER_THINNING_SPARSEST = (MUSTER_SAMPLING_SPARSEST + 2) * MUSTER_THINNING_STEPS,
};

#define MUSTER_THINNING_BEHIND_NS (MUSTER_THINNING_BEHIND_S * 1000000000ull)

struct muster_thinning {
    unsigned level, fitted;    /* that would have done in the period before */
    uint64_t since_ns;         /* begin of the period */
    uint64_t id, block_plus_1; /* of the newest operation; 0: none */
    uint32_t place;            /* of that block among the others */
    uint64_t seen, stands_for; /* timed operations in the period; those and what was not timed */
};

/* Whether a level sends an operation; id: muster_sampling_id. */
bool muster_thinning_has(uint64_t id, uint64_t number, unsigned level);
/* Whether the level of now does, which is counted; timed_level: that of its communicator's timing.
 */
bool muster_thinning_takes(struct muster_thinning *thinning, uint64_t id, uint64_t number,
                           unsigned timed_level);
/* At each message: a level that does not fit `bytes` a second makes way at once, a denser one comes
 * when it would have done for two periods of four seconds. True: it has become sparser. */
bool muster_thinning_turn(struct muster_thinning *thinning, uint64_t now_ns, unsigned bytes);
/* By which level so many operations that wait are to be thinned again, so that they are not sent
 * later than some seconds: a sparser one than the rank's. 0: by none. */
unsigned muster_thinning_behind(const struct muster_thinning *thinning, unsigned bytes,
                                size_t waiting);

#endif
