#include "segment/log_queue.h"

#include <stddef.h>

bool muster_log_queue_put(struct muster_log_queue *queue, const struct muster_op *op,
                          uint64_t ordinal, uint32_t *filled)
{
    uint32_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
    /* Acquire: with the release in drop, so that the item has been read before it is replaced. */
    uint32_t inside = head - atomic_load_explicit(&queue->tail, memory_order_acquire);
    if (inside == MUSTER_LOG_QUEUE)
        return false;
    queue->item[head % MUSTER_LOG_QUEUE] = (struct muster_log_item){*op, ordinal};
    /* Release: with the acquire in peek. */
    atomic_store_explicit(&queue->head, head + 1, memory_order_release);
    *filled = inside + 1;
    return true;
}

const struct muster_log_item *muster_log_queue_peek(struct muster_log_queue *queue)
{
    uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    if (atomic_load_explicit(&queue->head, memory_order_acquire) == tail)
        return NULL;
    return &queue->item[tail % MUSTER_LOG_QUEUE];
}

void muster_log_queue_drop(struct muster_log_queue *queue)
{
    uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
}
