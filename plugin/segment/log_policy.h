/* The policy in a log: who steers by what, and how often each rule decided. */
#ifndef MUSTER_SEGMENT_LOG_POLICY_H
#define MUSTER_SEGMENT_LOG_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/log_encode.h"
#include "segment/log_read.h"

/* What of a segment's policy stands in the log. Zeroed: nothing. The log writer's thread only. */
struct muster_log_policy_told {
    uint64_t head; /* hash; 0: nothing */
    struct {
        bool named;
        uint64_t hits, not_offered;
    } rule[MUSTER_SEG_RULES];
};

/* Puts what changed since it was told into the frame. False: something did not fit; what did is
 * told, so that the next call, with another frame, goes on from there. */
bool muster_log_policy_write(struct muster_log_policy_told *told,
                             struct muster_log_encoder *encoder,
                             const struct muster_segment *segment);

/* Decode the two records behind their kind. source->bad: no such record, or no memory. */
void muster_log_policy_get(struct muster_log *log, struct muster_log_source *in);
void muster_log_policy_get_rule(struct muster_log *log, struct muster_log_source *in);

#endif
