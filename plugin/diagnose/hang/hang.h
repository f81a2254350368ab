/*
 * Why a job stands still. A pure function of what every rank called, launched and is known to have
 * ended, per communicator. The order of decisions: a process that is gone, another operation in the
 * same place, a rank that never came, and only then an operation that all entered and none ends;
 * what a rank misses because it waits elsewhere is laid to what it waits for.
 *
 * A process that is gone while others of its communicator live on is reported before anybody has
 * waited for as long as the threshold, as hang_dead with or without an operation; not where most
 * are gone, and of one that left by exit() only where others called what it never will.
 *
 * Of a job that is gone as a whole, and hung in nothing, the one that was killed a second or more
 * before all others can be named, as hang_dead, where they waited for it. Who asks is somebody that
 * looked on while it lived: of a recording the report shows who called less.
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

/* How long others have to live on before a process that is gone is reported. */
enum { MUSTER_HANG_GONE_S = 3 };

/* Whether it is time to look for others that live on after a process went (0: none did): once they
 * can have, and once a second for a while after that, as their heartbeats may be older. */
bool muster_hang_gone_due(uint64_t gone_ns, uint64_t evaluated_ns, uint64_t now_ns);

/* Appends a finding for every hang that lasted `threshold_ns`; `first`: or for who went first of a
 * job that is over. The view is one of a run: what was fed by hand has no processes, and no hang is
 * found in it. False: no memory. */
bool muster_hang_find(const struct muster_view *view, uint64_t threshold_ns, bool first,
                      struct muster_findings *findings);

#endif
