#include "run/op_window.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/nccl_types.h"

static bool keep(struct muster_window *window, const struct muster_op *op)
{
    if (window->n >= window->room && !muster_grow(&window->op, window->n, sizeof *window->op))
        return false;
    window->op[window->n++] = *op;
    return true;
}

/* ---- with gaps ---- */

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

/* ---- without ---- */

/* The older half of what has no gaps gets them, where it lies: not more is kept than was there, as
 * nothing waits before or after. */
static bool thin(struct muster_window *window)
{
    size_t from = window->thinned, end = from + (window->n - from) / 2, n = window->n;
    bool whole = true;
    window->room = n;
    window->n = from;
    for (size_t i = from; i < end; i++) {
        struct muster_op op = window->op[i];
        whole = take(window, &op) && whole;
    }
    whole = end_gap(window) && whole;
    window->thinned = window->n;
    memmove(window->op + window->n, window->op + end, (n - end) * sizeof *window->op);
    window->n += n - end;
    window->room = 0;
    return whole;
}

static bool take_latest(struct muster_window *window, const struct muster_op *op)
{
    if (!keep(window, op))
        return false;
    return window->n - window->thinned <= 2 * window->latest || thin(window);
}

static void halve(struct muster_window *window)
{
    size_t gone = window->n - window->n / 2;
    window->n -= gone;
    window->thinned -= gone < window->thinned ? gone : window->thinned;
    memmove(window->op, window->op + gone, window->n * sizeof *window->op);
}

bool muster_window_take(struct muster_window *window, const struct muster_op *op, size_t n,
                        size_t most, bool *halved)
{
    for (size_t i = 0; i < n; i++) {
        if (op[i].comm != 0 && !(window->latest ? take_latest : take)(window, &op[i]))
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
