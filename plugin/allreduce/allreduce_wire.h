/* What the all-reduce job and its ranks send each other: one packet a message, on a socket pair per
 * rank. Both ends are the same program, so the structs travel as they are. */
#ifndef MUSTER_ALLREDUCE_ALLREDUCE_WIRE_H
#define MUSTER_ALLREDUCE_ALLREDUCE_WIRE_H

#include "allreduce/allreduce.h"
#include "allreduce/gpu_api.h"

enum muster_wire_kind {
    MUSTER_WIRE_PLAN,   /* to a rank: first */
    MUSTER_WIRE_ID,     /* from rank 0, then to all others */
    MUSTER_WIRE_TURN,   /* from a rank: it wants a turn, and waits; then to all: here it is */
    MUSTER_WIRE_OVER,   /* from a rank: its turn is over */
    MUSTER_WIRE_TIMES,  /* from a rank: one size */
    MUSTER_WIRE_FAILED, /* from a rank: last */
    MUSTER_WIRE_DONE,   /* from a rank: last */
};

struct muster_wire {
    uint32_t kind;  /* enum muster_wire_kind */
    uint32_t index; /* PLAN: rank; TIMES: of the size */
    union {
        struct muster_allreduce_plan plan;
        struct muster_nccl_id id;
        double us[MUSTER_ALLREDUCE_ROUNDS];
        struct muster_err failed;
    };
};

/* Whole message or -1. */
int muster_wire_send(int fd, const struct muster_wire *message);
/* 1 with a message, 0 at the end, -1 for an error or something that is no message. */
int muster_wire_receive(int fd, struct muster_wire *message);

#endif
