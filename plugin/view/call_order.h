/* The operations of one GPU in the order of its calls, and where calls are missing between them, as
 * their numbers show: what a window left out, or a ring lost. */
#ifndef MUSTER_VIEW_CALL_ORDER_H
#define MUSTER_VIEW_CALL_ORDER_H

#include "base/sort.h"
#include "view/view.h"

/* Operations of some members of the view, member by member: `value` is the operation, `key` its
 * call; to be sorted. `call`: room for all of them. Returns how many there are. */
size_t muster_calls_collect(const struct muster_view *view, const uint32_t *members, size_t n,
                            struct muster_keyed *call);

struct muster_call_holes {
    /* Fewer sends to one peer, or receives from it, are passed over: others of their groups may be
     * there. From 1; set by the caller. */
    uint8_t fewest_sends;
    int32_t open; /* rows of numbers in which calls are missing here; zeroed before the first */
};

/* In the order of the calls, each of them: whether calls are missing between it and the one before.
 * What a rank sends to itself hides nothing. */
bool muster_calls_missing(struct muster_call_holes *holes, const struct muster_keyed *call);

#endif
