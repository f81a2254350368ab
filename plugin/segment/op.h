/*
 * One operation of one rank as it stands in a segment's ring and comes out of a log: plain data
 * of fixed layout, 64 bytes.
 */
#ifndef MUSTER_SEGMENT_OP_H
#define MUSTER_SEGMENT_OP_H

#include <stdint.h>

enum muster_op_flags {
    MUSTER_OP_GRAPH = 1 << 0,      /* replayed from a CUDA graph; numbered apart from eager ones */
    MUSTER_OP_API_ONLY = 1 << 1,   /* seen as a call only: NCCL shows no launch for its kernel */
    MUSTER_OP_IN_WINDOW = 1 << 2,  /* its launch is timed, by events or by its kernels' stamps */
    MUSTER_OP_UNSCORED = 1 << 3,   /* warm-up: never evaluated */
    MUSTER_OP_INCOMPLETE = 1 << 4, /* retired before all it announced had ended: no times */
};

/* The high byte of the flags: the operation's entry in muster_segment.tag of its process, plus 1;
 * 0: it has no tag. */
enum { MUSTER_OP_TAG_SHIFT = 8 };
static inline unsigned muster_op_tag(uint16_t flags)
{
    return flags >> MUSTER_OP_TAG_SHIFT;
}

enum { MUSTER_WARM_UP = 3 }; /* first operations of a communicator that are never evaluated */

struct muster_op {
    uint64_t number;     /* ordinal of the collective in its communicator, of a send or receive
                            per (communicator, source, destination); from 0 */
    uint64_t enqueue_ns; /* host, CLOCK_MONOTONIC: the call */
    uint64_t begin_ns;   /* clock of `source`; 0 with end_ns where there is no source */
    uint64_t end_ns;
    uint64_t count; /* elements, as the caller counts them */
    uint32_t comm;  /* muster_seg_comm.uid of this process */
    int32_t peer;   /* root of a rooted collective, peer of a send or receive, else -1 */
    uint8_t func;
    uint8_t dtype;
    uint8_t algo;
    uint8_t proto;
    uint8_t channels;
    uint8_t source;
    uint16_t flags;
};
_Static_assert(sizeof(struct muster_op) == 56, "on-disk and shared layout");

static inline uint64_t muster_op_duration_ns(const struct muster_op *op)
{
    return op->end_ns - op->begin_ns;
}

#endif
