/*
 * Reading a log: whole, finished or still growing, damaged or not. Nothing in the file is
 * trusted; what is damaged is skipped, counted and left out, everything else is read.
 */
#ifndef MUSTER_SEGMENT_LOG_READ_H
#define MUSTER_SEGMENT_LOG_READ_H

#include "base/err.h"
#include "segment/log_format.h"
#include "segment/table.h"

/* The newest state of a communicator, and how many operations stood before it. */
struct muster_log_seen {
    struct muster_log_comm_state state; /* state.pending is owned */
    size_t ops_before;
};

struct muster_log {
    struct muster_seg_identity identity;
    uint32_t version;
    struct muster_seg_policy *policy; /* NULL: none was told; owned */
    struct muster_facts *facts;       /* NULL: none were told; owned */
    struct muster_op *op;             /* in the order of retirement; owned */
    size_t ops;
    struct muster_log_comm *comm; /* every communicator told; owned */
    size_t comms;
    struct muster_uid_index comm_index;
    struct muster_log_seen *seen; /* owned */
    size_t seens;
    struct muster_uid_index seen_index;
    struct muster_log_process_state process; /* the newest */
    bool has_process;
    uint64_t next_op;     /* ordinal after the last operation of the log */
    uint64_t ops_missing; /* of the ordinals below, those not in `op` */
    bool no_memory;       /* only while it is read */
    unsigned damaged;     /* frames or stretches skipped */
    uint64_t damaged_at;  /* where the first lies in the file */
};

/* `name` stands in errors. Fails only without a valid header, or without memory for all of it. */
int muster_log_parse(const char *name, const void *data, size_t bytes, struct muster_log *log,
                     struct muster_err *err);
int muster_log_read(const char *path, struct muster_log *log, struct muster_err *err);
/* Only who wrote it. */
int muster_log_read_identity(const char *path, struct muster_seg_identity *identity,
                             struct muster_err *err);
void muster_log_free(struct muster_log *log);

#endif
