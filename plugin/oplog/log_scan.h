/* Finding the frames of a log's slots among whatever a file holds. Between log_reader.c and
 * log_tail.c. */
#ifndef MUSTER_OPLOG_LOG_SCAN_H
#define MUSTER_OPLOG_LOG_SCAN_H

#include "oplog/log_reader.h"

/* One frame, and where it begins in the data. */
struct muster_log_place {
    struct muster_log_frame frame;
    size_t at;
};

struct muster_log_scan {
    const uint8_t *data;
    size_t bytes;
    const uint64_t *slot_at; /* where each slot lies in the file; NULL: as here */
    bool inside;             /* the file goes on behind the data: no frame is cut off there */
    struct muster_log_place *place; /* what was found, slot by slot; owned by the caller */
    size_t places;
    size_t budget; /* bytes that searching may still check: hostile files have a magic everywhere */
    struct muster_log *log; /* gets damage, and want of memory */
};

/* Adds the frames of the slot from `at` up to `end`. False: no memory. */
bool muster_log_scan_slot(struct muster_log_scan *scan, size_t at, size_t end);

/* A stretch that could not be read. */
void muster_log_damage(const struct muster_log_scan *scan, size_t at);

/* From the slot at `at` on the first with a byte that was ever written; `size` where there is none.
 * Moves the file's offset. */
uint64_t muster_log_next_slot(int fd, uint64_t at, uint64_t size);

/* For qsort. */
int muster_log_by_sequence(const void *a, const void *b);

/* The header of what was read of a file's beginning, of both copies the newer one. */
int muster_log_parse_header(const char *name, const uint8_t *data, size_t bytes,
                            struct muster_log_header *to, struct muster_err *err);

#endif
