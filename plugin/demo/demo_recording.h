/* The recording inside the command: tests/traces/recordings/late-gpu, 4 ranks on 4 GPUs, rank 2
 * late by 2 ms of GPU work before each step from the sixth on. */
#ifndef MUSTER_DEMO_DEMO_RECORDING_H
#define MUSTER_DEMO_DEMO_RECORDING_H

#include "base/err.h"

enum {
    MUSTER_DEMO_RANKS = 4,
    MUSTER_DEMO_LATE_RANK = 2,
    MUSTER_DEMO_LATE_MS = 2,
};

/* Writes rank-<n>.jsonl.xz into the folder. */
int muster_demo_recording_write(const char *folder, struct muster_err *err);

#endif
