#include "diagnose/straggler/what_if.h"

#include <string.h>

/* Where a circle of edges had to be cut, what is followed is not known yet: it counts as 0. */
#define NOT_YET INT64_MIN

static const struct muster_lanes none = {{0}};
static const struct muster_lanes not_yet = {{NOT_YET, NOT_YET}};
static const struct muster_lanes_after after_not_yet = {{MUSTER_NO_SHORT, MUSTER_NO_SHORT}};

void muster_what_if_begin(struct muster_what_if *what_if, const struct muster_graph *graph,
                          struct muster_arena *memory)
{
    size_t units = graph->units + 1, turns = graph->turns + 1, positions = graph->positions + 1;
    what_if->graph = graph;
    what_if->far_after.memory = &what_if->walk;
    what_if->begin = muster_arena_array(memory, units, sizeof *what_if->begin);
    what_if->over = muster_arena_array(memory, turns, sizeof *what_if->over);
    what_if->other = muster_arena_array(memory, positions, sizeof *what_if->other);
}

void muster_what_if_end(struct muster_what_if *what_if, struct muster_arena *memory)
{
    muster_arena_end(&what_if->walk, memory);
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct muster_lanes later(struct muster_lanes a, struct muster_lanes b)
{
    for (unsigned l = 0; l < MUSTER_LANES; l++) {
        a.ns[l] = most(a.ns[l], b.ns[l]);
    }
    return a;
}

static struct muster_lanes plus(struct muster_lanes a, int64_t ns)
{
    for (unsigned l = 0; l < MUSTER_LANES; l++) {
        a.ns[l] += ns;
    }
    return a;
}

/* From its call to its begin, as it was. */
static int64_t since_call_ns(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return (int64_t)(muster_unit_begin_ns(graph, unit) - muster_unit_call_ns(graph, unit));
}

/* Units of a turn begin so close to each other that four bytes hold what lies between. */
static inline struct muster_lanes_after
after(struct muster_what_if *what_if, const struct muster_turn_end *turn, struct muster_lanes at)
{
    struct muster_lanes_after own;
    for (unsigned l = 0; l < MUSTER_LANES; l++) {
        uint64_t ns = (uint64_t)at.ns[l] - (uint64_t)turn->first.ns[l];
        own.ns[l] = muster_shorten_ns(&what_if->far_after, (int64_t)ns);
    }
    return own;
}

static inline bool is_not_yet(struct muster_lanes_after own)
{
    return own.ns[0] == MUSTER_NO_SHORT;
}

static inline struct muster_lanes at(const struct muster_what_if *what_if,
                                     const struct muster_turn_end *turn,
                                     struct muster_lanes_after own)
{
    struct muster_lanes at = turn->first;
    for (unsigned l = 0; l < MUSTER_LANES; l++) {
        uint64_t ns = (uint64_t)muster_ns_of_short(&what_if->far_after, own.ns[l]);
        at.ns[l] = (int64_t)((uint64_t)at.ns[l] + ns);
    }
    return at;
}

static struct muster_lanes begin_of(const struct muster_what_if *what_if, uint32_t u)
{
    struct muster_lanes_after own = what_if->begin[u];
    return is_not_yet(own) ? none : at(what_if, &what_if->over[what_if->graph->unit[u].turn], own);
}

static struct muster_lanes call_of(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_unit *unit = &what_if->graph->unit[u];
    return is_not_yet(what_if->begin[u])
               ? none
               : plus(begin_of(what_if, u), -since_call_ns(what_if->graph, unit));
}

/* What waits for its partners alone is over when all of them have come. */
static struct muster_lanes end_of_partners(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_graph *graph = what_if->graph;
    struct muster_lanes last = begin_of(what_if, u);
    for (uint32_t i = graph->first_partner[u]; i < graph->first_partner[u + 1]; i++) {
        last = later(last, begin_of(what_if, graph->partner[i]));
    }
    return plus(last, (int64_t)graph->turn[graph->unit[u].turn].transfer_ns);
}

/* Of a turn with a root, or whose ranks wait for nobody that was seen. */
static struct muster_lanes end_apart(const struct muster_what_if *what_if, uint32_t u)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_turn *turn = &graph->turn[graph->unit[u].turn];
    const struct muster_turn_end *over = &what_if->over[graph->unit[u].turn];
    uint32_t root = graph->of_turn[turn->first];
    if (turn->kind == MUSTER_TURN_APART || (turn->kind == MUSTER_TURN_FROM_ROOT && u == root) ||
        (turn->kind == MUSTER_TURN_TO_ROOT && u != root)) {
        bool whole = muster_turn_is_whole(graph, turn);
        return plus(begin_of(what_if, u),
                    whole ? muster_unit_length_ns(graph, &graph->unit[u]) : over->transfer_ns);
    }
    struct muster_lanes last = turn->kind == MUSTER_TURN_FROM_ROOT
                                   ? later(begin_of(what_if, u), begin_of(what_if, root))
                                   : at(what_if, over, over->last);
    return plus(last, over->transfer_ns);
}

