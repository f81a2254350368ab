/* Which units wait for each other, and an order of the turns in which each stands after all that it
 * follows. */
#include "base/sort.h"
#include "diagnose/straggler/job_graph.h"
#include "view/aligned.h"

enum { SENT = 8 }; /* times as long as those that send those that receive wait */

static bool has_unit(const struct muster_view *view, const struct muster_view_op *op)
{
    (void)view;
    return muster_source_is_gpu(op->source) && op->end_ns > op->begin_ns;
}

static uint8_t kind_of(unsigned func)
{
    switch (func) {
    case MUSTER_FUNC_BROADCAST:
    case MUSTER_FUNC_SCATTER:
        return MUSTER_TURN_FROM_ROOT;
    case MUSTER_FUNC_REDUCE:
    case MUSTER_FUNC_GATHER:
        return MUSTER_TURN_TO_ROOT;
    default:
        return MUSTER_TURN_ALL;
    }
}

/* To be written. NULL once the arena has failed: without a turn its units have no place. */
static struct muster_turn *add_turn(struct muster_graph *graph)
{
    size_t n = graph->turns;
    struct muster_arena *memory = graph->memory;
    bool sends = graph->any_sends;
    bool room =
        muster_arena_grow(memory, &graph->turn, n, sizeof *graph->turn) &&
        (!sends || muster_arena_grow(memory, &graph->longest_ns, n, sizeof *graph->longest_ns));
    if (room && sends)
        graph->longest_ns[n] = 0;
    return room ? &graph->turn[graph->turns++] : NULL;
}

static void add_unit(struct muster_graph *graph, struct muster_turn *turn, uint32_t u)
{
    struct muster_unit *unit = &graph->unit[u];
    uint64_t ns = (uint64_t)muster_unit_length_ns(graph, unit);
    muster_unit_ask_next(graph, unit);
    unit->turn = (uint32_t)(turn - graph->turn);
    graph->of_turn[turn->first + turn->units++] = u;
    turn->transfer_ns = turn->units == 1 || ns < turn->transfer_ns ? ns : turn->transfer_ns;
    if (graph->longest_ns)
        graph->longest_ns[unit->turn] = muster_ns_most(graph->longest_ns[unit->turn], (int64_t)ns);
}

/* The root first; without it nobody is known to wait for anybody. */
static void set_root(struct muster_graph *graph, struct muster_turn *turn, int32_t root)
{
    uint32_t *unit = &graph->of_turn[turn->first];
    for (uint32_t i = 0; i < turn->units; i++) {
        if (graph->view->member[muster_unit_member(graph, &graph->unit[unit[i]])].rank == root) {
            uint32_t swap = unit[0];
            unit[0] = unit[i];
            unit[i] = swap;
            return;
        }
    }
    turn->kind = MUSTER_TURN_APART;
}

static void collectives(struct muster_graph *graph, uint32_t comm, uint32_t *used)
{
    const struct muster_view *view = graph->view;
    const struct muster_joint_rule rule = {.takes = has_unit, .least = 2};
    struct muster_joint joint;
    muster_joint_begin(&joint, view, comm, &rule, graph->making);
    while (muster_joint_next(&joint)) {
        struct muster_turn *turn = add_turn(graph);
        if (!turn)
            break;
        *turn = (struct muster_turn){.first = *used,
                                     .comm = comm,
                                     .number = joint.any->number,
                                     .kind = kind_of(joint.any->func),
                                     .alike = true,
                                     .graph = joint.any->flags & MUSTER_OP_GRAPH};
        for (uint32_t i = 0; i < joint.comm->members; i++) {
            uint32_t u = joint.op[i] ? graph->of_op[joint.op[i] - view->op] : MUSTER_NO_UNIT;
            if (u != MUSTER_NO_UNIT)
                add_unit(graph, turn, u);
        }
        if (turn->kind != MUSTER_TURN_ALL)
            set_root(graph, turn, view->class[joint.any->class].root);
        graph->any_apart |= !muster_turn_is_together(turn);
        *used += turn->units;
    }
}

/* ---- ends of receives that cannot be true ---- */

/* Units of a send and its receive. */
struct tie {
    uint32_t send, recv;
};

enum {
    MENDED_NS = 50000, /* ends of a collective differ by less from rank to rank, on one host */
    REACH = 8,         /* collectives that a common one is looked for among */
};

