/* What stands beside a verdict that names nobody. */
#ifndef MUSTER_VERDICT_VERDICT_CLEAN_H
#define MUSTER_VERDICT_VERDICT_CLEAN_H

#include <stdbool.h>

#include "base/arena.h"
#include "view/view.h"

/* Whether ranks of the view captured calls into CUDA graphs, or replays of them were recorded, and
 * no replay has times, as only NCCL's own stamps time them (docs/versions.md): then nobody can be
 * seen to be late in them. */
bool muster_verdict_graphs_untimed(const struct muster_view *view);

/* Which part of the time that timed operations cover their ranks waited for others in operations
 * that all of a communicator leave together. 0 also where it is not known. One pass over the
 * view's operations. */
double muster_verdict_waited(const struct muster_view *view, struct muster_arena *memory);

#endif
