/* What the job would have taken if transfers had been shorter. */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_HASTENED_H
#define MUSTER_DIAGNOSE_STRAGGLER_HASTENED_H

#include "view/view.h"

/* keep: of each communicator of the view the share of its transfers' time that stays; 1: all.
 * *saved_ns: what the whole job would have saved by that: nothing where computing hid it. Goes
 * through the happens-before graph anew. -1: no memory. */
int muster_hastened_ns(const struct muster_view *view, const double *keep, double *saved_ns);

#endif
