/*
 * Moving operations into a segment's exact totals. The drain thread does it while the process
 * lives; a reader does the same with what a killed process left in flight.
 */
#ifndef MUSTER_SEGMENT_TOTALS_H
#define MUSTER_SEGMENT_TOTALS_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/layout.h"

enum {
    MUSTER_ROW_INDEX = 1024, /* open addressing over MUSTER_SEG_ROWS */
    MUSTER_SIZE_ZERO = 255,  /* size classes that are no power of two */
    MUSTER_SIZE_MIXED = 254,
};

/* Private memory of whoever adds: where a class's row is. Zero-filled: empty. */
struct muster_row_index {
    uint16_t at[MUSTER_ROW_INDEX]; /* row + 1; 0: free */
    uint16_t used;
};

/* Size class of `bytes`: floor(log2), MUSTER_SIZE_ZERO for 0. */
uint8_t muster_size_log2(uint64_t bytes);

/* Builds the index of what the segment already holds. */
void muster_rows_index(const struct muster_segment *segment, struct muster_row_index *index);

/* Row of the operation's class; made if missing. When the table is full: the row of the same
 * function and mixed sizes under `other`, which always has room (rows 0 to MUSTER_FUNCS - 1). */
unsigned muster_rows_find(struct muster_segment *segment, struct muster_row_index *index,
                          const struct muster_op *op, uint64_t bytes);

/* Adds one operation to the row of its class. */
void muster_rows_add(struct muster_segment *segment, struct muster_row_index *index,
                     const struct muster_op *op, uint64_t bytes);

/* The same for the operation in slot number `slot`, as one step for a reader after SIGKILL: adds
 * it, advances `retired` of communicator entry `entry`, and gives the slot the state word `next`.
 * One writer, the drain thread. */
void muster_rows_retire(struct muster_segment *segment, struct muster_row_index *index,
                        unsigned slot, uint32_t next, unsigned entry, const struct muster_op *op,
                        uint64_t bytes);

/* Moves every row of communicator `uid` to `other` and frees them. */
void muster_rows_merge(struct muster_segment *segment, struct muster_row_index *index,
                       uint32_t uid);

/* Undoes a half-finished muster_rows_retire of a dead writer: its slot is in flight again. */
void muster_rows_undo(struct muster_segment *segment);

/* The operation in a slot as it stands now. Its times are set only if they are complete. */
void muster_slot_op(const struct muster_seg_slot *slot, struct muster_op *op);

/* The entry of `other`. */
static inline struct muster_seg_comm *muster_seg_other(struct muster_segment *segment)
{
    return &segment->comm[MUSTER_SEG_COMMS];
}

#endif
