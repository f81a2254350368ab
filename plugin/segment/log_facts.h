/* The facts in a log: each part of a segment's facts whenever it changed, as its bytes without the
 * runs of zeros. */
#ifndef MUSTER_SEGMENT_LOG_FACTS_H
#define MUSTER_SEGMENT_LOG_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/log_encode.h"
#include "segment/log_read.h"

/* The head, each GPU, each GPU's use. */
enum { MUSTER_FACT_PARTS = 1 + 2 * MUSTER_FACT_GPUS };

/* What of the facts stands in the log. Zeroed: nothing. The log writer's thread only. */
struct muster_log_facts_told {
    uint64_t part[MUSTER_FACT_PARTS]; /* hash; 0: nothing */
};

/* Puts what changed since it was told into the frame. False: something did not fit; what did is
 * told, so that the next call, with another frame, goes on from there. */
bool muster_log_facts_write(struct muster_log_facts_told *told, struct muster_log_encoder *encoder,
                            const struct muster_facts *facts);

/* Decodes the record behind its kind. source->bad: no such record, or no memory. */
void muster_log_facts_get(struct muster_log *log, struct muster_log_source *in);

#endif
