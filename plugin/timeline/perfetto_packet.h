/* Packets of a trace, one after another, written out by the batch: deflated where the program was
 * built with zlib (perfetto_deflate.c), which Perfetto inflates as it reads. Between perfetto*.c
 * only. */
#ifndef MUSTER_TIMELINE_PERFETTO_PACKET_H
#define MUSTER_TIMELINE_PERFETTO_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "timeline/protobuf.h"

/* Zeroed but for `out`. */
struct muster_perfetto_out {
    FILE *out;
    struct muster_arena memory;    /* freed by its owner, who asks then whether it failed */
    struct muster_protobuf packet; /* those of the batch, the one at hand last */
};

/* Opens a packet of a sequence (from 1); the place is for the end. */
size_t muster_perfetto_begin(struct muster_perfetto_out *to, uint32_t sequence);
void muster_perfetto_end(struct muster_perfetto_out *to, size_t place);
/* Behind the last packet: writes what is left and frees. False: there was no memory. */
bool muster_perfetto_finish(struct muster_perfetto_out *to);

/* A reading of the sequence's own clock beside the axis: from here on its stamps are what passed on
 * that clock since the packet before. */
void muster_perfetto_put_clock(struct muster_perfetto_out *to, uint32_t sequence, uint64_t own_ns,
                               uint64_t axis_ns);

#endif
