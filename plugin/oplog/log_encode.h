/* Building one frame of a log in memory. One thread. */
#ifndef MUSTER_OPLOG_LOG_ENCODE_H
#define MUSTER_OPLOG_LOG_ENCODE_H

#include "oplog/log_format.h"

enum { MUSTER_LOG_CLASS_INDEX = 2048 }; /* open addressing over MUSTER_LOG_CLASSES */

struct muster_log_encoder {
    _Alignas(8) uint8_t buffer[MUSTER_LOG_FRAME_BYTES + 8]; /* room for the end mark */
    struct muster_log_sink sink;
    uint32_t ops;
    uint64_t first_op;
    uint64_t base_ns;
    uint64_t last_enqueue_ns;
    uint64_t last_begin_ns[MUSTER_SOURCES];
    struct muster_log_class class[MUSTER_LOG_CLASSES];
    unsigned classes;
    uint16_t index[MUSTER_LOG_CLASS_INDEX]; /* class + 1; 0: free */
    uint32_t comm[MUSTER_SEG_COMMS];        /* uids written in this frame */
    unsigned comms;
    size_t word; /* behind the last one of the image that was put */
};

/* Begins a frame of at most `room` bytes, header included. `room` above MUSTER_LOG_FRAME_BYTES
 * counts as that; a room without space for a header and something gives a frame that takes
 * nothing. */
void muster_log_encode_begin(struct muster_log_encoder *encoder, size_t room);
bool muster_log_encode_empty(const struct muster_log_encoder *encoder);

/* Each puts one thing and returns whether it fitted; if not, the frame is as before. `def` is
 * written once a frame, before; NULL: the communicator is not known any more. */
bool muster_log_encode_op(struct muster_log_encoder *encoder, const struct muster_log_comm *def,
                          const struct muster_op *op, uint64_t ordinal);
/* Of the image: words at..at+n-1, counted in words of 8 bytes from the segment's begin. */
bool muster_log_encode_patch(struct muster_log_encoder *encoder, size_t at, const uint64_t *word,
                             size_t n);
bool muster_log_encode_zeros(struct muster_log_encoder *encoder, size_t at, size_t n);
/* Whether the frame still needs the definition of communicator `uid`. */
bool muster_log_encode_wants_comm(const struct muster_log_encoder *encoder, uint32_t uid);

/* Closes the frame: encoder->buffer then holds its bytes, a multiple of 8, header first, with 8
 * zero bytes behind that end the slot. */
size_t muster_log_encode_end(struct muster_log_encoder *encoder, uint32_t sequence, uint32_t slot);

#endif
