/* Replays of CUDA graphs, which only NCCL's own stamps time (docs/versions.md). */
#ifndef MUSTER_VERDICT_VERDICT_GRAPHS_H
#define MUSTER_VERDICT_VERDICT_GRAPHS_H

#include <stdbool.h>

#include "view/view.h"

/* Whether ranks of the view captured calls into CUDA graphs, or replays of them were recorded, and
 * no replay has times: then nobody can be seen to be late in them. */
bool muster_verdict_graphs_untimed(const struct muster_view *view);

#endif
