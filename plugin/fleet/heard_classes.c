#include "fleet/heard_classes.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES_FIRST = 4 };

/* Classes that share no place of few share none of twice as many. */
static bool spread(struct muster_heard_classes *heard)
{
    uint32_t places = heard->places ? 2 * heard->places : PLACES_FIRST;
    struct muster_wire_class *at = malloc(places * sizeof *at);
    if (!at)
        return false;
    memset(at, 0xff, places * sizeof *at); /* ids of UINT32_MAX */
    for (uint32_t i = 0; i < heard->places; i++)
        if (heard->at[i].id != UINT32_MAX)
            at[heard->at[i].id % places] = heard->at[i];
    free(heard->at);
    heard->at = at;
    heard->places = places;
    return true;
}

static bool fits(const struct muster_heard_classes *heard, uint32_t id)
{
    if (heard->places == MUSTER_WIRE_CLASSES)
        return true;
    if (heard->places == 0)
        return false;
    uint32_t there = heard->at[id % heard->places].id;
    return there == id || there == UINT32_MAX;
}

bool muster_heard_classes_put(struct muster_heard_classes *heard,
                              const struct muster_wire_class *class)
{
    while (!fits(heard, class->id))
        if (!spread(heard))
            return false;
    heard->at[class->id % heard->places] = *class;
    return true;
}

const struct muster_op *muster_heard_classes_find(const struct muster_heard_classes *heard,
                                                  uint32_t id)
{
    const struct muster_wire_class *class = heard->places ? &heard->at[id % heard->places] : NULL;
    return class && class->id == id ? &class->like : NULL;
}

void muster_heard_classes_free(struct muster_heard_classes *heard)
{
    free(heard->at);
    *heard = (struct muster_heard_classes){0};
}
