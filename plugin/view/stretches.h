/*
 * Which operations of a run are looked at that has more of them than memory is meant for: all of
 * some stretches of time, evenly over the run, and its end. Chosen by blocks of numbers, so that
 * all ranks keep the same ones whatever their clocks show. Between view*.c only.
 */
#ifndef MUSTER_VIEW_STRETCHES_H
#define MUSTER_VIEW_STRETCHES_H

#include "base/hashmap.h"
#include "view/view.h"

/* One block of numbers of a stream: a communicator's collectives, or what one rank sends to
 * another. */
struct muster_stretch_block {
    uint32_t comm; /* of the view */
    uint32_t graph;
    int32_t from, to; /* ranks; -1: a collective */
    uint64_t block;
};

enum { MUSTER_STRETCH_CACHE = 64 };

struct muster_stretches {
    uint64_t every; /* so many stretches, of which one is kept; 1: all are */
    struct muster_hashmap at;
    uint64_t *first_ns; /* of each block, since 1970; once chosen: 1: it is kept, 0: it is not */
    size_t blocks, room;
    struct { /* what was looked up last */
        struct muster_stretch_block key;
        size_t block;
        bool known;
    } cache[MUSTER_STRETCH_CACHE];
};

/* For a view whose members are known and whose run has more than `most` operations: reads all of
 * them once. Fewer: nothing is read, all are kept. On failure *stretches is empty. */
int muster_stretches_choose(struct muster_stretches *stretches, const struct muster_view *view,
                            uint64_t most, struct muster_err *err);
bool muster_stretches_keep(struct muster_stretches *stretches, const struct muster_view *view,
                           uint32_t member, const struct muster_op *op);
void muster_stretches_free(struct muster_stretches *stretches);

#endif
