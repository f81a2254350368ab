/* All findings of a run, whoever makes them. */
#ifndef MUSTER_DIAGNOSE_DIAGNOSE_H
#define MUSTER_DIAGNOSE_DIAGNOSE_H

#include "base/err.h"
#include "diagnose/finding.h"
#include "run/run.h"
#include "view/view.h"

/* Fills a zeroed *findings, which the caller frees in any case. */
int muster_diagnose_run(const struct muster_run *run, uint64_t hang_ns,
                        struct muster_findings *findings, struct muster_err *err);
/* The same of a view of a run; of one that was fed by hand without hangs. */
int muster_diagnose_view(const struct muster_view *view, uint64_t hang_ns,
                         struct muster_findings *findings, struct muster_err *err);

/* Neither hangs nor divergence: what the job loses while it goes on. */
int muster_diagnose_slow(const struct muster_view *view, struct muster_findings *findings,
                         struct muster_err *err);

/* What was recorded and timed, and still tells nothing of who is late or slow: adds a line for each
 * function that has no common end and was used. */
void muster_diagnose_unread(const struct muster_view *view, struct muster_finding_lines *to);

#endif
