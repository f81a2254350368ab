#include "diagnose/live/op_window.h"

#include <stdlib.h>
#include <string.h>

#include "base/nccl_types.h"
#include "base/array.h"

static bool keep(struct muster_window *window, const struct muster_op *op)
{
    if (!muster_grow(&window->op, window->n, sizeof *window->op))
        return false;
    window->op[window->n++] = *op;
    return true;
}

/* The gap is over: the last of each stream in it stands before what follows. */
static bool end_gap(struct muster_window *window)
{
    bool whole = true;
    for (unsigned i = 0; i < window->streams; i++) {
        struct muster_window_stream *stream = &window->stream[i];
        if (stream->waiting)
            whole = keep(window, &stream->last) && whole;
        stream->begun = stream->waiting = false;
    }
    window->gap = false;
    return whole;
}

static struct muster_window_stream *stream_of(struct muster_window *window,
                                              const struct muster_op *op)
{
    bool p2p = muster_func_is_p2p(op->func), graph = op->flags & MUSTER_OP_GRAPH;
    struct muster_window_stream own = {
        .comm = op->comm, .peer = p2p ? op->peer : -1, .func = p2p ? op->func : 0, .graph = graph};
    for (unsigned i = 0; i < window->streams; i++) {
        struct muster_window_stream *known = &window->stream[i];
        if (known->comm == own.comm && known->peer == own.peer && known->func == own.func &&
            known->graph == own.graph)
            return known;
    }
    /* Too many, most of them of communicators long gone: what they hold back is a hole then. */
    if (window->streams == MUSTER_WINDOW_STREAMS)
        window->streams = 0;
    window->stream[window->streams] = own;
    return &window->stream[window->streams++];
}

static bool take(struct muster_window *window, const struct muster_op *op)
{
    if (muster_source_is_gpu(op->source)) {
        window->timed++;
        return (!window->gap || end_gap(window)) && keep(window, op);
    }
    struct muster_window_stream *stream = stream_of(window, op);
    window->gap = true;
    stream->waiting = stream->begun;
    stream->last = *op;
    if (stream->begun)
        return true;
    stream->begun = true;
    return keep(window, op);
}

static void halve(struct muster_window *window)
{
    size_t gone = window->n - window->n / 2;
    window->n -= gone;
    memmove(window->op, window->op + gone, window->n * sizeof *window->op);
}

bool muster_window_take(struct muster_window *window, const struct muster_op *op, size_t n,
                        size_t most, bool *halved)
{
    for (size_t i = 0; i < n; i++) {
        if (op[i].comm != 0 && !take(window, &op[i]))
            return false;
        if (window->n > most) {
            halve(window);
            *halved = true;
        }
    }
    return true;
}

void muster_window_free(struct muster_window *window)
{
    free(window->op);
    memset(window, 0, sizeof *window);
}