/* When a unit is over. */
static inline struct muster_lanes end_of(const struct muster_what_if *what_if, uint32_t u)
{
    uint32_t t = what_if->graph->unit[u].turn;
    const struct muster_turn_end *over = &what_if->over[t];
    uint8_t kind = what_if->graph->turn[t].kind;
    if (kind == MUSTER_TURN_PARTNERS) {
        return end_of_partners(what_if, u);
    }
    if (is_not_yet(over->last)) {
        return none;
    }
    return kind == MUSTER_TURN_ALL ? plus(at(what_if, over, over->last), over->transfer_ns)
                                   : end_apart(what_if, u);
}

/* A unit that another one came after. */
struct before {
    uint32_t unit; /* MUSTER_NO_UNIT: none */
    struct muster_lanes over;
    int64_t gap_ns; /* from its end to the other's begin, as it was */
};

static inline struct before before_of(const struct muster_what_if *what_if,
                                      const struct muster_unit *unit, uint32_t before)
{
    const struct muster_graph *graph = what_if->graph;
    struct before own = {before, none, 0};
    if (before != MUSTER_NO_UNIT) {
        own.over = end_of(what_if, before);
        own.gap_ns = (int64_t)(muster_unit_begin_ns(graph, unit) -
                               muster_unit_end_ns(graph, &graph->unit[before]));
    }
    return own;
}

/* When its local edge lets the unit begin; a unit that follows nothing ends where the job begins.
 */
static inline struct muster_lanes local(const struct muster_what_if *what_if, uint32_t u,
                                        const struct before *own)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    uint32_t from = muster_unit_before(graph, unit, unit->edge);
    if (from == MUSTER_NO_UNIT) {
        return own->unit == MUSTER_NO_UNIT ? plus(none, -muster_unit_length_ns(graph, unit))
                                           : plus(own->over, own->gap_ns);
    }
    bool known = unit->known >> unit->edge & 1;
    if (known && unit->edge == MUSTER_EDGE_CALL) {
        int64_t call_ns = muster_unit_own(graph, unit, MUSTER_EDGE_CALL);
        return plus(call_of(what_if, from), call_ns + since_call_ns(graph, unit));
    }
    if (known && muster_edge_begins(unit->edge)) {
        return plus(begin_of(what_if, from), muster_unit_own(graph, unit, unit->edge));
    }
    struct before last = from == own->unit ? *own : before_of(what_if, unit, from);
    /* Unless known, whom it waited for in between was not seen. */
    return plus(last.over, known ? last.gap_ns : 0);
}

