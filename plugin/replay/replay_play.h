/*
 * Plays one rank's trace into a plugin, as the NCCL that it names would call: an event is delivered
 * only if the plugin's mask asks for it where that NCCL reads the mask, its handle NULL or not
 * decides about stop, states and children, and captured operations keep the mask of their capture.
 * What the recorded NCCL reported of graph replays is reported again, although NCCL is silent about
 * them where KernelCh was off at the capture and no network is used. All calls come from the
 * calling thread, in the order of the trace.
 */
#ifndef MUSTER_REPLAY_REPLAY_PLAY_H
#define MUSTER_REPLAY_REPLAY_PLAY_H

#include <stdatomic.h>
#include <stdint.h>

#include "replay/replay_driver.h"
#include "trace/trace.h"

/* Starts of operations, each where it begins to count (a collective's call; what has none before
 * v5, a send or receive and a graph's replay where they are shown), for whoever watches a play that
 * may be killed. */
struct muster_play_progress {
    _Atomic uint64_t entered;
    _Atomic uint64_t returned;
};

struct muster_play {
    uint64_t speed;    /* divides the gaps between calls; 0: no waiting */
    uint64_t epoch_ns; /* the t of the trace that is played at start_ns */
    uint64_t start_ns; /* CLOCK_MONOTONIC */
    uint64_t hold_ns;  /* pause between the last call and the finalizing that ends the trace */
    struct muster_play_progress *progress; /* may be NULL */
    uint64_t *replay_ns; /* set to when each call came, at this speed; may be NULL */
    int *mask; /* what the plugin writes: one for the process, as in NCCL, and as long as it */
};

/* Fails only for want of memory, or if an init fails. */
int muster_trace_play(const struct muster_trace *trace, const struct muster_driver *driver,
                      const struct muster_play *play, struct muster_err *err);

#endif
