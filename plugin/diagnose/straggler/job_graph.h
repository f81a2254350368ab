/*
 * The happens-before graph of what was recorded, and what stands on it. A unit is what one GPU ran
 * as one kernel in one communicator: a collective, or a group of sends and receives (those to
 * oneself do not exist). A turn is the units that wait for each other: a collective on all its
 * ranks, an exchange on its partners. Between the turns stand local edges: what a GPU, or its host,
 * did by itself. Between the files of this folder only.
 *
 * No clock of one GPU is compared with another's: turns tie the clocks together, as all units of a
 * turn are over when the last of them has come and the transfer is done.
 *
 * Memory is an arena's, which whoever wants the graph hands over and checks at its end: once it has
 * failed nothing more is done, and what was made is not whole.
 */
#ifndef MUSTER_DIAGNOSE_STRAGGLER_JOB_GRAPH_H
#define MUSTER_DIAGNOSE_STRAGGLER_JOB_GRAPH_H

#include "diagnose/straggler/short_ns.h"
#include "view/coverage.h"
#include "view/view.h"

#define MUSTER_NO_OWN        MUSTER_NO_NS /* own time: not known */
#define MUSTER_STAGES        1.5          /* stages of a pipeline may differ by so much by design */
#define MUSTER_STAGES_OF_TWO 3.0          /* two: with one other alone nothing says what is usual */
#define MUSTER_NOT_ALL_TIMED (-1.0)       /* worked: of what it did too little was timed */
#define MUSTER_AT_ONCE       0.7 /* of the units of a position: the GPU waited for its host */
enum { MUSTER_NO_UNIT = UINT32_MAX };
#define MUSTER_RECEIVES (1u << 31) /* of a partner */
enum {
    MUSTER_GAP_NS = 10000, /* what begins sooner after its communicator's last was ready before */
    MUSTER_QUEUED_AT_ONCE = 2, /* in MUSTER_QUEUED_NS: called so long before, it was not the call */
};

/* What a unit's begin follows; learned for each position of the step. */
enum muster_edge {
    MUSTER_EDGE_LAST,  /* the end of what ran last on this GPU, in any communicator */
    MUSTER_EDGE_OWN,   /* the end of the unit before in its communicator */
    MUSTER_EDGE_OWN_2, /* of the one before that */
    MUSTER_EDGE_OWN_3,
    MUSTER_EDGE_BEGIN, /* its begin: computing goes on while the communicator works */
    MUSTER_EDGE_BEGIN_2,
    MUSTER_EDGE_BEGIN_3,
    MUSTER_EDGE_CALL, /* its host's call before: the host runs by itself, the GPU waits for it */
    MUSTER_EDGES
};
enum { MUSTER_BACK = 3 };  /* units of its communicator that an edge reaches back */
enum { MUSTER_AHEAD = 4 }; /* turns, twice and three times, that are asked for before */
enum { MUSTER_FARS = 3 };  /* how far late is told apart: e_process.c */

/* 28 bytes, as there is one for nearly every operation of every rank; what is not here stands in
 * the view, or in a table of the few that need it. Read through the functions below. */
struct muster_unit {
    uint32_t op; /* the first of its operations, in the view; with `group`: in graph->group */
    uint32_t turn;
    uint32_t seat;     /* of a graph without seats: its label */
    uint32_t own;      /* unit before in its communicator, by begin; MUSTER_NO_UNIT: none */
    int32_t own_ns;    /* by its edge; these two shortened (short_ns.h) */
    int32_t excess_ns; /* of a graph without seats: its GPU */
    int16_t last;      /* so many units before it, what ended last on its GPU; 0: none */
    uint8_t known;     /* bit of each edge: nothing unseen lies between */
    uint8_t edge : 3;  /* enum muster_edge, after muster_graph_learn */
    bool scored : 1;
    bool carried : 1;              /* its host was behind from before, and took no longer */
    bool evaluated : 1, stage : 1; /* compared with ranks that do the same; with other stages */
    bool group : 1;                /* its times stand in graph->group */
};
_Static_assert(sizeof(struct muster_unit) == 28, "one for each operation of each rank");

/* Of the units of several operations, and of those whose end is not the one that was shown. */
struct muster_unit_group {
    uint64_t begin_ns, end_ns;
    uint32_t op;
};

