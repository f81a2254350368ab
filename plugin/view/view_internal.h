/* What a view is while it is being fed. Between the files of this folder. */
#ifndef MUSTER_VIEW_VIEW_INTERNAL_H
#define MUSTER_VIEW_VIEW_INTERNAL_H

#include "view/view.h"

/* A member as it was fed. */
struct muster_view_feed {
    uint64_t id;
    int32_t rank;
    uint32_t nranks, nnodes;
    uint32_t gpu;
    uint32_t handle;
    uint32_t ops, funcs; /* as of a member */
    uint32_t uid;
    const struct muster_seg_comm *entry;
    char name[MUSTER_SEG_NAME];
};

/* A class that was met: by what it follows from. */
struct muster_view_class_met {
    uint64_t what;  /* function, type and so on; 0: free */
    uint64_t whose; /* peer or root, and ranks */
    uint64_t count;
    uint32_t class;
};
enum {
    MUSTER_VIEW_CLASSES_MET_LOG2 = 8,
    MUSTER_VIEW_CLASSES_MET = 1 << MUSTER_VIEW_CLASSES_MET_LOG2
};

/* Operations that were fed of one GPU, before the next one's. */
struct muster_view_piece {
    size_t first;
    uint32_t gpu;
};

struct muster_view_index {
    struct muster_view_feed *feed;
    size_t feeds;
    struct muster_view_piece *piece;
    size_t pieces;
    uint32_t gpu;   /* of the last piece */
    bool mixed;     /* there are more pieces than GPUs: the others are not noted */
    uint32_t *slot; /* classes by hash, open addressing: index + 1 */
    size_t slots;
    struct muster_view_class_met met[MUSTER_VIEW_CLASSES_MET];
};

void muster_view_index_free(struct muster_view *view);

/* In this order. Communicators and members from what was fed; `to` (may be NULL)
 * gets the index of each handle. -1: no memory. */
int muster_view_group_members(struct muster_view *view, uint32_t *to);
/* The operations from `first` on, which belong to these members alone, who count them: side by side
 * by member, in order. -1: no memory. */
int muster_view_group_ops(struct muster_view *view, size_t first, const uint32_t *members,
                          size_t n);

/* Both, of what was fed with handles. -1: no memory. */
int muster_view_group_fed(struct muster_view *view);

/* Operations of these members. */
static inline size_t muster_view_ops_of(const struct muster_view *view, const uint32_t *members,
                                        size_t n)
{
    size_t ops = 0;
    for (size_t m = 0; m < n; m++)
        ops += view->member[members[m]].ops;
    return ops;
}

/* Self and queue times. On failure *view is freed. */
int muster_view_find_times(struct muster_view *view, struct muster_err *err);

/* An operation of a member that has its index. */
void muster_view_put_op(struct muster_view *view, uint32_t member, const struct muster_op *op);

/* self_time.c: the order of operations on each GPU and their self times. -1: no memory. */
int muster_view_self_times(struct muster_view *view);

/* queue_time.c: how long calls stood in the queue; after the order is known. -1: no memory. */
int muster_view_queue_times(struct muster_view *view);

#endif
