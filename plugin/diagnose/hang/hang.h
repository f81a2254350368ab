/*
 * Why a job stands still. A pure function of what every rank called, launched and is known to have
 * ended, per communicator. The order of decisions: a process that is gone, another operation in the
 * same place, a rank that never came, and only then an operation that all entered and none ends;
 * what a rank misses because it waits elsewhere is laid to what it waits for.
 *
 * Times are each rank's own CLOCK_MONOTONIC; ranks of several hosts are compared on the clock of
 * the day, and only to seconds.
 */
#ifndef MUSTER_DIAGNOSE_HANG_HANG_H
#define MUSTER_DIAGNOSE_HANG_HANG_H

#include <stdbool.h>
#include <stdint.h>

#include "diagnose/finding.h"
#include "view/view.h"

/* Appends a finding for every hang that lasted `threshold_ns`. The view is one of a run: what was
 * fed by hand says nothing of processes, and no hang is found in it. False: no memory. */
bool muster_hang_find(const struct muster_view *view, uint64_t threshold_ns,
                      struct muster_findings *findings);

#endif
