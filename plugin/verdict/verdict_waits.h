/* Waiting that nobody is named for. */
#ifndef MUSTER_VERDICT_VERDICT_WAITS_H
#define MUSTER_VERDICT_VERDICT_WAITS_H

#include "base/arena.h"
#include "view/view.h"

/* Which part of the time that timed operations cover their ranks waited for others in operations
 * that all of a communicator leave together. 0 also where it is not known. One pass over the
 * view's operations. */
double muster_verdict_waited(const struct muster_view *view, struct muster_arena *memory);

#endif
