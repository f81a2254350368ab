/* How much time the recorded operations stand for. */
#ifndef MUSTER_VIEW_COVERAGE_H
#define MUSTER_VIEW_COVERAGE_H

#include "view/view.h"

/* Time that the operations of a GPU cover with what lies between them, as far as that is known. */
struct muster_view_span {
    uint64_t covered_ns;
    uint64_t length_ns; /* from the first begin to the last end */
    uint64_t run_ns;    /* the same, or from its first call to its last if that is longer: not all
                           was timed */
};

/* Of each GPU of the view; the arena's. */
struct muster_view_span *muster_view_spans(const struct muster_view *view,
                                           struct muster_arena *memory);

#endif
