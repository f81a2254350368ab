/* How a divergence is worded. Between divergence*.c only. `side`: of each member of the
 * communicator, its side's first member; MUSTER_VIEW_NONE: not compared. */
#ifndef MUSTER_DIAGNOSE_DIVERGENCE_DIVERGENCE_DESCRIBE_H
#define MUSTER_DIAGNOSE_DIVERGENCE_DIVERGENCE_DESCRIBE_H

#include "diagnose/confidence.h"
#include "diagnose/divergence/divergence_sides.h"
#include "diagnose/finding.h"
#include "view/view.h"

/* Kind, communicator, whom the sides make the minority, and how sure that is. */
void muster_divergence_begin(struct muster_finding *finding, const struct muster_view *view,
                             const struct muster_view_comm *comm,
                             const struct muster_partition *sides, enum muster_divergence of);
void muster_divergence_of_policies(struct muster_finding *finding, const struct muster_view *view,
                                   const struct muster_view_comm *comm, const uint32_t *side);
/* The first operation that differs; op[i]: the member's, or NULL. */
void muster_divergence_of_operation(struct muster_finding *finding, const struct muster_view *view,
                                    const struct muster_view_comm *comm,
                                    const struct muster_view_op *const *op, const uint32_t *side);
void muster_divergence_count(struct muster_finding *finding, const struct muster_view_comm *comm,
                             uint64_t different, uint64_t compared);
/* Ranks called different things in one place; `doubtful`: operations before it that differ, and may
 * do so because they are not the same ones. */
void muster_divergence_not_compared(struct muster_findings *findings,
                                    const struct muster_view_comm *comm,
                                    const struct muster_view_op *const *op, uint64_t doubtful);

#endif
