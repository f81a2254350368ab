/* Operations on their way from the drain thread to the log's: one producer, one consumer. */
#ifndef MUSTER_SEGMENT_LOG_QUEUE_H
#define MUSTER_SEGMENT_LOG_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "segment/op.h"

enum { MUSTER_LOG_QUEUE = 8192 }; /* a power of two */

struct muster_log_item {
    struct muster_op op;
    uint64_t ordinal; /* of the operation in the process */
};

struct muster_log_queue {
    _Alignas(64) _Atomic uint32_t head; /* put so far; the producer's */
    _Alignas(64) _Atomic uint32_t tail; /* taken so far; the consumer's */
    struct muster_log_item item[MUSTER_LOG_QUEUE];
};

/* The producer's: false if it is full. *filled: items inside afterwards. */
bool muster_log_queue_put(struct muster_log_queue *queue, const struct muster_op *op,
                          uint64_t ordinal, uint32_t *filled);

/* The consumer's: the oldest item, which stays until it is dropped; NULL: empty. */
const struct muster_log_item *muster_log_queue_peek(struct muster_log_queue *queue);
void muster_log_queue_drop(struct muster_log_queue *queue);

#endif