/* What was ready before its communicator was free: it needs as long as it usually does. */
static struct muster_lanes ready(const struct muster_what_if *what_if,
                                 const struct muster_unit *unit,
                                 const struct muster_position *position)
{
    const struct muster_graph *graph = what_if->graph;
    int64_t since = muster_unit_own(graph, unit, position->edge);
    uint32_t from = muster_unit_before(graph, unit, position->edge);
    return plus(muster_edge_begins(position->edge) ? begin_of(what_if, from)
                                                   : end_of(what_if, from),
                least(position->ready_ns, since));
}

/* The sets in which the GPUs of one group are as usual, by bits. */
static inline unsigned lanes_of(uint8_t group, const uint32_t *usual)
{
    unsigned lanes = 0;
    for (unsigned l = 0; l < MUSTER_LANES && group < 32; l++) {
        lanes |= (usual[l] >> group & 1) << l;
    }
    return lanes;
}

/* When it begins. `lanes`: those in which it needs no longer than is usual. */
static inline struct muster_lanes begin_unit(const struct muster_what_if *what_if, uint32_t u,
                                             unsigned lanes)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_unit *unit = &graph->unit[u];
    const struct muster_seat *seat = &graph->seat[unit->seat];
    struct before own = before_of(what_if, unit, unit->own);
    struct muster_lanes at = local(what_if, u, &own), more = none;
    bool late = seat->log_e > 0 || seat->hidden;
    int64_t excess_ns = lanes && late ? muster_unit_excess_ns(graph, unit) : 0;
    for (unsigned l = 0; l < MUSTER_LANES && excess_ns > 0; l++) {
        int64_t ns = excess_ns - most(what_if->other[seat->position].ns[l], 0);
        more.ns[l] = lanes >> l & 1 && ns > 0 ? ns : 0;
        at.ns[l] -= more.ns[l];
    }
    int64_t waited_ns = muster_unit_waited_ns(graph, unit);
    if (waited_ns > 0 && unit->last) {
        /* It waited for what ended last: it need not if that ends sooner. */
        struct before last = before_of(what_if, unit, muster_unit_last(graph, unit));
        for (unsigned l = 0; l < MUSTER_LANES; l++) {
            at.ns[l] = most(at.ns[l] - waited_ns, last.over.ns[l] + last.gap_ns - more.ns[l]);
        }
    }
    if (own.unit != MUSTER_NO_UNIT) {
        const struct muster_position *position = &graph->position[seat->position];
        if (unit->edge != position->edge && unit->edge == MUSTER_EDGE_OWN) {
            at = later(at, ready(what_if, unit, position));
        }
        at = later(at, plus(own.over, own.gap_ns < 0 ? own.gap_ns : 0));
    }
    return at;
}

/* Returns when its last unit is over. Ranks that were not seen, or not timed, come first. */
static struct muster_lanes end_turn(struct muster_what_if *what_if, uint32_t t)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_turn *turn = &graph->turn[t];
    const uint32_t *unit = &graph->of_turn[turn->first];
    struct muster_turn_end *own = &what_if->over[t];
    struct muster_lanes last = not_yet;
    bool whole = muster_turn_is_whole(graph, turn);
    for (uint32_t i = 0; i < turn->units; i++) {
        last = later(last, at(what_if, own, what_if->begin[unit[i]]));
    }
    own->last = turn->units ? after(what_if, own, last) : after_not_yet;
    own->transfer_ns = (int64_t)turn->transfer_ns;
    for (uint32_t i = 0; i < turn->units && !whole; i++) {
        own->transfer_ns = least(own->transfer_ns, graph->seat[graph->unit[unit[i]].seat].least_ns);
    }
    if (turn->kind == MUSTER_TURN_PARTNERS || turn->kind == MUSTER_TURN_ALL) {
        return plus(last, own->transfer_ns); /* partners have turns of their own */
    }
    struct muster_lanes over = not_yet;
    for (uint32_t i = 0; i < turn->units; i++) {
        over = later(over, end_of(what_if, unit[i]));
    }
    return over;
}

