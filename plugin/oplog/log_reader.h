/*
 * Reading a log: whole, finished or still growing, damaged or not. Nothing in the file is
 * trusted; what is damaged is skipped, counted and left out, everything else is read.
 */
#ifndef MUSTER_OPLOG_LOG_READER_H
#define MUSTER_OPLOG_LOG_READER_H

#include "base/err.h"
#include "base/hashmap.h"
#include "oplog/log_format.h"

struct muster_log {
    struct muster_seg_identity identity;
    struct muster_segment *image; /* as of its newest patches, every entry checked; without slots
                                     at rest, without a ring; owned */
    struct muster_op *op;         /* in the order of retirement; owned; NULL: only counted */
    size_t ops;
    size_t room;       /* of `op` */
    size_t ops_imaged; /* the first so many of `op` were retired before the image was written: it
                          counts them */
    struct muster_log_comm *comm; /* every communicator written; owned */
    size_t comms;
    struct muster_hashmap comm_at; /* places in `comm` by uid */
    uint64_t next_op;              /* ordinal after the last operation of the log */
    uint64_t ops_missing;          /* of the ordinals below, those not in `op` */
    bool no_memory;                /* only while it is read */
    unsigned damaged;              /* frames or stretches skipped */
    uint64_t damaged_at;           /* where the first lies in the file */
};

/* `name` stands in errors. Fails only without a valid header, or without memory for all of it. */
int muster_log_parse(const char *name, const void *data, size_t bytes, struct muster_log *log,
                     struct muster_err *err);
int muster_log_read(const char *path, struct muster_log *log, struct muster_err *err);
/* Likewise, but the operations are only counted, and there is no image. */
int muster_log_count(const char *path, struct muster_log *log, struct muster_err *err);
/* The operations with ordinals below `end`, in the order of retirement, some thousands at a time: a
 * log is never in memory decoded as a whole. `take` returns false to end it, without an error; what
 * it gets is gone when it returns. Fails as muster_log_read does. */
typedef bool (*muster_op_taker)(void *to, const struct muster_op *op, size_t n);
int muster_log_read_ops(const char *path, uint64_t end, muster_op_taker take, void *to,
                        struct muster_err *err);
/* Only who wrote it. */
int muster_log_read_identity(const char *path, struct muster_seg_identity *identity,
                             struct muster_err *err);
void muster_log_free(struct muster_log *log);

#endif
