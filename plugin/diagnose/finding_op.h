/* The operation that a finding is about, from the view. */
#ifndef MUSTER_DIAGNOSE_FINDING_OP_H
#define MUSTER_DIAGNOSE_FINDING_OP_H

#include "diagnose/finding.h"
#include "diagnose/view.h"

/* Sets finding->op, but for its root. */
void muster_finding_set_op(struct muster_finding *finding, const struct muster_view *view,
                           const struct muster_view_comm *comm, const struct muster_view_op *op);

#endif
