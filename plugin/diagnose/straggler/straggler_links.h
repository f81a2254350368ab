/* Links between hosts that sends and receives need longer over than over the others, from the
 * beginning: slow_transfer, as a pipeline shows it (docs/diagnosis.md). */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_LINKS_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_LINKS_H

#include "diagnose/straggler/straggler_details.h"

/* Links of hosts with a suspect are left alone. Memory is the graph's. */
void muster_straggler_links(const struct muster_graph *graph,
                            const struct muster_suspects *suspects,
                            const struct muster_view_span *span, struct muster_findings *findings);

#endif
