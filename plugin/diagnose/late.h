/*
 * Who holds the others back: late_rank (docs/diagnosis.md). A rank is late in an operation if it
 * both came last (the others ran longer) and had taken more time than they since its own previous
 * operation. A rank that is late because it waited elsewhere has an ordinary self time: a victim.
 *
 * Pure: reads the view, adds findings, keeps nothing. Memory: 300 bytes a member of the largest
 * communicator beside what the findings take.
 */
#ifndef MUSTER_DIAGNOSE_LATE_H
#define MUSTER_DIAGNOSE_LATE_H

#include "diagnose/finding.h"
#include "diagnose/view.h"

/* Adds a finding for each culprit, or each group of culprits of one communicator, and to
 * findings->not_observable what the clean verdicts rest on and what was not read. -1: no memory;
 * findings may then be incomplete. */
int muster_diagnose_late(const struct muster_view *view, struct muster_findings *findings,
                         struct muster_err *err);

#endif
