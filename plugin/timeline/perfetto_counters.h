/*
 * Of each rank over time: how much of it passed waiting for others, the bus bandwidth of its
 * transfers, the share of its operations that were timed. Between perfetto*.c only.
 */
#ifndef MUSTER_TIMELINE_PERFETTO_COUNTERS_H
#define MUSTER_TIMELINE_PERFETTO_COUNTERS_H

#include "timeline/perfetto_packet.h"
#include "timeline/timeline_internal.h"

/* The first sequence and the first track that are free; tracks of GPUs begin at `gpu_track`. */
struct muster_perfetto_free {
    uint32_t sequence;
    uint64_t track, gpu_track;
};

/* Time is cut into some hundred bins, of which a value is written only where it changed. */
void muster_perfetto_put_counters(const struct muster_timeline *timeline,
                                  const struct muster_perfetto_free *first,
                                  struct muster_perfetto_out *to);

#endif
