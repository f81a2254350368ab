/* A generated job as the plugin's live diagnosis meets it: one host's processes, looked at once a
 * second. */
#ifndef MUSTER_BENCH_VERDICTS_LIVE_HOST_H
#define MUSTER_BENCH_VERDICTS_LIVE_HOST_H

#include "live_emitted.h"
#include "recording.h"

/* Each host by itself: those of the culprits, and others, until there are four. */
void live_play(const struct job *job, struct recorded *recorded, struct live_run *run);

#endif
