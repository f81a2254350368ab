/*
 * A log that somebody still writes, read on from where it was read to: a slot or two of it instead
 * of the whole. What is damaged is left out, as log_reader.h does. One thread.
 */
#ifndef MUSTER_OPLOG_LOG_TAIL_H
#define MUSTER_OPLOG_LOG_TAIL_H

#include "oplog/log_reader.h"

/* Zeroed to begin with. */
struct muster_log_tail {
    struct muster_log log; /* identity, image and communicators as of the newest frame; `op`: those
                              that the image does not count yet */
    uint64_t at;           /* where the slot of the newest frame begins */
    uint32_t sequence;     /* of the newest frame */
    bool any;              /* there is one */
    uint64_t changed_ns;   /* of the file, when it was read */
};

/* Reads what is new, the first time everything, and hands its operations to `take` in the order of
 * retirement; what `take` gets is gone when it returns, and it cannot end it. Fails only without a
 * valid header or a file, or without memory. */
int muster_log_tail_read(struct muster_log_tail *tail, const char *path, muster_op_taker take,
                         void *to, struct muster_err *err);

void muster_log_tail_free(struct muster_log_tail *tail);

#endif
