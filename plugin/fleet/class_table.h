/* What operations of one process are alike in, under numbers that only grow, as they are sent
 * (heard_classes.h has them as they are heard). The newest 256 are known. One thread. */
#ifndef MUSTER_FLEET_CLASS_TABLE_H
#define MUSTER_FLEET_CLASS_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/wire.h"

struct muster_class_table {
    struct muster_class_entry {
        bool used;
        struct muster_wire_class class;
        uint64_t published_ns; /* 0: not yet */
    } entry[MUSTER_WIRE_CLASSES];
    uint32_t next, last; /* last: found last */
};

/* The class that the operation is of, made where there is none. */
struct muster_class_entry *muster_class_of(struct muster_class_table *table,
                                           const struct muster_op *op);

#endif
