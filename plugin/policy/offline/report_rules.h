/* The report's rows by rule: what the tuner counted, from the segments, and what ran where each
 * rule decides, from the recorded operations and the policy's text in the run directory. */
#ifndef MUSTER_POLICY_OFFLINE_REPORT_RULES_H
#define MUSTER_POLICY_OFFLINE_REPORT_RULES_H

#include "base/err.h"
#include "report/report.h"

/* Makes report->rule; what is not known becomes a gap. -1: no memory. */
int muster_report_rules_add(const struct muster_view *view, struct muster_report *report,
                            struct muster_err *err);

#endif
