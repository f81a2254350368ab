/*
 * Transfers that take long although nobody is late: slow_transfer (docs/diagnosis.md). Only where
 * all ranks of a communicator are in view, because seen from a part of them every wait for an
 * unseen rank looks like a transfer.
 */
#ifndef MUSTER_DIAGNOSE_TRANSFER_TRANSFER_H
#define MUSTER_DIAGNOSE_TRANSFER_TRANSFER_H

#include "diagnose/finding.h"
#include "view/view.h"

/* To be called after muster_straggler_find: communicators with a late rank in `findings` are left
 * alone. -1: no memory. */
int muster_diagnose_transfer(const struct muster_view *view, struct muster_findings *findings,
                             struct muster_err *err);

#endif