/* Nobody waits so long in an exchange: these times are of different ones. */
#define MENDED_MOST_NS 10000000000ll

/* Of each unit the collective before and after it on its GPU that all its ranks were seen to leave.
 */
struct meetings {
    uint32_t *before, *after;
};

static bool is_meeting(const struct muster_graph *graph, uint32_t u)
{
    uint32_t t = graph->unit[u].turn;
    return t != MUSTER_NO_UNIT && graph->turn[t].kind == MUSTER_TURN_ALL &&
           muster_turn_is_whole(graph, &graph->turn[t]);
}

static uint32_t met(const struct muster_graph *graph, uint32_t last, uint32_t u)
{
    bool same = last != MUSTER_NO_UNIT && muster_unit_gpu_unseated(&graph->unit[last]) ==
                                              muster_unit_gpu_unseated(&graph->unit[u]);
    return is_meeting(graph, u) ? u : same ? last : MUSTER_NO_UNIT;
}

/* The units of a GPU follow each other, in the order of its calls. False: no memory. */
static bool find_meetings(const struct muster_graph *graph, struct muster_arena *memory,
                          struct meetings *meetings)
{
    meetings->before = muster_arena_array(memory, graph->units + 1, sizeof *meetings->before);
    meetings->after = muster_arena_array(memory, graph->units + 1, sizeof *meetings->after);
    if (memory->failed)
        return false;
    uint32_t last = MUSTER_NO_UNIT;
    for (uint32_t u = 0; u < graph->units; u++)
        last = meetings->before[u] = met(graph, last, u);
    last = MUSTER_NO_UNIT;
    for (uint32_t u = (uint32_t)graph->units; u-- > 0;)
        last = meetings->after[u] = met(graph, last, u);
    return true;
}

/* The next collective of the GPU that is further away than `u`. */
static uint32_t further(const struct muster_graph *graph, const uint32_t *meeting, uint32_t u,
                        int step)
{
    int64_t next = (int64_t)u + step;
    bool inside = next >= 0 && next < (int64_t)graph->units;
    uint32_t found = inside ? meeting[next] : MUSTER_NO_UNIT;
    bool same = found != MUSTER_NO_UNIT && muster_unit_gpu_unseated(&graph->unit[found]) ==
                                               muster_unit_gpu_unseated(&graph->unit[u]);
    return same ? found : MUSTER_NO_UNIT;
}

/* A GPU's collectives on one side of a unit, the nearest first: those that were asked for. */
struct near {
    uint32_t unit[REACH];
    unsigned n;
};

/* The k-th; those before it were asked for. MUSTER_NO_UNIT: there is none. */
static uint32_t nearest(const struct muster_graph *graph, const uint32_t *meeting, int step,
                        uint32_t u, struct near *near, unsigned k)
{
    if (k == near->n)
        near->unit[near->n++] = k ? further(graph, meeting, near->unit[k - 1], step) : meeting[u];
    return near->unit[k];
}

/* The sender's clock less the receiver's, by the nearest collective that both left together. */
static bool clocks_apart(const struct muster_graph *graph, const uint32_t *meeting, int step,
                         const struct tie *tie, int64_t *apart_ns)
{
    struct near near = {.n = 0};
    uint32_t a = meeting[tie->send], b;
    for (unsigned i = 0; i < REACH && a != MUSTER_NO_UNIT; i++) {
        uint32_t turn = graph->unit[a].turn;
        for (unsigned k = 0; k < REACH; k++) {
            b = nearest(graph, meeting, step, tie->recv, &near, k);
            if (b == MUSTER_NO_UNIT)
                break;
            if (graph->unit[b].turn == turn) {
                *apart_ns = (int64_t)(muster_unit_end_ns(graph, &graph->unit[a]) -
                                      muster_unit_end_ns(graph, &graph->unit[b]));
                return true;
            }
        }
        a = further(graph, meeting, a, step);
    }
    return false;
}

/* When the send began, on the receiver's clock: the sooner of what the collective before and the
 * one after say. False: nothing ties the clocks. */
