/*
 * Which launches are timed, between NCCL's callbacks and the events around launches: all of them,
 * none, or those with an operation in a timed window (record/sampling.h). Numbered are a
 * communicator's collectives, and its group calls with sends or receives; nothing that differs
 * between ranks is asked.
 */
#ifndef MUSTER_RECORD_LAUNCH_TIMING_H
#define MUSTER_RECORD_LAUNCH_TIMING_H

#include "record/comm.h"
#include "record/recorder.h"

/* Whether anything can be known of this communicator's launches. If not, and that is what untimed
 * operations pay for, the functions of its calls and of what is shown need not be called. */
static inline bool muster_timing_asks(const struct muster_recorder *recorder,
                                      const struct muster_comm *comm)
{
    return comm->gpu || recorder->options.kernels;
}

/* A call that will be launched: collective `number`, or a send or receive. */
void muster_timing_collective(struct muster_recorder *recorder, struct muster_comm *comm,
                              const struct muster_event_op *op, uint64_t number);
void muster_timing_send(struct muster_recorder *recorder, struct muster_comm *comm,
                        const struct muster_event_op *op);

/* Both sides of a launch, on its thread; not of one that goes into a graph. */
void muster_timing_launch_begins(struct muster_recorder *recorder, struct muster_comm *comm,
                                 void *stream);
void muster_timing_launch_ends(struct muster_recorder *recorder, struct muster_comm *comm);

/* NCCL shows an operation: the slot, filled but not published, gets its launch's ticket. */
void muster_timing_shown(struct muster_recorder *recorder, struct muster_comm *comm,
                         struct muster_seg_slot *slot);

/* The GPU context whose launch the slot's ticket means; NULL: it has none. */
struct muster_gpu_context *muster_timing_context(struct muster_recorder *recorder,
                                                 const struct muster_seg_slot *slot);

#endif
