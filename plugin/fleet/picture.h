/* A job over all hosts as its screen shows it (`muster top --fleet`): the ranks that cost most and
 * the communicators that are farthest apart, as members of a JSON object. Nothing is evaluated. */
#ifndef MUSTER_FLEET_PICTURE_H
#define MUSTER_FLEET_PICTURE_H

#include "base/json.h"
#include "fleet/rank_costs.h"

enum { MUSTER_PICTURE_RANKS = 64, MUSTER_PICTURE_COMMS = 64 };

/* Adds "at_ns", "up_s", "progress_s", "nccl", "compared", "calls", "ranks_shown" and
 * "communicators" to the object that is open. Without memory for all there is less. */
void muster_picture_write(const struct muster_join *join, const struct muster_rank_costs *costs,
                          uint64_t now_ns, struct muster_json *json);

#endif
