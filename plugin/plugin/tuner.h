/* The process's tuner and its recorder. NCCL's calls come by way of nccl/tuner_hooks.h. */
#ifndef MUSTER_PLUGIN_TUNER_H
#define MUSTER_PLUGIN_TUNER_H

#include "oplog/log_writer.h"
#include "segment/layout.h"

/* The recorder has a segment now: state and counters go there, and the policy's text into the run
 * directory by way of `log`, which may be NULL. */
void muster_steering_attach(struct muster_segment *segment, struct muster_log_writer *log);
/* In a forked child, which has no segment. */
void muster_steering_detach(void);

#endif
