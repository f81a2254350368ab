/*
 * NCCL's events on NCCL's threads: no lock, no allocation, no system call but the clock. Any
 * handle or context may be NULL, stale, or another process's.
 */
#ifndef MUSTER_RECORD_TRACK_H
#define MUSTER_RECORD_TRACK_H

#include "record/recorder.h"

/* The handle to give NCCL; NULL: no further calls for this event are wanted. */
void *muster_track_start(struct muster_recorder *recorder, const void *context,
                         const struct muster_event *event);
void muster_track_state(struct muster_recorder *recorder, const void *handle, unsigned state,
                        const struct muster_event_args *args);
void muster_track_stop(struct muster_recorder *recorder, const void *handle);

/* The slot that an operation's handle means, if that operation is still in flight; else NULL,
 * counted by reason. */
struct muster_seg_slot *muster_track_slot(struct muster_recorder *recorder, const void *handle);

/* The same of a handle of this process, and nothing is counted: of who may come after the end. */
struct muster_seg_slot *muster_track_in_flight(struct muster_recorder *recorder,
                                               struct muster_handle h);

/* A call without a launch becomes its launch's or, given up, the drain thread's: true for who comes
 * first. The slot stays CALLED, for whoever reads after a kill, until the taker sets its next
 * state. Any thread. */
bool muster_track_take_call(struct muster_recorder *recorder, unsigned index, uint32_t generation);

#endif
