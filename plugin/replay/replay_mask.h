/*
 * Which events NCCL makes of a plugin's mask: setting a child's bit produces its ancestors too
 * (NCCL 2.23 src/misc/profiler.cc, 2.27 and 2.30 src/plugin/profiler.cc).
 */
#ifndef MUSTER_REPLAY_REPLAY_MASK_H
#define MUSTER_REPLAY_REPLAY_MASK_H

#include <stdbool.h>

#include "base/event.h"

/* Whether an operation whose mask is `mask` produces events of `kind`. */
bool muster_mask_wants(unsigned api, unsigned mask, unsigned kind);

#endif
