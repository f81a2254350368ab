/*
 * A generated job as a fleet meets it: an agent a host reads its processes' segments and writes a
 * message each half second, and one worker joins and evaluates what all of them send. What is left
 * out is NATS alone.
 */
#ifndef MUSTER_BENCH_VERDICTS_LIVE_FLEET_H
#define MUSTER_BENCH_VERDICTS_LIVE_FLEET_H

#include "live_emitted.h"
#include "recording.h"

void live_fleet_play(const struct job *job, struct recorded *recorded, struct live_run *run);

#endif
