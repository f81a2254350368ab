/*
 * What a run went through and came out of: long waits for one rank, and calls that did not match
 * though nothing hung. Both rest on when ranks called what, not on GPU times, so they are there in
 * every timing mode and with every NCCL.
 *
 * Pure: reads the view, adds findings, keeps nothing. Linear in the operations; 8 bytes an
 * operation where there was a long wait. Both fail for want of memory alone.
 */
#ifndef MUSTER_DIAGNOSE_PAST_PAST_H
#define MUSTER_DIAGNOSE_PAST_PAST_H

#include "diagnose/finding.h"
#include "view/view.h"

/* late_rank, mode once, or intermittent if it came again: all ranks that were seen had called an
 * operation but one, none of them called anything else for `long_ns`, nor did that one, and then it
 * came. What is known of the rank already gets a line of evidence instead. */
int muster_past_waits(const struct muster_view *view, uint64_t long_ns,
                      struct muster_findings *findings, struct muster_err *err);

/* mismatch: in a communicator without a hang_mismatch ranks called different things under one
 * number. Of what only moves data the bytes count, whatever their type. */
int muster_past_mismatches(const struct muster_view *view, struct muster_findings *findings,
                           struct muster_err *err);

#endif