static bool sent_at(const struct muster_graph *graph, const struct meetings *meetings,
                    const struct tie *tie, uint64_t *at_ns)
{
    int64_t before = 0, after = 0,
            begin = (int64_t)muster_unit_begin_ns(graph, &graph->unit[tie->send]);
    bool known_before = clocks_apart(graph, meetings->before, -1, tie, &before);
    bool known_after = clocks_apart(graph, meetings->after, 1, tie, &after);
    int64_t apart = !known_before || (known_after && after > before) ? after : before;
    *at_ns = (uint64_t)(begin - apart);
    return known_before || known_after;
}

static void mend(struct muster_graph *graph, const struct meetings *meetings, const struct tie *tie)
{
    struct muster_unit *recv = &graph->unit[tie->recv];
    uint64_t at_ns;
    bool known = sent_at(graph, meetings, tie, &at_ns);
    int64_t early_ns = (int64_t)(at_ns - muster_unit_end_ns(graph, recv));
    if (!known || early_ns < MENDED_NS || early_ns > MENDED_MOST_NS)
        return;
    int64_t sent = muster_unit_length_ns(graph, &graph->unit[tie->send]);
    int64_t shown = muster_unit_length_ns(graph, recv);
    struct muster_unit_group *own = muster_unit_own_group(graph, recv);
    if (own)
        own->end_ns = at_ns + (uint64_t)(sent < shown ? sent : shown);
}

/* No receive is over before its send begins. Where NCCL's stamps say so, the receive ends when its
 * send came and the transfer was done. What ties the two clocks is a collective that both GPUs left
 * together, before and after: so collectives have their turns by then. Changes ends of units alone.
 * `memory` gets what is needed on the way. */
static void mend_ends(struct muster_graph *graph, const struct tie *tie, size_t ties,
                      struct muster_arena *memory)
{
    struct meetings meetings;
    bool known = find_meetings(graph, memory, &meetings);
    for (size_t i = 0; i < ties && known; i++)
        mend(graph, &meetings, &tie[i]);
}

/* ---- sends and receives ---- */

/* Sets of units that are tied to each other, each known by its head. */
struct ties {
    struct muster_arena memory;
    struct tie *tie;
    size_t n;
    uint32_t *head;
    uint32_t *size, *tied; /* of each head: units, ties */
    uint64_t *least_ns;    /* of each head: the shortest of its units */
    uint8_t *chain;        /* of each head: a GPU stands in it twice, so not all ran at a time */
    bool *sent;            /* of each communicator: who sends waits for nobody */
};

static uint32_t head_of(uint32_t *head, uint32_t u)
{
    while (head[u] != u)
        u = head[u] = head[head[u]];
    return u;
}

static void tie(void *into, const struct muster_graph *graph, uint32_t send, uint32_t recv)
{
    struct ties *ties = into;
    uint32_t a = graph->of_op[send], b = graph->of_op[recv];
    if (a == MUSTER_NO_UNIT || b == MUSTER_NO_UNIT)
        return;
    struct tie *tie = muster_arena_add(&ties->memory, &ties->tie, &ties->n, sizeof *tie);
    *tie = (struct tie){a, b};
    a = head_of(ties->head, a);
    b = head_of(ties->head, b);
    ties->head[a < b ? b : a] = a < b ? a : b;
}

static void measure(const struct muster_graph *graph, struct ties *ties)
{
    struct muster_arena scratch = {0};
    struct muster_keyed *item = muster_arena_array(&scratch, 2 * (graph->units + 1), sizeof *item);
    size_t n = 0;
    for (uint32_t u = 0; u < graph->units && item; u++) {
        uint32_t head = ties->head[u] = head_of(ties->head, u);
        const struct muster_unit *unit = &graph->unit[u];
        uint64_t key = (uint64_t)head << 32 | muster_unit_gpu_unseated(unit);
        uint64_t ns = (uint64_t)muster_unit_length_ns(graph, unit);
        ties->least_ns[head] =
            !ties->size[head] || ns < ties->least_ns[head] ? ns : ties->least_ns[head];
        ties->size[head]++;
        if (muster_func_is_p2p(graph->view->op[muster_unit_op(graph, unit)].func))
            item[n++] = (struct muster_keyed){key, u, {0}};
    }
    const struct muster_keyed *sorted = item ? muster_sort_keyed(item, item + n, n) : NULL;
    for (size_t i = 1; i < n && item; i++)
        ties->chain[ties->head[sorted[i].value]] |= sorted[i].key == sorted[i - 1].key;
    for (size_t i = 0; i < ties->n; i++)
        ties->tied[ties->head[ties->tie[i].send]]++;
    muster_arena_end(&scratch, &ties->memory);
}