/* Who waits for whom in a turn. */
enum muster_turn_kind {
    MUSTER_TURN_ALL,       /* all for the last */
    MUSTER_TURN_FROM_ROOT, /* each for the root, which comes first in the turn */
    MUSTER_TURN_TO_ROOT,   /* the root for the last */
    MUSTER_TURN_PARTNERS,  /* its one unit for those that it is tied to */
    MUSTER_TURN_APART      /* nobody that is seen */
};

struct muster_turn {
    uint32_t first, units; /* in of_turn */
    uint32_t comm;
    uint8_t kind; /* enum muster_turn_kind */
    bool graph : 1, p2p : 1;
    bool alike : 1; /* all its ranks do the same there: they are compared with each other */
    bool sent : 1;  /* of partners: sends are over once they have left, received or not */
    uint64_t number;
    uint64_t transfer_ns; /* of the unit that waited least */
};
_Static_assert(sizeof(struct muster_turn) == 32, "one for as few as two operations");

/* A stretch of time that is one bet. */
struct muster_window {
    uint64_t since_ns;
    double excess_ns, usual_ns; /* sums */
    double host_ns;             /* of the usual: where the GPU waited for its host */
    uint32_t turns;             /* 0: not open */
};

/* One position of the step on one GPU. */
struct muster_seat {
    uint32_t position, gpu; /* position: index */
    uint32_t last_unit;     /* by the order of turns */
    uint32_t turns, late;   /* late: beyond the limit */
    uint32_t hints;         /* units that might tell which edge holds */
    /* Short windows; those later than any state of a GPU's clock explains, and by as much as all of
     * it usually takes. */
    uint32_t slices, far[MUSTER_FARS];
    uint64_t stretch_ns; /* since when the bet that is open goes; 0: none is */
    uint8_t is_far;      /* bits */
    uint32_t windows, hits;
    uint32_t far_rows[MUSTER_FARS], hit_rows; /* of them: the one before was, too */
    uint8_t was_far;                          /* bits */
    bool was_hit;
    int64_t least_ns; /* from begin to end, of its shortest unit */
    /* How its host calls, where that is asked for: how long after its call before, where it had
     * waited for nothing of its GPU's (MUSTER_NO_OWN: seldom seen); whether that is no pace of the
     * GPU's; whether it is to the call before that its calls are tied. */
    int64_t host_ns;
    bool paced, runs;
    bool culprit;
    bool stage; /* no other rank ever does the same: compared with other stages, and its own past */
    bool past;  /* of these the past tells more */
    bool hidden; /* a culprit's, that is late there also where nobody was seen beside it */
    double log_e;
    double excess_ns;                   /* sum of what was beyond the usual time */
    struct muster_window slice, window; /* that are open */
    /* Learning: of each edge the last own time, and the sum of its changes. */
    int64_t own[MUSTER_EDGES];
    double change[MUSTER_EDGES];
    uint32_t changes[MUSTER_EDGES];
};

/* What bets came to, of some seats. */
struct muster_tally {
    double windows, hits, slices, far[MUSTER_FARS];
};

struct muster_position {
    uint64_t label;
    uint32_t turns;
    uint32_t unit;                /* one of it */
    uint32_t at_once, host_known; /* units whose GPU waited for the call */
    uint8_t edge;
    bool host_runs;            /* where GPUs waited for the call, hosts had not waited for them */
    struct muster_tally tally; /* of its seats that are no culprits */
    int64_t ready_ns;          /* mean own time where that is seen, from begin to begin */
};

/* Units that were over when something was that nobody timed; MUSTER_NO_UNIT: none is known. */
struct muster_unit_untimed {
    uint32_t before;      /* what the unit's GPU called just before it, where that was not timed */
    uint32_t sender;      /* what the sender called before its send, where that was not timed */
    uint32_t transfer_ns; /* with a sender: of the shortest receive from it */
};

