/*
 * Who holds the others back: late_rank (docs/diagnosis.md). Each rank's own time, what it needs by
 * itself between the operations that tie it to others, is compared with that of the ranks that do
 * the same at the same position of the step. Who needs longer too often for chance is a suspect;
 * what the job would have saved without that, by a replay of the happens-before graph, decides.
 *
 * Pure: reads the view, adds findings, keeps nothing. Memory: about 40 bytes an operation with GPU
 * times.
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_H

#include "diagnose/finding.h"
#include "view/view.h"

/* Adds a finding for each culprit, or each group of culprits of one communicator, and to
 * findings->not_observable what the clean verdicts rest on and what was not read. -1: no memory;
 * findings may then be incomplete. */
int muster_straggler_find(const struct muster_view *view, struct muster_findings *findings,
                          struct muster_err *err);

#endif
