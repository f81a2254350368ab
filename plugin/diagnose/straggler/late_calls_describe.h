/* Findings about ranks that are late by their hosts' calls. Between late_calls*.c only. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_LATE_CALLS_DESCRIBE_H
#define MUSTER_DIAGNOSE_STRAGGLER_LATE_CALLS_DESCRIBE_H

#include "diagnose/finding.h"
#include "view/view.h"

/* How late one rank of a communicator was from one wait for the GPUs to the next. */
struct muster_late_caller {
    uint32_t member;
    uint32_t ranks;          /* that are compared with each other */
    uint32_t rounds, hits;   /* late, by far the latest */
    double late_ns, next_ns; /* sums over hits: its delay, and that of the next */
    double gain_ns;          /* sum over rounds: by how much it was the latest */
    double run_ns;           /* from its first call to its last */
    double log_e;
    const struct muster_view_op *first, *last; /* late operations */
};

/* A late_rank. */
void muster_late_calls_describe(const struct muster_view *view,
                                const struct muster_late_caller *caller,
                                struct muster_findings *findings);

/* What cannot be said of ranks without GPU times. blind: such ranks; compared: those of them in
 * places where hosts wait, so that they could be compared. */
void muster_late_calls_limits(uint32_t blind, uint32_t compared, struct muster_finding_lines *to);

#endif
