/* The writer's side of a segment: create it, keep its lock, retire it. */
#ifndef MUSTER_SEGMENT_SEGMENT_FILE_H
#define MUSTER_SEGMENT_SEGMENT_FILE_H

#include <stdbool.h>

#include "base/err.h"
#include "segment/layout.h"

struct muster_segment_file {
    struct muster_segment *map; /* MADV_DONTFORK: a forked child must not touch it */
    bool shared;                /* false: anonymous memory, no live view */
    int lock_fd;                /* held for the life of the process; -1 without a file */
    int pid;                    /* of the owner: a forked child leaves everything alone */
    char path[MUSTER_SEG_PATH]; /* of the segment; "" without a file */
    char lock_path[MUSTER_SEG_PATH];
};

enum muster_segment_created {
    MUSTER_SEGMENT_OK,        /* err has why memory is anonymous, if it is */
    MUSTER_SEGMENT_DUPLICATE, /* another copy of the library records this process */
    MUSTER_SEGMENT_FAILED,    /* not even anonymous memory */
};

/* Creates <dir>/muster-<uid>-<pid namespace>-<pid>-<start ticks>.seg (0600, zero-filled in full, so
 * that a full tmpfs fails here; at most an eighth of what is free, the rest is NCCL's) and its
 * .lock, whose POSIX record lock shows that the process lives; the lock file is opened exactly
 * once. Falls back to anonymous memory where `dir` is no tmpfs, is not writable, or is full. What a
 * program left that called exec in this process is set aside for whoever reaps next; the new
 * segment's file_stem is then another than `identity` has. */
enum muster_segment_created muster_segment_create(struct muster_segment_file *file, const char *dir,
                                                  const struct muster_seg_identity *identity,
                                                  struct muster_err *err);

/* Copies the segment to <run_dir>/<file_stem>.seg (temporary name, then rename) and, if that
 * worked, removes it and its lock from the segment directory. Blocks on the file system. Fails in
 * a forked child. */
int muster_segment_archive(struct muster_segment_file *file, struct muster_err *err);

#endif
