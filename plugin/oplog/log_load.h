/*
 * A log's bytes as far as they can mean something: its header, and those slots in which a frame may
 * begin. So a file that is larger than what was ever written to it (sparse, grown by somebody else,
 * zeros) costs no memory, and where it has holes no time.
 */
#ifndef MUSTER_OPLOG_LOG_LOAD_H
#define MUSTER_OPLOG_LOG_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct muster_log_bytes {
    uint8_t *data; /* the header's area, then slot after slot; owned */
    size_t bytes;
    uint64_t *slot_at; /* where each of these slots lies in the file; owned; NULL: as in the file */
    bool tail;         /* the last of them is the last of the file */
    unsigned damaged;  /* slots left out that hold something else than frames or zeros */
    uint64_t damaged_at; /* the first of them */
};

/* As far as the file went when it was opened: what it grows by meanwhile is not read. On failure
 * nothing is to be freed. */
int muster_log_load(const char *path, struct muster_log_bytes *log, struct muster_err *err);
/* From the slot at `at` on the first with a byte that was ever written; `size` where there is none.
 * Moves the file's offset. */
uint64_t muster_log_next_slot(int fd, uint64_t at, uint64_t size);
void muster_log_bytes_free(struct muster_log_bytes *log);

#endif
