/*
 * The latest operations of one process, as many as comparing it with others needs: those with GPU
 * times, and of what lies between them the first and the last of each stream, so that no hole in
 * the numbers reaches into what was timed (view/self_time.c); and, if asked for, the very latest
 * without a gap, for what is seen by calls alone. One thread.
 */
#ifndef MUSTER_RUN_OP_WINDOW_H
#define MUSTER_RUN_OP_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/op.h"

enum {
    MUSTER_WINDOW_STREAMS = 64,
    MUSTER_WINDOW_GAP = 16, /* operations: a gap of so few is kept whole, so that the step's calls
                               are known around what was timed */
};

/* Collectives of a communicator, its replayed ones, or its sends to or receives from one peer. */
struct muster_window_stream {
    uint32_t comm;
    int32_t peer;
    uint8_t func; /* of sends and receives; else 0 */
    bool graph;
    bool begun;   /* its first operation since the last timed one is kept */
    bool waiting; /* `last` is not kept yet */
    struct muster_op last;
};

struct muster_window {
    struct muster_op *op;
    size_t n, room;
    size_t latest;  /* at least so many of the newest are kept without a gap; set by the caller */
    size_t thinned; /* with `latest`: the first so many of `op` are those with gaps */
    uint64_t timed; /* ever taken with GPU times */
    struct muster_window_stream stream[MUSTER_WINDOW_STREAMS];
    unsigned streams;
    unsigned gap; /* so many without GPU times came since the last timed one; at most 1 beyond */
    struct muster_op between[MUSTER_WINDOW_GAP]; /* these, as long as they are no more */
    uint64_t until_ns; /* what was called later waits for what may have been called before it and
                          is not over yet; set by the caller; 0: nothing waits */
    struct muster_op *held; /* these */
    size_t helds, held_room;
};

/* Takes what was retired, in the order of its calls. With more than `most` the older half goes, and
 * *halved is set. False: no memory; what was taken stays. */
bool muster_window_take(struct muster_window *window, const struct muster_op *op, size_t n,
                        size_t most, bool *halved);
/* The same of what stands in it, whose times may have been taken since. */
bool muster_window_again(struct muster_window *window, size_t most, bool *halved);
void muster_window_free(struct muster_window *window);

#endif
