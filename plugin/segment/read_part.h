/*
 * The parts of a living process's segment that somebody wants again and again: what is new in the
 * ring of recent operations, and the tables of communicators and network peers. A thousandth of
 * what muster_segment_read_live costs. Nothing here trusts the file.
 */
#ifndef MUSTER_SEGMENT_READ_PART_H
#define MUSTER_SEGMENT_READ_PART_H

#include "base/err.h"
#include "segment/layout.h"

/* Operations from ordinal *next on that are still whole, into op[MUSTER_SEG_RING]; *next becomes
 * the ordinal behind the last. Returns how many; fewer than *next moved by: the ring was faster. */
size_t muster_segment_read_ring(const char *path, uint64_t *next, struct muster_op *op);

/* Header, communicators, network totals and facts into a zeroed or formerly read *segment, whose
 * other parts are left as they are. Entries that never stand still keep what they held. */
int muster_segment_read_tables(const char *path, struct muster_segment *segment,
                               struct muster_err *err);

#endif
