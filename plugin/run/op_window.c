#include "run/op_window.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/nccl_types.h"

enum { APART = 64 }; /* places by which calls and ends may differ */

/* The newest of n finds its place by its call. What ends first differs from rank to rank: in that
 * order so would what stands in a gap. */
static void put_in_order(struct muster_op *op, size_t n)
{
    if (n < 2 || op[n - 2].enqueue_ns <= op[n - 1].enqueue_ns)
        return;
    struct muster_op newest = op[n - 1];
    size_t at = n - 1, first = at > APART ? at - APART : 0;
    while (at > first && op[at - 1].enqueue_ns > newest.enqueue_ns)
        at--;
    memmove(&op[at + 1], &op[at], (n - 1 - at) * sizeof *op);
    op[at] = newest;
}

static bool keep(struct muster_window *window, const struct muster_op *op)
{
    if (!muster_reserve(&window->op, &window->room, window->n + 1, sizeof *window->op))
        return false;
    window->op[window->n++] = *op;
    return true;
}

/* ---- with gaps ---- */

/* The gap is over: the last of each stream in it stands before what follows; all of it where it is
 * short. */
static bool end_gap(struct muster_window *window)
{
    bool whole = true;
    for (unsigned i = 0; i < window->gap && window->gap <= MUSTER_WINDOW_GAP; i++)
        whole = keep(window, &window->between[i]) && whole;
    for (unsigned i = 0; i < window->streams; i++) {
        struct muster_window_stream *stream = &window->stream[i];
        if (stream->waiting)
            whole = keep(window, &stream->last) && whole;
        stream->begun = stream->waiting = false;
    }
    window->gap = 0;
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

/* One of a long gap. */
static bool take_untimed(struct muster_window *window, const struct muster_op *op)
{
    struct muster_window_stream *stream = stream_of(window, op);
    stream->waiting = stream->begun;
    stream->last = *op;
    if (stream->begun)
        return true;
    stream->begun = true;
    return keep(window, op);
}

/* It is no short gap any more. */
static bool begin_long_gap(struct muster_window *window)
{
    bool whole = true;
    for (unsigned i = 0; i < MUSTER_WINDOW_GAP; i++)
        whole = take_untimed(window, &window->between[i]) && whole;
    window->gap = MUSTER_WINDOW_GAP + 1;
    return whole;
}

static bool take(struct muster_window *window, const struct muster_op *op)
{
    if (muster_source_is_gpu(op->source)) {
        window->timed++;
        return (window->gap == 0 || end_gap(window)) && keep(window, op);
    }
    if (window->gap < MUSTER_WINDOW_GAP) {
        window->between[window->gap++] = *op;
        return true;
    }
    bool whole = window->gap > MUSTER_WINDOW_GAP || begin_long_gap(window);
    return take_untimed(window, op) && whole;
}

/* ---- without ---- */

/* The older half of what has no gaps gets them, where it lies: not more is kept than was there, as
 * nothing waits before or after. */
static bool thin(struct muster_window *window)
{
    size_t from = window->thinned, end = from + (window->n - from) / 2, n = window->n;
    bool whole = true;
    for (size_t i = from + 2; i <= n; i++)
        put_in_order(&window->op[from], i - from);
    window->n = from;
    for (size_t i = from; i < end; i++) {
        struct muster_op op = window->op[i];
        whole = take(window, &op) && whole;
    }
    whole = end_gap(window) && whole;
    window->thinned = window->n;
    memmove(window->op + window->n, window->op + end, (n - end) * sizeof *window->op);
    window->n += n - end;
    return whole;
}

static bool take_latest(struct muster_window *window, const struct muster_op *op)
{
    if (!keep(window, op))
        return false;
    return window->n - window->thinned <= 2 * window->latest || thin(window);
}

/* Else twice what a window may hold would stay for the one that was too many. */
static void give_room_back(struct muster_window *window)
{
    size_t room = window->room / 2;
    struct muster_op *op =
        room > window->n ? reallocarray(window->op, room, sizeof *window->op) : NULL;
    if (!op)
        return;
    window->op = op;
    window->room = room;
}

static void halve(struct muster_window *window)
{
    size_t gone = window->n - window->n / 2;
    window->n -= gone;
    window->thinned -= gone < window->thinned ? gone : window->thinned;
    memmove(window->op, window->op + gone, window->n * sizeof *window->op);
    give_room_back(window);
}

/* ---- all ---- */

static bool take_one(struct muster_window *window, const struct muster_op *op, size_t most,
                     bool *halved)
{
    if (op->comm != 0 && !(window->latest ? take_latest : take)(window, op))
        return false;
    if (window->n > most) {
        halve(window);
        *halved = true;
    }
    return true;
}

static bool hold(struct muster_window *window, const struct muster_op *op)
{
    if (!muster_reserve(&window->held, &window->held_room, window->helds + 1, sizeof *window->held))
        return false;
    window->held[window->helds++] = *op;
    put_in_order(window->held, window->helds);
    return true;
}

static bool let_out(struct muster_window *window, uint64_t until_ns, size_t most, bool *halved)
{
    size_t n = 0;
    bool whole = true;
    while (n < window->helds && window->held[n].enqueue_ns <= until_ns)
        whole = take_one(window, &window->held[n++], most, halved) && whole;
    window->helds -= n;
    if (window->helds > 0)
        memmove(window->held, window->held + n, window->helds * sizeof *window->held);
    return whole;
}

/* Whether they were called one after another, after all that waits. */
static bool follow(const struct muster_window *window, const struct muster_op *op, size_t n)
{
    uint64_t before_ns = window->helds ? window->held[window->helds - 1].enqueue_ns : 0;
    size_t i = 0;
    for (; i < n && before_ns <= op[i].enqueue_ns; i++)
        before_ns = op[i].enqueue_ns;
    return i == n;
}

bool muster_window_take(struct muster_window *window, const struct muster_op *op, size_t n,
                        size_t most, bool *halved)
{
    uint64_t until_ns = window->until_ns && !window->latest ? window->until_ns : UINT64_MAX;
    bool whole = true;
    size_t i = 0;
    if (window->latest || follow(window, op, n)) {
        whole = let_out(window, until_ns, most, halved);
        for (; i < n && whole && window->helds == 0 && op[i].enqueue_ns <= until_ns; i++)
            whole = take_one(window, &op[i], most, halved);
    }
    for (; i < n && whole; i++)
        whole = hold(window, &op[i]);
    return let_out(window, until_ns, most, halved) && whole;
}

bool muster_window_again(struct muster_window *window, size_t most, bool *halved)
{
    struct muster_window before = *window;
    bool whole = true;
    *window = (struct muster_window){.latest = before.latest,
                                     .timed = before.timed,
                                     .until_ns = before.until_ns,
                                     .held = before.held,
                                     .helds = before.helds,
                                     .held_room = before.held_room};
    for (size_t i = 0; i < before.n; i++)
        whole = take_one(window, &before.op[i], most, halved) && whole;
    for (unsigned i = 0; i < before.gap && before.gap <= MUSTER_WINDOW_GAP; i++)
        whole = take_one(window, &before.between[i], most, halved) && whole;
    for (unsigned i = 0; i < before.streams; i++)
        if (before.stream[i].waiting)
            whole = take_one(window, &before.stream[i].last, most, halved) && whole;
    free(before.op);
    return whole;
}

void muster_window_free(struct muster_window *window)
{
    free(window->op);
    free(window->held);
    memset(window, 0, sizeof *window);
}
