/* What the job would have taken if transfers had been shorter. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_WHAT_IF_TRANSFERS_H
#define MUSTER_DIAGNOSE_STRAGGLER_WHAT_IF_TRANSFERS_H

#include "view/view.h"

/* What the whole job would have saved: nothing where computing hid it. keep: of each communicator
 * of the view the share of its transfers' time that stays; 1: all. Goes through the happens-before
 * graph anew; 0 once the arena, which checks are for, has failed. */
double muster_hastened_ns(const struct muster_view *view, const double *keep,
                          struct muster_arena *memory);

#endif
