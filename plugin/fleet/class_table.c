#include "fleet/class_table.h"

static bool alike(const struct muster_op *a, const struct muster_op *b)
{
    return a->comm == b->comm && a->func == b->func && a->dtype == b->dtype && a->algo == b->algo &&
           a->proto == b->proto && a->channels == b->channels && a->source == b->source &&
           a->flags == b->flags && a->peer == b->peer && a->count == b->count;
}

struct muster_class_entry *muster_class_of(struct muster_class_table *table,
                                           const struct muster_op *op)
{
    for (uint32_t i = 0; i < MUSTER_WIRE_CLASSES; i++) {
        uint32_t at = (table->last + i) % MUSTER_WIRE_CLASSES; /* steps repeat themselves */
        struct muster_class_entry *entry = &table->entry[at];
        if (entry->used && alike(&entry->class.like, op)) {
            table->last = at;
            return entry;
        }
    }
    uint32_t id = table->next++;
    struct muster_class_entry *entry = &table->entry[id % MUSTER_WIRE_CLASSES];
    *entry = (struct muster_class_entry){.used = true, .class = {.id = id, .like = *op}};
    struct muster_op *like = &entry->class.like;
    like->number = like->enqueue_ns = like->begin_ns = like->end_ns = 0;
    return entry;
}
