/* Where in the step something happens, in a user's words. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_WHERE_H
#define MUSTER_DIAGNOSE_STRAGGLER_STRAGGLER_WHERE_H

#include "diagnose/straggler/job_graph.h"

/* "before the first of 3 AllReduce of each step". A step begins where no gradients have been
 * reduced for longest afterwards; where all its operations are alike, after its longest pause. */
void muster_where_of(const struct muster_graph *graph, uint32_t seat, char *to, size_t size);

#endif
