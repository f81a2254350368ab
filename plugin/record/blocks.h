/*
 * Which operations are timed under `auto`, and how NCCL is told.
 *
 * Blocks of 64 operations, one in every 34 blocks (2.9 %), each at a pseudo-random place among its
 * 34 so that no period of a training step meets it always; the first block of a communicator is
 * timed. A pure function of (communicator id, operation number): the same on every rank, without a
 * message or a clock.
 *
 * NCCL reads the event mask, one int per process, before the first callback of an operation. So
 * the mask for operation k + 1 is set in a callback of operation k.
 */
#ifndef MUSTER_RECORD_BLOCKS_H
#define MUSTER_RECORD_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    MUSTER_BLOCK = 64,         /* operations; a power of two */
    MUSTER_BLOCKS_A_TURN = 34, /* of which one is timed */
    MUSTER_ARMING_COMMS = 8,   /* communicators that may start blocks: the first arming of each
                                  costs NCCL 128 connections */
};

bool muster_block_timed(uint64_t comm_id, uint64_t number);

/* With several communicators the mask of one times its neighbours, too. So a communicator starts
 * only every m-th of its blocks, m being the communicators alive rounded up to a power of two, and
 * a block ends early when its neighbours have used up twice its share of operations (a group that
 * is called once an hour must not keep the mask up for days). */
bool muster_block_starts(uint64_t comm_id, uint64_t number, uint32_t comms_alive);

/* The process's mask. All calls on NCCL's threads; no lock. */
struct muster_arming {
    int *mask; /* NCCL's own; NULL until the first init */
    int resting, timing;
    bool possible;            /* kernel timing is wanted and safe in this process */
    bool always;              /* `full` */
    _Atomic bool stopped;     /* a CUDA graph was captured: no block any more */
    _Atomic bool forbidden;   /* it became unsafe: nothing is timed any more, not even in `full` */
    _Atomic uint32_t wanting; /* communicators inside a block */
    _Atomic int32_t budget;   /* operations of the process that may still be timed */
    _Atomic uint64_t settle_ns; /* nothing called before is judged: a first arming stalls all */
};

/* One communicator's part: for collectives, and for its sends and receives. */
struct muster_block_state {
    _Atomic bool wants;
};

/* Whether NCCL times what it starts now. */
static inline bool muster_arming_on(const struct muster_arming *arming)
{
    if (arming->always)
        return !atomic_load_explicit(&arming->forbidden, memory_order_relaxed);
    return atomic_load_explicit(&arming->wanting, memory_order_relaxed) != 0 &&
           atomic_load_explicit(&arming->budget, memory_order_relaxed) > 0 &&
           !atomic_load_explicit(&arming->stopped, memory_order_relaxed);
}

/* Before operation `next` of a communicator: arms or disarms for it. comms_alive: now. */
void muster_arming_turn(struct muster_arming *arming, struct muster_block_state *state,
                        uint64_t comm_id, uint64_t next, uint32_t comms_alive);

/* An operation was timed that NCCL started just now. */
void muster_arming_spend(struct muster_arming *arming);

/* The communicator ends. */
void muster_arming_leave(struct muster_arming *arming, struct muster_block_state *state);

/* A CUDA graph is being captured: the mask would be frozen into it. For good. */
void muster_arming_stop(struct muster_arming *arming);

/* Another communicator's kernels could not be timed safely, and the mask is the process's: for
 * good, and also in `full`. Before that communicator's first operation. */
void muster_arming_forbid(struct muster_arming *arming);

/* What the mask has to be now. */
int muster_arming_mask(const struct muster_arming *arming);

/* Writes that into `mask`, which may be NULL; also for an init. */
void muster_arming_write(const struct muster_arming *arming, int *mask);

#endif
