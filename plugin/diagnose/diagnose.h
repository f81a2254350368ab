/* All findings of a loaded run, whoever makes them. */
#ifndef MUSTER_DIAGNOSE_DIAGNOSE_H
#define MUSTER_DIAGNOSE_DIAGNOSE_H

#include "base/err.h"
#include "diagnose/finding.h"
#include "segment/run.h"

/* Fills a zeroed *findings, which the caller frees in any case. */
int muster_diagnose_run(const struct muster_run *run, uint64_t hang_ns,
                        struct muster_findings *findings, struct muster_err *err);

/* late_rank and slow_transfer alone. */
int muster_diagnose_slow(const struct muster_run *run, struct muster_findings *findings,
                         struct muster_err *err);

#endif