/* Whom each unit is tied to. */
static void set_partners(struct muster_graph *graph, const struct ties *ties)
{
    graph->first_partner =
        muster_arena_array(graph->memory, graph->units + 2, sizeof *graph->first_partner);
    graph->partner = muster_arena_array(graph->memory, 2 * ties->n + 1, sizeof *graph->partner);
    if (graph->memory->failed)
        return;
    uint32_t *first = graph->first_partner;
    for (size_t i = 0; i < ties->n; i++) {
        first[ties->tie[i].send + 2 <= graph->units ? ties->tie[i].send + 2 : graph->units + 1]++;
        first[ties->tie[i].recv + 2 <= graph->units ? ties->tie[i].recv + 2 : graph->units + 1]++;
    }
    for (size_t u = 2; u < graph->units + 2; u++)
        first[u] += first[u - 1];
    for (size_t i = 0; i < ties->n; i++) {
        graph->partner[first[ties->tie[i].send + 1]++] = ties->tie[i].recv | MUSTER_RECEIVES;
        graph->partner[first[ties->tie[i].recv + 1]++] = ties->tie[i].send;
    }
}

/* All with all, or two, are a turn as a collective is; of others each unit waits for its own
 * partners alone. */
static bool waits_together(const struct ties *ties, uint32_t head, bool sent)
{
    uint64_t n = ties->size[head];
    bool both_ways = ties->tied[head] >= n * (n - 1);
    return !ties->chain[head] && ((n == 2 && !sent) || both_ways);
}

static uint32_t comm_of(const struct muster_graph *graph, uint32_t u)
{
    return graph->view->member[muster_unit_member(graph, &graph->unit[u])].comm;
}

/* Small sends are over once they are buffered: then who sends waits for nobody, while those that it
 * sends to wait for it. */
static void find_sent(const struct muster_graph *graph, struct ties *ties)
{
    size_t comms = graph->view->comms + 1;
    double(*waited)[2] = muster_arena_array(&ties->memory, comms, sizeof *waited);
    ties->sent = muster_arena_array(&ties->memory, comms, sizeof *ties->sent);
    for (size_t i = 0; i < ties->n && !ties->memory.failed; i++) {
        uint32_t head = ties->head[ties->tie[i].send];
        if (ties->size[head] == 2 && ties->tied[head] == 1) {
            double *own = waited[comm_of(graph, ties->tie[i].send)];
            int64_t ns = muster_unit_length_ns(graph, &graph->unit[ties->tie[i].send]) -
                         muster_unit_length_ns(graph, &graph->unit[ties->tie[i].recv]);
            own[ns < 0] += (double)(ns < 0 ? -ns : ns);
        }
    }
    for (size_t c = 0; c < comms && !ties->memory.failed; c++)
        ties->sent[c] = SENT * waited[c][0] < waited[c][1];
}

static void add_exchange(struct muster_graph *graph, const struct ties *ties, uint32_t u,
                         uint32_t *used)
{
    uint32_t head = ties->head[u];
    const struct muster_view_op *op = &graph->view->op[muster_unit_op(graph, &graph->unit[u])];
    uint32_t comm = graph->view->member[op->member].comm;
    bool together = waits_together(ties, head, ties->sent[comm]);
    if (!together || head == u) {
        struct muster_turn *turn = add_turn(graph);
        if (!turn)
            return;
        /* All ranks do the same where all have as many partners. */
        uint32_t own = graph->first_partner[u + 1] - graph->first_partner[u];
        bool alike = !ties->chain[head] && ties->size[head] > 2 &&
                     ties->size[head] == graph->view->comm[comm].members &&
                     own * ties->size[head] == 2 * ties->tied[head];
        *turn = (struct muster_turn){.first = *used,
                                     .comm = comm,
                                     .number = op->number,
                                     .kind = together ? MUSTER_TURN_ALL : MUSTER_TURN_PARTNERS,
                                     .alike = alike,
                                     .sent = ties->sent[comm] && !together,
                                     .p2p = true};
        graph->any_apart |= !together;
        *used += together ? ties->size[head] : 1;
        add_unit(graph, turn, u);
    } else {
        add_unit(graph, &graph->turn[graph->unit[head].turn], u);
    }
    struct muster_turn *turn = &graph->turn[graph->unit[u].turn];
    if (!ties->chain[head]) {
        turn->transfer_ns = ties->least_ns[head];
        return;
    }
    for (uint32_t i = graph->first_partner[u]; i < graph->first_partner[u + 1]; i++) {
        const struct muster_unit *partner = &graph->unit[muster_partner(graph, i)];
        uint64_t ns = (uint64_t)muster_unit_length_ns(graph, partner);
        turn->transfer_ns = ns < turn->transfer_ns ? ns : turn->transfer_ns;
    }
}

