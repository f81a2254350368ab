/* What operations of one process are alike in, as they are heard of (class_table.h has them as they
 * are sent): the newest 256, in memory that follows how many there are. One thread. */
#ifndef MUSTER_FLEET_HEARD_CLASSES_H
#define MUSTER_FLEET_HEARD_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/wire.h"

/* To begin with: {0}. */
struct muster_heard_classes {
    struct muster_wire_class *at; /* class n in place n % places; UINT32_MAX: nobody's */
    uint32_t places;              /* a power of two, MUSTER_WIRE_CLASSES at most */
};

/* False: no memory; what was known stays. */
bool muster_heard_classes_put(struct muster_heard_classes *heard,
                              const struct muster_wire_class *class);
/* NULL: not known, or not any more. Until the next one is put. */
const struct muster_op *muster_heard_classes_find(const struct muster_heard_classes *heard,
                                                  uint32_t id);
void muster_heard_classes_free(struct muster_heard_classes *heard);

#endif
