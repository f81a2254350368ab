/*
 * Who is late on its host, where nothing is known of GPUs: before NCCL 2.28.3, and with timing
 * light. Inside one host the times of calls are comparable, and where steps wait for each other
 * they tell a little: ranks that waited for their GPUs to be through with the same collective go on
 * together, and who calls its next operation later than the others of its host, and still is
 * later when all wait again, was held up in between (docs/diagnosis.md).
 *
 * Pure: reads the view, adds findings, keeps nothing. 4 bytes an operation, of the arena.
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_LATE_CALLS_H
#define MUSTER_DIAGNOSE_STRAGGLER_LATE_CALLS_H

#include "base/arena.h"
#include "diagnose/finding.h"
#include "view/view.h"

/* Adds a late_rank for each, and to findings->not_observable what cannot be said. Looks only at
 * GPUs of which no operation was timed. */
void muster_late_calls_find(const struct muster_view *view, struct muster_arena *memory,
                            struct muster_findings *findings);

#endif