static void make_ties(struct muster_graph *graph, struct ties *ties)
{
    size_t n = graph->units + 1;
    ties->head = muster_arena_array(&ties->memory, n, sizeof *ties->head);
    ties->size = muster_arena_array(&ties->memory, n, sizeof *ties->size);
    ties->tied = muster_arena_array(&ties->memory, n, sizeof *ties->tied);
    ties->least_ns = muster_arena_array(&ties->memory, n, sizeof *ties->least_ns);
    ties->chain = muster_arena_array(&ties->memory, n, sizeof *ties->chain);
    if (ties->memory.failed)
        return;
    for (uint32_t u = 0; u < graph->units; u++)
        ties->head[u] = u;
    muster_graph_each_pair(graph, tie, ties);
    if (!ties->memory.failed) {
        mend_ends(graph, ties->tie, ties->n, &ties->memory);
        measure(graph, ties);
    }
}

static void sends(struct muster_graph *graph, uint32_t *used)
{
    if (!graph->any_sends)
        return;
    struct ties ties = {.n = 0};
    make_ties(graph, &ties);
    if (!ties.memory.failed) {
        set_partners(graph, &ties);
        find_sent(graph, &ties);
    }
    bool failed = ties.memory.failed;
    for (uint32_t u = 0; u < graph->units && !failed && !graph->memory->failed; u++)
        if (ties.size[ties.head[u]] >= 2)
            add_exchange(graph, &ties, u, used);
    muster_arena_end(&ties.memory, graph->memory);
}

/* What nobody else is seen of. */
static void lonely(struct muster_graph *graph, uint32_t *used)
{
    for (uint32_t u = 0; u < graph->units; u++) {
        if (graph->unit[u].turn != MUSTER_NO_UNIT)
            continue;
        struct muster_turn *turn = add_turn(graph);
        if (!turn)
            return;
        const struct muster_view_op *op = &graph->view->op[muster_unit_op(graph, &graph->unit[u])];
        *turn = (struct muster_turn){.first = *used,
                                     .comm = graph->view->member[op->member].comm,
                                     .number = op->number,
                                     .kind = MUSTER_TURN_APART,
                                     .p2p = muster_func_is_p2p(op->func)};
        graph->any_apart = true;
        add_unit(graph, turn, u);
        (*used)++;
    }
}

void muster_graph_turns(struct muster_graph *graph)
{
    uint32_t used = 0;
    graph->of_turn = muster_arena_array(graph->memory, graph->units + 1, sizeof *graph->of_turn);
    for (uint32_t c = 0; c < graph->view->comms && !graph->memory->failed; c++)
        if (muster_joint_possible(&graph->view->comm[c]))
            collectives(graph, c, &used);
    if (!graph->memory->failed)
        sends(graph, &used);
    if (!graph->memory->failed && used < graph->units)
        lonely(graph, &used);
}

/* ---- the order ---- */

enum { NOT_SEEN, ON_STACK, IN_ORDER };

/* A turn on the stack, and the next of its units. */
struct visited {
    uint32_t turn, at;
};

struct visit {
    struct muster_graph *graph;
    uint8_t *state; /* of each turn: one of these */
    struct visited *stack;
};

/* The turn of a unit, or of one that it waits for; MUSTER_NO_UNIT: none that is not in order yet.
 */
