/*
 * What writer and reader of the wire format agree on about rows of operations: each is coded by how
 * it differs from what is expected after those before; and about findings. Both keep the same
 * expectation, from the times as they were coded, so that what is rounded never adds up. Between
 * wire_*.c only.
 */
#ifndef MUSTER_FLEET_WIRE_OPS_H
#define MUSTER_FLEET_WIRE_OPS_H

#include "fleet/wire.h"

/* Low bits of an operation's key; above them its class, less the lowest class of the row. */
enum {
    MUSTER_WIRE_TIMED = 1,
    MUSTER_WIRE_SAME = 2, /* begin and end of the one before: one kernel */
    MUSTER_WIRE_JUMP = 4, /* its number is not the expected one */
    MUSTER_WIRE_FAR = 8,  /* some of its times is so far from the expected one that a thousandth of
                             that is long: all are in units */
    MUSTER_WIRE_KEY_BITS = 4,
};
/* From a tenth of a second on a code is wrong by 0.1 ms. With 16 ms slow jobs would take half as
 * many bytes again. */
enum { MUSTER_WIRE_FAR_NS = 100000000, MUSTER_WIRE_UNIT_NS = 1000 };

/* Of one class: a step repeats itself, so numbers go on by what they went on by before. */
struct muster_wire_stride {
    uint64_t last, step;
};

struct muster_wire_expect {
    struct muster_wire_stride stride[MUSTER_WIRE_CLASSES]; /* of class id % 256 */
    uint64_t enqueue_ns, begin_ns, end_ns;
};

static inline void muster_wire_expect_number(struct muster_wire_stride *stride, uint64_t number)
{
    stride->step = number - stride->last;
    stride->last = number;
}

/* Of a finding, one byte. */
enum {
    MUSTER_WIRE_HAS_OP = 1 << 0,
    MUSTER_WIRE_BY_CALLS = 1 << 1,
    MUSTER_WIRE_AGAINST_ONE = 1 << 2,
};
/* Its numbers that are none of things are sent as millionths; what is beyond them, or no number, as
 * 0. */
#define MUSTER_WIRE_MILLION 1e6

#endif
