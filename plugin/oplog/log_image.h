/*
 * The image of a living process (segment/layout.h) in its log: what changed since the log was
 * written, word by word, and from time to time all of it. Entries are written as they stood still;
 * of the slots only the operations in flight, their state without its generation. The log writer's
 * thread only.
 */
#ifndef MUSTER_OPLOG_LOG_IMAGE_H
#define MUSTER_OPLOG_LOG_IMAGE_H

#include "oplog/log_encode.h"

struct muster_log_image {
    struct muster_segment *segment;
    struct muster_segment *known; /* what the log has */
    size_t piece; /* in bytes of the segment: what this round writes next; 0: no round */
    size_t zeros; /* word from which on all is zero; written when the next one is not */
    bool whole;   /* this round writes everything */
    uint32_t state[MUSTER_SEG_SLOTS]; /* of this round: enum muster_slot_state, in flight or free */
};

/* False: no memory. */
bool muster_log_image_open(struct muster_log_image *image, struct muster_segment *segment);
void muster_log_image_close(struct muster_log_image *image);

/* Puts a round into the frame: what changed, or all of it. False: something did not fit, and the
 * next call, with another frame, goes on from there. */
bool muster_log_image_write(struct muster_log_image *image, struct muster_log_encoder *encoder,
                            bool whole);

/* How the communicator is defined; false: neither the segment nor the log knows it, or it is
 * `other`. */
bool muster_log_image_comm(const struct muster_log_image *image, uint32_t uid,
                           struct muster_log_comm *comm);

#endif