static inline uint32_t fresh(const struct visit *visit, uint32_t u)
{
    const struct muster_graph *graph = visit->graph;
    uint32_t t = graph->unit[u].turn, next = visit->state[t] == NOT_SEEN ? t : MUSTER_NO_UNIT;
    if (graph->first_partner && graph->turn[t].kind == MUSTER_TURN_PARTNERS) {
        uint32_t end = graph->first_partner[u + 1];
        for (uint32_t i = graph->first_partner[u]; i < end && next == MUSTER_NO_UNIT; i++) {
            uint32_t its = graph->unit[muster_partner(graph, i)].turn;
            next = visit->state[its] == NOT_SEEN ? its : MUSTER_NO_UNIT;
        }
    }
    return next;
}

/* Then so is what it follows. */
static inline bool is_in_order(const struct visit *visit, uint32_t u)
{
    return visit->state[visit->graph->unit[u].turn] == IN_ORDER;
}

/* The same of what tells of untimed operations before it. */
static uint32_t follows_untimed(const struct visit *visit,
                                const struct muster_unit_untimed *untimed)
{
    uint32_t next = MUSTER_NO_UNIT;
    if (untimed->before != MUSTER_NO_UNIT)
        next = fresh(visit, untimed->before);
    if (untimed->sender != MUSTER_NO_UNIT && next == MUSTER_NO_UNIT)
        next = fresh(visit, untimed->sender);
    return next;
}

/* The same of what any edge of the unit comes from. */
static uint32_t follows(const struct visit *visit, uint32_t u)
{
    const struct muster_graph *graph = visit->graph;
    const struct muster_unit *unit = &graph->unit[u];
    uint32_t last = muster_unit_last(graph, unit), own = unit->own;
    __builtin_prefetch(unit + 3);
    /* As nearly always without sends: what its GPU called before ended last. */
    if (unit->last == 1 && !graph->first_partner && !graph->untimed && is_in_order(visit, last) &&
        (own == last || own == MUSTER_NO_UNIT || is_in_order(visit, own))) {
        return MUSTER_NO_UNIT;
    }
    uint32_t next = last == MUSTER_NO_UNIT ? MUSTER_NO_UNIT : fresh(visit, last);
    if (own == last && own != MUSTER_NO_UNIT && is_in_order(visit, own))
        own = MUSTER_NO_UNIT;
    for (unsigned back = 0; back < MUSTER_BACK && own != MUSTER_NO_UNIT && next == MUSTER_NO_UNIT;
         back++) {
        next = fresh(visit, own);
        own = is_in_order(visit, own) ? MUSTER_NO_UNIT : graph->unit[own].own;
    }
    if (graph->untimed && next == MUSTER_NO_UNIT)
        next = follows_untimed(visit, &graph->untimed[u]);
    bool called = unit->known >> MUSTER_EDGE_CALL & 1 && last != u - 1;
    return called && next == MUSTER_NO_UNIT ? fresh(visit, u - 1) : next;
}

/* An edge that closes a circle, which no true times make, is passed over. */
static void put_in_order(struct visit *visit, uint32_t t)
{
    struct muster_graph *graph = visit->graph;
    size_t depth = 0;
    visit->stack[depth++] = (struct visited){t, 0};
    visit->state[t] = ON_STACK;
    while (depth) {
        struct visited *own = &visit->stack[depth - 1];
        const struct muster_turn *turn = &graph->turn[own->turn];
        uint32_t next = MUSTER_NO_UNIT;
        while (own->at < turn->units) {
            next = follows(visit, graph->of_turn[turn->first + own->at]);
            if (next != MUSTER_NO_UNIT)
                break;
            own->at++;
        }
        if (next == MUSTER_NO_UNIT) {
            visit->state[own->turn] = IN_ORDER;
            graph->order[graph->ordered++] = own->turn;
            depth--;
        } else {
            visit->state[next] = ON_STACK;
            visit->stack[depth++] = (struct visited){next, 0};
        }
    }
}

void muster_graph_order(struct muster_graph *graph)
{
    size_t n = graph->turns + 1;
    struct muster_arena scratch = {0};
    struct visit visit = {graph, muster_arena_array(&scratch, n, sizeof *visit.state),
                          muster_arena_array(&scratch, n, sizeof *visit.stack)};
    graph->order = muster_arena_array(graph->memory, n, sizeof *graph->order);
    bool failed = scratch.failed || graph->memory->failed;
    for (uint32_t t = 0; t < graph->turns && !failed; t++)
        if (visit.state[t] == NOT_SEEN)
            put_in_order(&visit, t);
    muster_arena_end(&scratch, graph->memory);
}
