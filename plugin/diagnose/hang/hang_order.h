/* Communicators that ranks started in opposite order. Between hang*.c only. */
#ifndef MUSTER_DIAGNOSE_HANG_HANG_ORDER_H
#define MUSTER_DIAGNOSE_HANG_HANG_ORDER_H

#include "diagnose/hang/hang_case.h"

/* Of two cases that come from each other: turns `missing` into hang_order if the ranks that are
 * missing in it called into the other communicator what the ranks that wait call after it. */
bool muster_hang_make_order(const struct muster_hang_cases *cases, struct muster_hang_case *missing,
                            const struct muster_hang_case *other);

/* Looks for opposite orders where calls alone show them: between a communicator that is stuck and
 * another that may be, and in what a missing rank called instead. False: no memory. */
bool muster_hang_find_orders(struct muster_hang_cases *cases, struct muster_hang_state *view);

#endif