/* By turns another GPU of those that stay as they are. */
static void note_others(struct muster_what_if *what_if, const struct muster_turn *turn, uint32_t t,
                        const uint8_t *group, const uint32_t *usual)
{
    const struct muster_graph *graph = what_if->graph;
    unsigned left = (1u << MUSTER_LANES) - 1;
    uint32_t i = turn->units ? t % turn->units : 0;
    for (uint32_t n = 0; n < turn->units && left; n++, i++) {
        i = i < turn->units ? i : 0;
        const struct muster_unit *unit = &graph->unit[graph->of_turn[turn->first + i]];
        const struct muster_seat *seat = &graph->seat[unit->seat];
        if (!unit->evaluated || seat->culprit) {
            continue;
        }
        unsigned stays = left & ~lanes_of(group[seat->gpu], usual);
        for (unsigned l = 0; l < MUSTER_LANES && stays; l++) {
            int64_t *other_ns = &what_if->other[seat->position].ns[l];
            *other_ns = stays >> l & 1 ? muster_unit_excess_ns(graph, unit) : *other_ns;
        }
        left &= ~stays;
    }
}

static void begin_turn(struct muster_what_if *what_if, uint32_t t, const uint8_t *group,
                       const uint32_t *usual)
{
    const struct muster_graph *graph = what_if->graph;
    const struct muster_turn *turn = &graph->turn[t];
    struct muster_turn_end *own = &what_if->over[t];
    for (uint32_t i = 0; i < turn->units; i++) {
        uint32_t u = graph->of_turn[turn->first + i];
        muster_unit_ask_next(graph, &graph->unit[u]);
        __builtin_prefetch(&what_if->begin[u] + 8);
        unsigned lanes = lanes_of(group[graph->seat[graph->unit[u].seat].gpu], usual);
        struct muster_lanes at = begin_unit(what_if, u, lanes);
        own->first = i == 0 ? at : own->first;
        what_if->begin[u] = after(what_if, own, at);
    }
}

/* As if nothing had begun. */
static void start(struct muster_what_if *what_if)
{
    const struct muster_graph *graph = what_if->graph;
    bool failed = what_if->walk.failed;
    muster_arena_free(&what_if->walk);
    what_if->walk.failed = failed;
    what_if->far_after = (struct muster_long_ns){.memory = &what_if->walk};
    for (size_t u = 0; u < graph->units; u++) {
        what_if->begin[u] = after_not_yet;
    }
    for (size_t t = 0; t < graph->turns; t++) {
        what_if->over[t].last = after_not_yet;
    }
    memset(what_if->other, 0, graph->positions * sizeof *what_if->other);
}

struct muster_lanes muster_what_if(struct muster_what_if *what_if, const uint8_t *group,
                                   const uint32_t usual[MUSTER_LANES])
{
    const struct muster_graph *graph = what_if->graph;
    struct muster_lanes over = none;
    start(what_if);
    for (size_t t = 0; t < graph->ordered; t++) {
        begin_turn(what_if, graph->order[t], group, usual);
        note_others(what_if, &graph->turn[graph->order[t]], (uint32_t)t, group, usual);
        over = later(over, end_turn(what_if, graph->order[t]));
    }
    return over;
}

void muster_what_if_waits(const struct muster_what_if *what_if, unsigned lane, double *of_gpu)
{
    const struct muster_graph *graph = what_if->graph;
    memset(of_gpu, 0, graph->view->gpus * sizeof *of_gpu);
    for (uint32_t u = 0; u < graph->units; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        const struct muster_turn *turn = &graph->turn[unit->turn];
        if (turn->kind != MUSTER_TURN_APART) {
            int64_t ns = end_of(what_if, u).ns[lane] - begin_of(what_if, u).ns[lane] -
                         (int64_t)turn->transfer_ns;
            of_gpu[graph->seat[unit->seat].gpu] += ns > 0 ? (double)ns : 0;
        }
    }
}