struct muster_graph {
    const struct muster_view *view;
    struct muster_arena *memory;
    struct muster_arena *making; /* what is gone once the graph is made: label, of_op,
                                    called_after, waited_ns, ranks */
    struct muster_unit *unit;
    struct muster_turn *turn;
    struct muster_unit_group *group;
    uint32_t
        *first_unit; /* of each GPU, and behind the last: its units, in the order of its calls */
    uint64_t *label; /* what units are told apart by, as long as they have no seats */
    uint32_t *of_op; /* of each operation of the view its unit */
    /* Of each operation of the view the one that its GPU called before it, or before its group;
     * MUSTER_NO_UNIT: not known. NULL where nobody sends, or all was timed. */
    uint32_t *called_after;
    struct muster_unit_untimed *untimed; /* of each unit; NULL where called_after is */
    /* Of unit u those at [first_partner[u]] to [u + 1], each with the bit that says that it is who
     * receives; NULL without sends. */
    uint32_t *first_partner, *partner;
    int64_t *longest_ns; /* of each turn: of the unit that waited longest; NULL without sends */
    uint32_t *of_turn;   /* units, turn by turn */
    uint32_t *order;     /* turns: each after all that it follows */
    bool in_order;       /* so stand all units of each seat already */
    bool any_sends;      /* some operation is a send or a receive */
    bool any_apart;      /* some turn is not over for all its units with the last */
    struct muster_seat *seat;
    struct muster_position *position;
    uint64_t *role;  /* of each communicator */
    uint64_t *ranks; /* of each communicator: those of the same ranks have the same; 0: not all of
                        them are seen */
    /* Of each GPU: those with the same number make the same calls, step for step. */
    uint32_t *program;
    uint32_t *host; /* of each GPU: muster_view_hosts */
    bool *stages;   /* of each communicator: its ranks have more than one program */
    /* Of each GPU for which share of its time it worked by itself, or MUSTER_NOT_ALL_TIMED. NULL
     * where no stage is like no other. */
    double *worked;
    bool *timed; /* of each member: it has units */
    /* While usual times are learned, of each unit: how long those before it waited for others, in
     * all. NULL where no edge asks. */
    int64_t *waited_ns;
    /* Of each unit, where ranks compute while their communicator works: how much later it came than
     * its GPU was known to be behind the others with the unit before. Shortened; 0: not known, or
     * the others were not ready before it. NULL where nobody computes meanwhile. */
    int32_t *behind;
    /* Of each unit, shortened; pages that nobody wrote take no memory. */
    int32_t *more_waited, *more_host;
    struct muster_long_ns long_ns;
    size_t units, groups, labels, turns, ordered, seats, positions;
};

/* The later and the sooner, of times or of spans. */
static inline int64_t muster_ns_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t muster_ns_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whoever is late has one other rank alone to be held against. */
static inline bool muster_view_is_pair(const struct muster_view *view)
{
    return view->gpus <= 2;
}

/* The graph of a view and what it tells, of an arena that outlives it. */
void muster_graph_make(struct muster_graph *graph, const struct muster_view *view,
                       struct muster_arena *memory);

/* Its steps, in this order, each after those before: units with their positions and edges, turns,
 * what was not timed, their order, seats; which edge holds at each position, own times, and how
 * long after what it follows a unit is ready; what is usual where, and by how much each unit is
 * beyond it, net of what it waited for others; how hosts call; stages that no other rank is like
 * against the other stages, and against what they need themselves at other times. */
void muster_graph_units(struct muster_graph *graph);
void muster_graph_turns(struct muster_graph *graph);
void muster_graph_untimed(struct muster_graph *graph);
void muster_graph_order(struct muster_graph *graph);
void muster_graph_seats(struct muster_graph *graph);
void muster_graph_edges(struct muster_graph *graph);
void muster_graph_leads(struct muster_graph *graph);
void muster_graph_usual(struct muster_graph *graph);
void muster_graph_calls(struct muster_graph *graph);
void muster_graph_stages(struct muster_graph *graph);
void muster_graph_past(struct muster_graph *graph);
void muster_graph_hidden(struct muster_graph *graph);

/* Adds to what each GPU's operations cover what lies before units whose own time is known though
 * something that was not timed lies there. */
void muster_graph_add_bridged(const struct muster_graph *graph, struct muster_view_span *span);

/* Whether any exchange is of ranks that do not all do the same. */
bool muster_graph_any_stages(const struct muster_graph *graph);

/* Sets role and ranks: units are told apart by them. */
void muster_graph_roles(struct muster_graph *graph);
/* Sets stages, once units and programs are known. */
void muster_graph_find_stages(struct muster_graph *graph);

/* Each send that was seen with its receive, as operations of the view. */
typedef void muster_graph_pair(void *arg, const struct muster_graph *graph, uint32_t send,
                               uint32_t recv);
