/*
 * Network proxy operations in flight: NCCL's progress thread announces one per channel and peer,
 * and inside timed windows each of its steps with what it waits for. Their slots are private
 * memory; the drain thread adds finished ones to the segment's `net`.
 */
#ifndef MUSTER_RECORD_PROXY_H
#define MUSTER_RECORD_PROXY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/event.h"
#include "segment/layout.h"

enum {
    MUSTER_PROXY_SLOTS = 1024,
    MUSTER_PROXY_STEPS = 8, /* NCCL_STEPS: steps of one operation that are in flight at once */
};

/* What a step waits for. */
enum muster_wait {
    MUSTER_WAIT_NONE,
    MUSTER_WAIT_GPU,
    MUSTER_WAIT_CREDIT,
    MUSTER_WAIT_NET,
    MUSTER_WAIT_FLUSH,
    MUSTER_WAITS
};

struct muster_proxy_step {
    uint64_t since_ns;
    uint64_t bytes;
    uint32_t wait; /* enum muster_wait */
    bool open;
};

/* One proxy thread writes it from start to stop; state publishes it to the drain thread. */
struct muster_proxy_slot {
    uint32_t comm; /* uid */
    int32_t peer;
    bool send;
    bool has_op;
    uint16_t op_slot;
    uint32_t op_generation;
    struct muster_op op; /* of the operation it belongs to, as far as known; func UNKNOWN: none */
    uint32_t nranks;
    uint64_t bytes;
    uint64_t steps;
    uint64_t wait_ns[MUSTER_WAITS];
    struct muster_proxy_step step[MUSTER_PROXY_STEPS];
};

struct muster_proxy_pool {
    _Atomic uint32_t cursor;
    /* generation << 8 | enum muster_slot_state: FREE, FILLING, LAUNCHED, DONE */
    _Atomic uint32_t state[MUSTER_PROXY_SLOTS];
    struct muster_proxy_slot slot[MUSTER_PROXY_SLOTS];
};

struct muster_recorder;

void *muster_proxy_op_start(struct muster_recorder *recorder, const void *context,
                            const struct muster_event *event);
void muster_proxy_op_stop(struct muster_recorder *recorder, const void *handle);
void muster_proxy_op_progress(struct muster_recorder *recorder, const void *handle);
void *muster_proxy_step_start(struct muster_recorder *recorder, const struct muster_event *event);
void muster_proxy_step_state(struct muster_recorder *recorder, const void *handle, unsigned state,
                             const struct muster_event_args *args);
void muster_proxy_step_stop(struct muster_recorder *recorder, const void *handle);

/* Drain thread: adds finished proxy operations to the segment and frees their slots. */
void muster_proxy_retire(struct muster_recorder *recorder);

#endif
