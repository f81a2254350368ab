/*
 * Every rank waits alike: before the same position all ranks need longer by themselves than they
 * usually do, by as much, and their hosts call late. It is nobody's fault: the input, the storage
 * or the network that all share. Only where no rank is late by itself: that would delay others,
 * too.
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_ALIKE_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_ALIKE_H

#include "diagnose/finding.h"
#include "diagnose/straggler/job_graph.h"
#include "view/coverage.h"

/* Adds at most one finding, of the position where it costs most. */
void muster_straggler_alike(const struct muster_graph *graph, const struct muster_view_span *span,
                            struct muster_findings *findings);

#endif