void muster_graph_each_pair(const struct muster_graph *graph, muster_graph_pair *pair, void *arg);

/* How long another one of its turn waited for the unit, at most; INT64_MAX: not known. */
int64_t muster_unit_held_ns(const struct muster_graph *graph, uint32_t u);

/* host_ns as muster_unit_host_ns gives it. */
void muster_unit_set_excess(struct muster_graph *graph, struct muster_unit *unit, int64_t excess_ns,
                            int64_t host_ns);

/* Begin and end of its own, for whom those of its operation are not right. NULL: no memory. */
struct muster_unit_group *muster_unit_own_group(struct muster_graph *graph,
                                                struct muster_unit *unit);

/* Whether all its units are over with the last of them. */
static inline bool muster_turn_is_together(const struct muster_turn *turn)
{
    return turn->kind == MUSTER_TURN_ALL;
}

/* Whether all that a turn's ranks may have waited for were seen. */
static inline bool muster_turn_is_whole(const struct muster_graph *graph,
                                        const struct muster_turn *turn)
{
    return turn->kind == MUSTER_TURN_PARTNERS || (turn->p2p && turn->units > 1) ||
           (!turn->p2p && turn->units == graph->view->comm[turn->comm].nranks);
}

/* For who looks at a turn's units one after the other: ranks' units lie far apart, each in a page
 * of its own. What this one's GPU did next is asked for now, and is there when all ranks had their
 * turn. */
static inline void muster_unit_ask_next(const struct muster_graph *graph,
                                        const struct muster_unit *unit)
{
    __builtin_prefetch(unit + 3);
    __builtin_prefetch(&graph->view->op[unit->op] + 2);
}

/* For what is told of each seat by itself: all units, those of a seat in the order of their turns.
 * To begin with: zero. GPU by GPU where that is the same, as what lies together is read faster. */
struct muster_walk {
    size_t turn;
    uint32_t at;
};

/* MUSTER_NO_UNIT: that was all. */
static inline uint32_t muster_walk_next(const struct muster_graph *graph, struct muster_walk *walk)
{
    if (graph->in_order)
        return walk->at < graph->units ? walk->at++ : MUSTER_NO_UNIT;
    for (; walk->turn < graph->ordered; walk->turn++, walk->at = 0) {
        const struct muster_turn *turn = &graph->turn[graph->order[walk->turn]];
        if (walk->at < turn->units) {
            uint32_t u = graph->of_turn[turn->first + walk->at++];
            muster_unit_ask_next(graph, &graph->unit[u]);
            return u;
        }
    }
    return MUSTER_NO_UNIT;
}

/* Whether its GPUs are of more than one host. */
static inline bool muster_graph_spans_hosts(const struct muster_graph *graph)
{
    for (size_t g = 1; g < graph->view->gpus; g++)
        if (graph->host[g] != graph->host[0])
            return true;
    return false;
}

/* Most of the units that tell an edge waited for their hosts. */
static inline bool muster_position_waits_for_host(const struct muster_position *position)
{
    return position->at_once >= MUSTER_AT_ONCE * position->host_known && position->host_known;
}

/* ---- of one unit ---- */

static inline uint32_t muster_partner(const struct muster_graph *graph, uint32_t i)
{
    return graph->partner[i] & ~MUSTER_RECEIVES;
}

/* Whether the partner receives from the unit; else it sends to it. */
static inline bool muster_partner_receives(const struct muster_graph *graph, uint32_t i)
{
    return graph->partner[i] & MUSTER_RECEIVES;
}

/* For who looks at turns in an order that is no order in memory: the last of those ahead, where the
 * units of the middle one stand, and these of the first. */
static inline void muster_turns_ask(const struct muster_graph *graph, const uint32_t ahead[3])
{
    const struct muster_turn *soon = &graph->turn[ahead[0]];
    __builtin_prefetch(&graph->turn[ahead[2]]);
    __builtin_prefetch(&graph->of_turn[graph->turn[ahead[1]].first]);
    for (uint32_t i = 0; i < soon->units; i++)
        __builtin_prefetch(&graph->unit[graph->of_turn[soon->first + i]]);
}

/* Without groups the bit, which shares a byte with others, is not read: threads that each set the
 * others of their own units may read any unit's times. */
