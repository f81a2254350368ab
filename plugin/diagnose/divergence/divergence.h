/*
 * Ranks of one communicator that decide differently: policies that are not the same, and operations
 * that ran with different algorithm, protocol or channels. NCCL checks neither, and hangs or
 * corrupts where ranks disagree. A pure function over a view; docs/diagnosis.md, "Divergence".
 */
#ifndef MUSTER_DIAGNOSE_DIVERGENCE_DIVERGENCE_H
#define MUSTER_DIAGNOSE_DIVERGENCE_DIVERGENCE_H

#include "base/err.h"
#include "diagnose/finding.h"
#include "view/view.h"

/* Appends at most one finding a communicator. NCCL loads a tuner some time after the profiler: a
 * process without one that has called nothing yet is compared only if `waited`. -1: no memory. */
int muster_diagnose_divergence(const struct muster_view *view, bool waited,
                               struct muster_findings *findings, struct muster_err *err);

#endif
