/* The log as a file of slots: where the next frame goes, and what it replaces. One thread. */
#ifndef MUSTER_OPLOG_LOG_FILE_H
#define MUSTER_OPLOG_LOG_FILE_H

#include "base/err.h"
#include "oplog/log_format.h"

struct muster_log_file {
    int fd;
    uint32_t slots;     /* the file holds at most */
    uint32_t slot;      /* in use */
    uint32_t used;      /* bytes of it */
    uint32_t begun;     /* slots begun before this one */
    uint32_t sequence;  /* of the next frame */
    uint32_t *slot_ops; /* operations in each slot */
    uint64_t generation;
    struct muster_seg_identity identity; /* as last written */
    char path[MUSTER_SEG_PATH + 160];
};

/* Creates <dir>/<stem>.log (O_EXCL, 0600); where that or <stem>.seg is taken, by a process that
 * had this pid before, with ".2" and so on after the stem, which is changed. */
int muster_log_file_create(struct muster_log_file *file, const char *dir, char *stem,
                           size_t stem_size, uint64_t max_bytes, struct muster_err *err);
void muster_log_file_close(struct muster_log_file *file);

/* Writes who writes; nothing if that stands there already. Returns 0 or an errno value. */
int muster_log_file_identity(struct muster_log_file *file,
                             const struct muster_seg_identity *identity);

/* Room for a frame in the slot in use, header included. */
size_t muster_log_file_room(const struct muster_log_file *file);

/* Goes to the next slot, the oldest once all have been used; returns how many operations are
 * given up with what it held. */
uint32_t muster_log_file_next(struct muster_log_file *file);

/* Writes a closed frame of `bytes` with 8 zero bytes behind it. On failure nothing moves: the same
 * frame can be tried again. Returns 0 or an errno value. */
int muster_log_file_append(struct muster_log_file *file, const void *frame, size_t bytes,
                           uint32_t ops);

#endif
