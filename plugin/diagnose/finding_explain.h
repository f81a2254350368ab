/* Findings that lead to others: the cause stands before its symptom. */
#ifndef MUSTER_DIAGNOSE_FINDING_EXPLAIN_H
#define MUSTER_DIAGNOSE_FINDING_EXPLAIN_H

#include "diagnose/finding.h"

/* Which kind of finding explains which other, about the same communicator or the same ranks. */
struct muster_finding_explains {
    enum muster_finding_kind cause, symptom;
    const char *why; /* a line of the symptom's evidence */
};
extern const struct muster_finding_explains muster_finding_explains[];
extern const unsigned muster_finding_explains_n;

/* Moves each cause before the first symptom that it explains, and notes it in the symptom. */
void muster_findings_explain(struct muster_findings *findings);

#endif
