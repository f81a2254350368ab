/*
 * Paths between the GPUs of a run: `path_missing`, where two GPUs of a host could reach each other
 * directly and do not, or data take a NIC of the other socket; `path_degraded`, where a path that
 * is used does less than it can. From the facts that each process left (segment/facts.h) and from
 * what the operations show. Runs without facts get no findings.
 */
#ifndef MUSTER_DIAGNOSE_PATH_PATH_H
#define MUSTER_DIAGNOSE_PATH_PATH_H

#include "diagnose/finding.h"
#include "view/view.h"

/* After the other detectors of operations. -1 with err: no memory. */
int muster_diagnose_path(const struct muster_view *view, struct muster_findings *findings,
                         struct muster_err *err);

/* Adds to findings of late ranks and slow transfers what is known of the culprit's GPU and of
 * the network interface. */
int muster_path_cite(const struct muster_view *view, struct muster_findings *findings,
                     struct muster_err *err);

#endif
