/*
 * What a suspect cost the whole run, what was not timed included. What was timed stands for what
 * was not, half of the way to what was timed before and after, as more is timed at some times than
 * at others. By operations: by these blocks are drawn, and while the rank is late fewer pass in a
 * second. Of few blocks that may come to more than the run, which is the most that it is.
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_RUN_COST_H
#define MUSTER_DIAGNOSE_STRAGGLER_RUN_COST_H

#include "diagnose/straggler/straggler_details.h"

/* Sets run_ns of suspect s, whose gain is known, as is the group of each GPU. Without memory the
 * graph's arena has failed. */
void muster_run_cost(const struct muster_graph *graph, const struct muster_view_span *span,
                     struct muster_suspects *suspects, size_t s);

#endif
