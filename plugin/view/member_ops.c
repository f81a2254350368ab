/* Operations by member, each member's in their order. */
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "view/view_internal.h"

static int compare_ops(const struct muster_view_op *a, const struct muster_view_op *b)
{
    unsigned graph_a = a->flags & MUSTER_OP_GRAPH;
    unsigned graph_b = b->flags & MUSTER_OP_GRAPH;
    if (graph_a != graph_b)
        return graph_a ? 1 : -1;
    bool p2p_a = muster_func_is_p2p(a->func);
    bool p2p_b = muster_func_is_p2p(b->func);
    if (p2p_a != p2p_b)
        return p2p_a ? 1 : -1;
    if (p2p_a && a->func != b->func)
        return a->func < b->func ? -1 : 1;
    if (p2p_a && a->peer != b->peer)
        return a->peer < b->peer ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int by_place(const void *left, const void *right)
{
    return compare_ops(left, right);
}

/* Streams in their order, of operations to peers from `first` on, `peers` of them. */
static size_t stream_of(const struct muster_view_op *op, int64_t first, size_t peers)
{
    bool p2p = muster_func_is_p2p(op->func);
    size_t kind = !p2p ? 0 : 1 + (op->func > MUSTER_FUNC_SEND) * peers + (size_t)(op->peer - first);
    return (op->flags & MUSTER_OP_GRAPH ? 1 + 2 * peers : 0) + kind;
}

/* Stream by stream, each in the order that it came in. Without memory, or with more peers than
 * operations, nothing changes. */
static void part_streams(struct muster_view_op *op, size_t n)
{
    int64_t first = op[0].peer, last = first;
    for (size_t i = 1; i < n; i++) {
        first = op[i].peer < first ? op[i].peer : first;
        last = op[i].peer > last ? op[i].peer : last;
    }
    size_t peers = (size_t)(last - first) + 1, streams = 2 * (1 + 2 * peers);
    size_t *at = peers <= n ? calloc(streams + 1, sizeof *at) : NULL;
    struct muster_view_op *to = at ? malloc(n * sizeof *to) : NULL;
    if (to) {
        for (size_t i = 0; i < n; i++)
            at[stream_of(&op[i], first, peers) + 1]++;
        for (size_t s = 1; s < streams; s++)
            at[s] += at[s - 1];
        for (size_t i = 0; i < n; i++)
            to[at[stream_of(&op[i], first, peers)]++] = op[i];
        memcpy(op, to, n * sizeof *to);
    }
    free(to);
    free(at);
}

/* Those of one stream, as nearly all neighbours are, by number alone. */
static bool is_in_order(const struct muster_view_op *a, const struct muster_view_op *b)
{
    bool collectives = !muster_func_is_p2p(a->func) && !muster_func_is_p2p(b->func) &&
                       !((a->flags ^ b->flags) & MUSTER_OP_GRAPH);
    return collectives ? a->number <= b->number : compare_ops(a, b) <= 0;
}

static bool are_streams_mixed(const struct muster_view_op *op, size_t n)
{
    bool mixed = false;
    for (size_t i = 1; i < n && !mixed; i++)
        mixed = !is_in_order(&op[i - 1], &op[i]) && !muster_view_same_stream(&op[i - 1], &op[i]);
    return mixed;
}

/* Operations of one stream come nearly in order. */
static void sort_ops(struct muster_view_op *op, size_t n)
{
    size_t moves = 4 * n + 64, sorted = 1;
    while (sorted < n && is_in_order(&op[sorted - 1], &op[sorted]))
        sorted++;
    if (sorted < n && are_streams_mixed(op, n)) {
        part_streams(op, n);
        sorted = 1;
    }
    for (size_t i = sorted; i < n; i++) {
        if (is_in_order(&op[i - 1], &op[i]))
            continue;
        struct muster_view_op moved = op[i];
        size_t j = i;
        while (j && moves && compare_ops(&op[j - 1], &moved) > 0) {
            op[j] = op[j - 1];
            j--;
            moves--;
        }
        op[j] = moved;
        if (!moves) {
            qsort(op, n, sizeof *op, by_place);
            return;
        }
    }
}

/* Operations [first, end) of the view, which are those of these members and nobody else's. */
struct piece {
    size_t first, end;
    const uint32_t *members;
    size_t n;
};

static uint32_t busiest(const struct muster_view *view, const struct piece *piece)
{
    uint32_t most = piece->members[0];
    for (size_t m = 1; m < piece->n; m++)
        if (view->member[piece->members[m]].ops > view->member[most].ops)
            most = piece->members[m];
    return most;
}

/* Gives each member its room, the one with most operations the first. */
static void place_members(struct muster_view *view, const struct piece *piece, uint32_t most)
{
    uint32_t at = (uint32_t)piece->first + view->member[most].ops;
    for (size_t m = 0; m < piece->n; m++) {
        struct muster_view_member *own = &view->member[piece->members[m]];
        own->first_op = piece->members[m] == most ? (uint32_t)piece->first : at;
        at += piece->members[m] == most ? 0 : own->ops;
        own->ops = 0;
    }
}

static bool any_sends(const struct muster_view *view, const struct piece *piece)
{
    uint32_t funcs = 0;
    for (size_t m = 0; m < piece->n; m++)
        funcs |= view->member[piece->members[m]].funcs;
    return funcs & (1u << MUSTER_FUNC_SEND | 1u << MUSTER_FUNC_RECV);
}

/* Among collectives alone. */
static inline bool is_after(const struct muster_view_op *a, const struct muster_view_op *b)
{
    return (a->flags ^ b->flags) & MUSTER_OP_GRAPH ? b->flags & MUSTER_OP_GRAPH
                                                   : a->number <= b->number;
}

/* How many wait while a piece is put in order: all but those of its busiest member. */
static size_t others_of(const struct muster_view *view, const struct piece *piece)
{
    size_t ops = piece->end - piece->first;
    return ops ? ops - view->member[busiest(view, piece)].ops : 0;
}

/* Room for so many. The caller frees. NULL: no memory. */
static struct muster_view_op *room_for(size_t others)
{
    size_t bytes = (others + 1) * sizeof(struct muster_view_op);
    struct muster_view_op *room = malloc(muster_pages_whole(bytes));
    if (room)
        muster_pages_ask_big(room, bytes);
    return room;
}

/* Each operation to its member's place: those of the busiest close up where they are, the others
 * wait meanwhile. `to`: of each handle the index; NULL: they have it. Whether so they all are in
 * order there, member by member. */
static bool scatter(struct muster_view *view, const struct piece *piece, const uint32_t *to,
                    struct muster_view_op *waiting)
{
    uint32_t most = busiest(view, piece), stay = view->member[most].ops;
    size_t others = piece->end - piece->first - stay, behind = piece->first + stay;
    struct muster_view_op *op = view->op;
    bool sends = any_sends(view, piece), ordered = true;
    place_members(view, piece, most);
    for (size_t i = piece->first; i < piece->end; i++) {
        uint32_t fed = op[i].member, index = to ? to[fed] : fed;
        struct muster_view_member *member = &view->member[index];
        size_t at = member->first_op + (size_t)member->ops;
        struct muster_view_op *own = index == most ? &op[at] : &waiting[at - behind];
        *own = op[i];
        if (index != fed)
            own->member = index & (MUSTER_VIEW_MEMBERS - 1);
        if (member->ops++ && ordered)
            ordered = sends ? compare_ops(own - 1, own) <= 0 : is_after(own - 1, own);
    }
    if (others)
        memcpy(op + behind, waiting, others * sizeof *waiting);
    return ordered;
}

static void place_ops(struct muster_view *view, const struct piece *piece, const uint32_t *to,
                      struct muster_view_op *waiting)
{
    bool in_order = piece->first == piece->end || scatter(view, piece, to, waiting);
    for (size_t m = 0; m < piece->n && !in_order; m++) {
        struct muster_view_member *member = &view->member[piece->members[m]];
        if (member->ops)
            sort_ops(view->op + member->first_op, member->ops);
    }
}

/* What is in one piece. */
static int place_piece(struct muster_view *view, const struct piece *piece, const uint32_t *to)
{
    struct muster_view_op *waiting = room_for(others_of(view, piece));
    if (waiting)
        place_ops(view, piece, to, waiting);
    free(waiting);
    return waiting ? 0 : -1;
}

int muster_view_group_ops(struct muster_view *view, size_t first, const uint32_t *members, size_t n)
{
    return place_piece(view, &(struct piece){first, view->ops, members, n}, NULL);
}

static void group_nets(struct muster_view *view, const uint32_t *to)
{
    size_t n = 0;
    for (size_t i = 0; i < view->nets; i++) {
        if (view->net[i].member < view->members) {
            view->net[n] = view->net[i];
            view->net[n].member = to[view->net[n].member];
            n++;
        }
    }
    view->nets = n;
}

/* What was fed of one GPU after the other. */
static struct piece piece_of(const struct muster_view *view, const uint32_t *members,
                             const size_t *first, size_t p)
{
    const struct muster_view_index *index = view->index;
    const struct muster_view_piece *fed = &index->piece[p];
    return (struct piece){fed->first, p + 1 < index->pieces ? fed[1].first : view->ops,
                          members + first[fed->gpu], first[fed->gpu + 1] - first[fed->gpu]};
}

static bool is_whole(const struct muster_view *view, const struct piece *piece)
{
    size_t ops = muster_view_ops_of(view, piece->members, piece->n);
    return ops == piece->end - piece->first;
}

/* GPU by GPU, as nearly all are fed; else in one piece. members[first[g]] and on are those of GPU
 * g.
 */
static int place_fed(struct muster_view *view, const uint32_t *to, const uint32_t *members,
                     const size_t *first)
{
    size_t pieces = view->index && !view->index->mixed ? view->index->pieces : 0;
    size_t most = 0; /* that wait */
    bool whole = pieces > 0;
    for (size_t p = 0; p < pieces && whole; p++) {
        struct piece piece = piece_of(view, members, first, p);
        whole = is_whole(view, &piece);
        size_t others = whole ? others_of(view, &piece) : 0;
        most = others > most ? others : most;
    }
    if (!whole)
        return place_piece(view, &(struct piece){0, view->ops, members, view->members}, to);
    struct muster_view_op *waiting = room_for(most);
    for (size_t p = 0; p < pieces && waiting; p++) {
        struct piece piece = piece_of(view, members, first, p);
        place_ops(view, &piece, to, waiting);
    }
    free(waiting);
    return waiting ? 0 : -1;
}

int muster_view_group_fed(struct muster_view *view)
{
    struct muster_arena memory = {0};
    size_t feeds = view->index ? view->index->feeds : 0;
    uint32_t *to = muster_arena_array(&memory, feeds + 1, sizeof *to);
    uint32_t *members = muster_arena_array(&memory, feeds + 1, sizeof *members);
    int result = memory.failed || muster_view_group_members(view, to) ? -1 : 0;
    const size_t *first = result ? NULL : muster_view_members_by_gpu(view, members, &memory);
    if (first) {
        group_nets(view, to);
        result = place_fed(view, to, members, first);
    }
    muster_arena_free(&memory);
    return first ? result : -1;
}
