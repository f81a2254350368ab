/* The drain thread's work: retire operations, stamp the heartbeat, make room for communicators. */
#ifndef MUSTER_RECORD_DRAIN_H
#define MUSTER_RECORD_DRAIN_H

#include "record/recorder.h"

/* Starts the thread, "muster-drain". 0 or an errno. */
int muster_drain_start(struct muster_recorder *recorder);

/* One pass over all slots; the caller holds recorder->drain_lock. */
void muster_drain_pass(struct muster_recorder *recorder, uint64_t now_ns);

#endif