static inline bool muster_unit_is_group(const struct muster_graph *graph,
                                        const struct muster_unit *unit)
{
    return graph->groups && unit->group;
}

static inline uint32_t muster_unit_op(const struct muster_graph *graph,
                                      const struct muster_unit *unit)
{
    return muster_unit_is_group(graph, unit) ? graph->group[unit->op].op : unit->op;
}

static inline const struct muster_view_op *muster_op_of(const struct muster_graph *graph,
                                                        const struct muster_unit *unit)
{
    return &graph->view->op[muster_unit_op(graph, unit)];
}

static inline uint64_t muster_unit_begin_ns(const struct muster_graph *graph,
                                            const struct muster_unit *unit)
{
    return muster_unit_is_group(graph, unit) ? graph->group[unit->op].begin_ns
                                             : graph->view->op[unit->op].begin_ns;
}

static inline uint64_t muster_unit_end_ns(const struct muster_graph *graph,
                                          const struct muster_unit *unit)
{
    return muster_unit_is_group(graph, unit) ? graph->group[unit->op].end_ns
                                             : graph->view->op[unit->op].end_ns;
}

static inline int64_t muster_unit_length_ns(const struct muster_graph *graph,
                                            const struct muster_unit *unit)
{
    return (int64_t)(muster_unit_end_ns(graph, unit) - muster_unit_begin_ns(graph, unit));
}

static inline uint64_t muster_unit_call_ns(const struct muster_graph *graph,
                                           const struct muster_unit *unit)
{
    return graph->view->op[muster_unit_op(graph, unit)].enqueue_ns;
}

/* In MUSTER_QUEUED_NS; MUSTER_QUEUED_UNKNOWN. */
static inline uint16_t muster_unit_queued(const struct muster_graph *graph,
                                          const struct muster_unit *unit)
{
    return graph->view->op[muster_unit_op(graph, unit)].queued;
}

/* Of one that is known. */
static inline int64_t muster_unit_queued_ns(const struct muster_graph *graph,
                                            const struct muster_unit *unit)
{
    return (int64_t)(muster_unit_queued(graph, unit) * MUSTER_QUEUED_NS);
}

static inline uint32_t muster_unit_member(const struct muster_graph *graph,
                                          const struct muster_unit *unit)
{
    return graph->view->op[muster_unit_op(graph, unit)].member;
}

/* Until it has a seat. */
static inline uint32_t muster_unit_gpu_unseated(const struct muster_unit *unit)
{
    return (uint32_t)unit->excess_ns;
}

/* That of its last unit. */
static inline const struct muster_turn *muster_seat_turn(const struct muster_graph *graph,
                                                         const struct muster_seat *seat)
{
    return &graph->turn[graph->unit[seat->last_unit].turn];
}

static inline uint32_t muster_unit_gpu(const struct muster_graph *graph,
                                       const struct muster_unit *unit)
{
    return graph->seat[unit->seat].gpu;
}

/* MUSTER_NO_OWN: not known. */
static inline int64_t muster_unit_own_ns(const struct muster_graph *graph,
                                         const struct muster_unit *unit)
{
    return muster_ns_of_short(&graph->long_ns, unit->own_ns);
}

/* Own time beyond the usual one of this turn, and beyond what it waited meanwhile; 0 where it is
 * not known. */
static inline int64_t muster_unit_excess_ns(const struct muster_graph *graph,
                                            const struct muster_unit *unit)
{
    return muster_ns_of_short(&graph->long_ns, unit->excess_ns);
}

/* Of its own time, beyond what is usual: it waited for others meanwhile. */
static inline int64_t muster_unit_waited_ns(const struct muster_graph *graph,
                                            const struct muster_unit *unit)
{
    return muster_ns_of_short(&graph->long_ns, graph->more_waited[unit - graph->unit]);
}

/* How much of its own time had passed when its host called, beyond what is usual in this turn; of a
 * stage in all. Kept of units whose excess is MUSTER_GAP_NS at least; MUSTER_NO_OWN: not known. */
static inline int64_t muster_unit_host_ns(const struct muster_graph *graph,
                                          const struct muster_unit *unit)
{
    return muster_ns_of_short(&graph->long_ns,
                              graph->more_host[unit - graph->unit] ^ MUSTER_NO_SHORT);
}

