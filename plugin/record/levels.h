/*
 * Which operations `auto` times: by price, not by share. A communicator's operations come in blocks
 * of 64. At a block's end the communicator takes the densest level that keeps what the whole
 * process pays for timing under 0.5 % of its time; level k times one block in 2^k.
 *
 * Levels nest: which blocks a level times is a pure function of the communicator's id and the
 * block's number, and each level's blocks are among those of the level above it. So ranks that
 * chose different levels share the sparser one's blocks; nothing is agreed and no clock compared.
 */
#ifndef MUSTER_RECORD_LEVELS_H
#define MUSTER_RECORD_LEVELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MUSTER_BLOCK = 64,        /* operations; a power of two */
    MUSTER_LEVEL_MOST = 8,    /* one block in 256 */
    MUSTER_TIMING_PPM = 5000, /* what timing may cost, of the process's time */
};

/* Whether a level times a block: exactly one in each aligned run of 2^level blocks. */
bool muster_block_timed(uint64_t id, uint64_t block, unsigned level);

/* The process's: what timing everything would cost, over windows of a second at most. */
struct muster_meter {
    _Atomic uint64_t price_ns; /* of all blocks that ended */
    _Atomic uint64_t window_ns, window_price_ns;
    _Atomic uint64_t blocks, window_blocks;
    _Atomic uint32_t load_ppm; /* in the last whole window, as the next */
    _Atomic uint32_t rate;     /* operations a second */
};

/* A communicator's, and its calling thread's. */
struct muster_level {
    unsigned level;
    uint64_t price_ns; /* of its launches so far */
    uint64_t calm_ns;  /* a denser level would have done since then; 0: it would not */
};

/* Before the first operation of a block. now_ns: of one clock for the whole process that may stand
 * still (a replay's). Returns the level from here on: a sparser one at once, the next denser one if
 * it would have done for ten seconds. */
unsigned muster_level_turn(struct muster_level *level, struct muster_meter *meter, uint64_t now_ns);

#endif
