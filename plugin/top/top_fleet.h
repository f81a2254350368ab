/*
 * One job over all its hosts, for the screen: what a fleet's worker sends of it each second
 * (fleet/picture.h) and the findings that stand there, both JSON that came over a network: nothing
 * in them is trusted, what is missing or senseless is shown as not known. One thread.
 */
#ifndef MUSTER_TOP_TOP_FLEET_H
#define MUSTER_TOP_TOP_FLEET_H

#include "base/err.h"
#include "top/top.h"

struct muster_top_fleet;

/* NULL: no memory. */
struct muster_top_fleet *muster_top_fleet_new(void);
void muster_top_fleet_free(struct muster_top_fleet *fleet);

/* Takes what there is now: `state` NULL: no worker holds the job, which has ended then. `line`: a
 * finding each. -1: `state` is no such object; what was known before stays. */
int muster_top_fleet_take(struct muster_top_fleet *fleet, const char *name, const char *state,
                          const char *const *line, size_t lines, struct muster_err *err);

/* The job as it was taken last, in memory of the fleet's: until the next take. */
void muster_top_fleet_fill(struct muster_top_fleet *fleet, struct muster_top *top);

#endif
