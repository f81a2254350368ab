/* Words findings of late ranks. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_DESCRIBE_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_DESCRIBE_H

#include "diagnose/finding.h"
#include "diagnose/straggler/straggler_details.h"

void muster_straggler_describe(const struct muster_graph *graph,
                               const struct muster_suspects *suspects,
                               const struct muster_view_span *span,
                               struct muster_findings *findings);

#endif
