/* What a view is while it is being fed. Between view*.c only. */
#ifndef MUSTER_DIAGNOSE_VIEW_BUILD_H
#define MUSTER_DIAGNOSE_VIEW_BUILD_H

#include "diagnose/view.h"

/* A member as it was fed. */
struct muster_view_feed {
    uint64_t id;
    int32_t rank;
    uint32_t nranks, nnodes;
    uint32_t gpu;
    uint32_t handle;
    char name[MUSTER_SEG_NAME];
};

struct muster_view_index {
    struct muster_view_feed *feed;
    size_t feeds;
    uint32_t *slot; /* classes by hash, open addressing: index + 1 */
    size_t slots;
};

void muster_view_index_free(struct muster_view *view);

/* view_self.c: the order of operations on each GPU and their self times. -1: no memory. */
int muster_view_self_times(struct muster_view *view);

/* view_queue.c: how long calls stood in the queue; after the order is known. -1: no memory. */
int muster_view_queue_times(struct muster_view *view);

#endif