/* What ended last on its GPU; MUSTER_NO_UNIT: none. */
static inline uint32_t muster_unit_last(const struct muster_graph *graph,
                                        const struct muster_unit *unit)
{
    return unit->last ? (uint32_t)(unit - graph->unit - unit->last) : MUSTER_NO_UNIT;
}

/* Whether it is known how long its call had been queued when it began. */
static inline bool muster_unit_knows_queued(const struct muster_graph *graph,
                                            const struct muster_unit *unit)
{
    return graph->view->gpu[muster_unit_gpu(graph, unit)].host_times &&
           muster_unit_queued(graph, unit) != MUSTER_QUEUED_UNKNOWN;
}

/* By so much stages that no other rank is like may differ by design. */
static inline double muster_stages_differ(const struct muster_view_comm *comm)
{
    return comm->members == 2 ? MUSTER_STAGES_OF_TWO : MUSTER_STAGES;
}

/* "rank 1 takes ..." */
static inline const char *muster_stages_differ_words(const struct muster_view_comm *comm)
{
    return comm->members == 2 ? "three times as long by itself as the other stage"
                              : "half as long again by itself as the other stages";
}

/* Whether its GPU began as soon as it was called: it waited for its host. */
static inline bool muster_unit_waited_for_call(const struct muster_graph *graph,
                                               const struct muster_unit *unit)
{
    return muster_unit_knows_queued(graph, unit) &&
           muster_unit_queued(graph, unit) <= MUSTER_QUEUED_AT_ONCE;
}

/* The unit that an edge comes from; MUSTER_NO_UNIT: none. Units of a GPU stand in the order of its
 * calls. */
static inline uint32_t muster_unit_before(const struct muster_graph *graph,
                                          const struct muster_unit *unit, unsigned edge)
{
    if (edge == MUSTER_EDGE_LAST)
        return muster_unit_last(graph, unit);
    if (edge == MUSTER_EDGE_CALL) {
        bool known = unit->known >> MUSTER_EDGE_CALL & 1;
        return known ? (uint32_t)(unit - graph->unit) - 1 : MUSTER_NO_UNIT;
    }
    uint32_t before = unit->own;
    for (unsigned back = (edge - MUSTER_EDGE_OWN) % MUSTER_BACK;
         back > 0 && before != MUSTER_NO_UNIT; back--) {
        before = graph->unit[before].own;
    }
    return before;
}

static inline bool muster_edge_begins(unsigned edge)
{
    return edge >= MUSTER_EDGE_BEGIN && edge <= MUSTER_EDGE_BEGIN_3;
}

static inline bool muster_unit_knows(const struct muster_graph *graph,
                                     const struct muster_unit *unit, unsigned edge)
{
    bool known = unit->known >> edge & 1;
    if (edge == MUSTER_EDGE_LAST)
        return known && unit->last;
    return known && muster_unit_before(graph, unit, edge) != MUSTER_NO_UNIT;
}

/* Begin less what the edge begins with, on that edge's clock; of an edge that comes from a unit. */
static inline int64_t muster_unit_own(const struct muster_graph *graph,
                                      const struct muster_unit *unit, unsigned edge)
{
    const struct muster_unit *before = edge == MUSTER_EDGE_LAST
                                           ? unit - unit->last
                                           : &graph->unit[muster_unit_before(graph, unit, edge)];
    if (edge == MUSTER_EDGE_CALL)
        return (int64_t)(muster_unit_call_ns(graph, unit) - muster_unit_call_ns(graph, before));
    uint64_t from = muster_edge_begins(edge) ? muster_unit_begin_ns(graph, before)
                                             : muster_unit_end_ns(graph, before);
    return (int64_t)(muster_unit_begin_ns(graph, unit) - from);
}

/* How much of its own time had passed when its host called. What was called before stood in the
 * queue when that time began: none of what it took is the host's. MUSTER_NO_OWN: not known. */
static inline int64_t muster_unit_host(const struct muster_graph *graph,
                                       const struct muster_unit *unit)
{
    int64_t own_ns = muster_unit_own_ns(graph, unit);
    if (!muster_unit_knows_queued(graph, unit) || own_ns == MUSTER_NO_OWN)
        return MUSTER_NO_OWN;
    int64_t queued_ns = unit->edge == MUSTER_EDGE_CALL ? 0 : muster_unit_queued_ns(graph, unit);
    return own_ns > queued_ns ? own_ns - queued_ns : 0;
}

#endif
