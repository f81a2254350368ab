/* From the operations of each GPU to units: positions in the order of the calls, edges in the order
 * of the begins. */
#include <string.h>

#include "base/sort.h"
#include "diagnose/straggler/job_positions.h"
#include "run/beside_work.h"
#include "view/call_order.h"

enum {
    GROUP_NS = 50000,      /* calls of one group follow each other within this, or less */
    GAPS = 64,             /* parts of it that are told apart */
    GAPS_ENOUGH = 4096,    /* tell which are of one group */
    LAUNCH_NS = 3000,      /* a launch takes the host longer, a call of a group less */
    SLACK_NS = 2000,       /* what ended so much after a begin has ended before it */
    HALVES_MOST = 1 << 17, /* operations of a GPU: its scratch is made twice */
};

/* Stamps from outside: what is beyond is no time. So sums of a few never overflow. */
#define LATEST_NS  (1ull << 62) /* GPUs count from 1970 */
#define LONGEST_NS (86400 * 1000000000ull)

/* The last units of a member by begin, the newest first. */
struct recent {
    uint32_t unit[2]; /* MUSTER_NO_UNIT: none */
    uint64_t end_ns[2];
};

/* What ended on a GPU. */
struct ended {
    uint64_t latest_ns; /* of all its units */
    uint32_t newest;    /* its newest unit, where that ended after all others; MUSTER_NO_UNIT */
};

struct builder {
    struct muster_graph *graph;
    struct muster_arena memory;
    struct muster_keyed *keyed, *spare; /* of the busiest GPU */
    struct recent *recent;              /* of each member of the view */
    struct ended ended;                 /* of the GPU at hand */
    uint32_t *unseen;  /* of each member: calls of its GPU up to its last unit, see below */
    uint64_t group_ns; /* calls of one group follow each other within this */
    struct muster_positions *positions;
};

static bool timed(const struct muster_view_op *op)
{
    return muster_source_is_gpu(op->source) && op->end_ns > op->begin_ns &&
           op->end_ns < LATEST_NS && op->end_ns - op->begin_ns < LONGEST_NS;
}

/* Whether an operation was on the GPU together with what lasted from begin to end. Stamps are exact
 * to less than the slack: what follows at once is no part of it. */
static bool ran_together(const struct muster_view_op *op, uint64_t begin_ns, uint64_t end_ns)
{
    return op->begin_ns == begin_ns ||
           (op->begin_ns + SLACK_NS < end_ns && op->end_ns > begin_ns + SLACK_NS);
}

/* Where the gap between two calls tells best whether they are of one group, by those that were
 * timed: in the middle of the cuts that are wrong least often. */
static uint64_t best_cut(const uint32_t *together, const uint32_t *apart)
{
    int64_t wrong = 0, least = 0;
    size_t low = 0, high = 0;
    bool any = false;
    for (size_t i = 0; i < GAPS; i++) {
        any |= apart[i] > 0;
        wrong += (int64_t)apart[i] - together[i];
        low = wrong < least ? i + 1 : low;
        high = wrong <= least ? i + 1 : high;
        least = wrong < least ? wrong : least;
    }
    return any ? GROUP_NS * (low + high) / (2ull * GAPS) : GROUP_NS;
}

/* Whether the operation belongs to the group of `first` and `last`. Of groups that were not timed
 * the next begins, at the latest, where the same is called again and a launch lies between. */
static bool same_group(const struct builder *builder, uint32_t u,
                       const struct muster_view_op *first, const struct muster_view_op *last,
                       const struct muster_view_op *op)
{
    const struct muster_graph *graph = builder->graph;
    if (!last || last->member != op->member || !muster_func_is_p2p(last->func) ||
        !muster_func_is_p2p(op->func)) {
        return false;
    }
    if (u != MUSTER_NO_UNIT && timed(op)) {
        const struct muster_unit *unit = &graph->unit[u];
        return ran_together(op, muster_unit_begin_ns(graph, unit), muster_unit_end_ns(graph, unit));
    }
    uint64_t gap_ns = op->enqueue_ns - last->enqueue_ns;
    bool again = op->func == first->func && op->peer == first->peer;
    return gap_ns < (again ? LAUNCH_NS : builder->group_ns) && !timed(op);
}

static uint32_t new_unit(struct builder *builder, uint32_t o)
{
    struct muster_graph *graph = builder->graph;
    const struct muster_view_op *op = &graph->view->op[o];
    const struct muster_view_member *member = &graph->view->member[op->member];
    const struct muster_view_comm *comm = &graph->view->comm[member->comm];
    struct muster_unit *unit = &graph->unit[graph->units];
    *unit = (struct muster_unit){
        .op = o,
        .turn = MUSTER_NO_UNIT,
        .seat = MUSTER_NO_UNIT,
        .own = MUSTER_NO_UNIT,
        .own_ns = MUSTER_NO_SHORT,
        .excess_ns = (int32_t)member->gpu,
        .scored = muster_view_scored(op) && !comm->duplicate_rank,
    };
    graph->timed[op->member] = true;
    return (uint32_t)graph->units++;
}

/* What was called on a GPU since its last timed operation. */
struct between {
    uint64_t ranks; /* of the collectives that were not timed; 0: there were none */
    bool torn;      /* something else, or nobody knows */
};

static uint64_t ranks_of(const struct muster_graph *graph, const struct muster_view_op *op)
{
    return graph->ranks[graph->view->member[op->member].comm];
}

static void note_between(struct between *between, const struct muster_graph *graph,
                         const struct muster_view_op *op)
{
    uint64_t ranks = ranks_of(graph, op);
    bool together = !muster_func_is_p2p(op->func) && !muster_func_is_rooted(op->func);
    bool other = between->ranks && between->ranks != ranks;
    between->torn |= !ranks || !together || other || (op->flags & MUSTER_OP_GRAPH);
    between->ranks = ranks;
}

/* Collectives of another communicator of the same ranks let all of them go on together: who comes
 * later now was not kept there. So what it took since the operation before is its own. */
static bool is_bridged(const struct between *between, const struct muster_graph *graph,
                       const struct muster_view_op *op)
{
    return between->ranks && !between->torn && between->ranks == ranks_of(graph, op) &&
           muster_view_follows_timed(graph->view, op);
}

/* Calls of a GPU that were not timed or are missing, and 1: up to now, and up to its last unit. */
struct unseen {
    uint32_t calls, at_last;
};

/* In another communicator it may have waited for others: what it took since its own last operation
 * is known only where all between was timed, or bridged. */
static void set_known(struct builder *builder, const struct between *between, struct unseen *unseen,
                      const struct muster_view_op *op, struct muster_unit *unit)
{
    bool bridged = is_bridged(between, builder->graph, op);
    uint32_t *own = &builder->unseen[op->member];
    if (op->self_known || bridged)
        unit->known |= 1u << MUSTER_EDGE_LAST;
    if (*own == (bridged ? unseen->at_last : unseen->calls))
        unit->known |= 1u << MUSTER_EDGE_OWN | 1u << MUSTER_EDGE_BEGIN;
    *own = unseen->at_last = unseen->calls;
}

struct muster_unit_group *muster_unit_own_group(struct muster_graph *graph,
                                                struct muster_unit *unit)
{
    if (!unit->group) {
        struct muster_unit_group *own =
            muster_arena_add(graph->memory, &graph->group, &graph->groups, sizeof *own);
        *own = (struct muster_unit_group){muster_unit_begin_ns(graph, unit),
                                          muster_unit_end_ns(graph, unit), unit->op};
        if (graph->memory->failed)
            return NULL;
        unit->op = (uint32_t)graph->groups - 1;
        unit->group = true;
    }
    return &graph->group[unit->op];
}

static void extend(struct muster_graph *graph, struct muster_unit *unit,
                   const struct muster_view_op *op)
{
    struct muster_unit_group *group = muster_unit_own_group(graph, unit);
    if (!group)
        return;
    group->begin_ns = op->begin_ns < group->begin_ns ? op->begin_ns : group->begin_ns;
    group->end_ns = op->end_ns > group->end_ns ? op->end_ns : group->end_ns;
    unit->scored &= muster_view_scored(op);
}

/* Operations that a GPU called: the last one, and the one before its group. */
struct called {
    uint32_t last, before;
};

/* Of a group it is a receive that was waited for, as sends are over once they have left. */
static void note_call(struct muster_graph *graph, struct called *called, uint32_t o, bool same,
                      bool missing)
{
    if (!same)
        called->before = missing ? MUSTER_NO_UNIT : called->last;
    if (!same || graph->view->op[o].func == MUSTER_FUNC_RECV)
        called->last = o;
    graph->called_after[o] = called->before;
}

/* The operations of a GPU by call: keyed, or, where none is missing between them, as they are. */
struct by_call {
    const uint32_t *order; /* NULL: keyed */
    bool begins;           /* so units begin, too: each is one of them */
    const struct muster_keyed *keyed;
    size_t n;
};

static inline uint32_t called_at(const struct by_call *calls, size_t i)
{
    return calls->order ? calls->order[i] : calls->keyed[i].value;
}

/* Which of the member's last units had ended then; 2: neither. */
static unsigned ended_before(const struct recent *recent, uint64_t begin_ns)
{
    unsigned i = 0;
    while (i < 2 && (recent->unit[i] == MUSTER_NO_UNIT || recent->end_ns[i] > begin_ns + SLACK_NS))
        i++;
    return i;
}

/* What ended last on the GPU by then; MUSTER_NO_UNIT: nothing. */
static uint32_t last_ended(const struct builder *builder, const uint32_t *members, size_t n,
                           uint64_t begin_ns)
{
    const struct ended *ended = &builder->ended;
    uint32_t last = MUSTER_NO_UNIT;
    uint64_t last_ns = 0;
    if (ended->newest != MUSTER_NO_UNIT && ended->latest_ns <= begin_ns + SLACK_NS)
        return ended->newest;
    for (size_t m = 0; m < n; m++) {
        const struct recent *recent = &builder->recent[members[m]];
        unsigned i = ended_before(recent, begin_ns);
        if (i < 2 && recent->end_ns[i] > last_ns) {
            last = recent->unit[i];
            last_ns = recent->end_ns[i];
        }
    }
    return last;
}

static void set_last(struct muster_unit *unit, uint32_t u, uint32_t last)
{
    /* What was called so far from it is as good as unknown. */
    int64_t back = last != MUSTER_NO_UNIT ? (int64_t)u - (int64_t)last : 0;
    unit->last = (int16_t)(back >= -INT16_MAX && back <= INT16_MAX ? back : 0);
}

static void note_end(struct ended *ended, uint32_t u, uint64_t end_ns)
{
    bool after_all = end_ns > ended->latest_ns;
    ended->newest = after_all ? u : MUSTER_NO_UNIT;
    ended->latest_ns = after_all ? end_ns : ended->latest_ns;
}

static inline void set_edges(struct builder *builder, const uint32_t *members, size_t n, uint32_t u)
{
    struct muster_graph *graph = builder->graph;
    struct muster_unit *unit = &graph->unit[u];
    struct recent *recent = &builder->recent[muster_unit_member(graph, unit)];
    uint64_t end_ns = muster_unit_end_ns(graph, unit);
    set_last(unit, u, last_ended(builder, members, n, muster_unit_begin_ns(graph, unit)));
    unit->own = recent->unit[0];
    if (unit->own != MUSTER_NO_UNIT) {
        const struct muster_unit *before = &graph->unit[unit->own];
        bool unbroken = unit->known >> MUSTER_EDGE_OWN & 1;
        /* Further back as far as the unit before knows. */
        uint8_t back =
            (unsigned)before->known << 1 & (1u << MUSTER_EDGE_OWN_2 | 1u << MUSTER_EDGE_OWN_3 |
                                            1u << MUSTER_EDGE_BEGIN_2 | 1u << MUSTER_EDGE_BEGIN_3);
        unit->known |= unbroken ? back : 0;
    }
    *recent = (struct recent){{u, recent->unit[0]}, {end_ns, recent->end_ns[0]}};
    note_end(&builder->ended, u, end_ns);
}

/* The calls of one GPU in their order, and a unit of each that was timed, with its edges where
 * units begin in that order. */
static void walk_calls(struct builder *builder, const struct by_call *by_call,
                       const uint32_t *members, size_t n)
{
    struct muster_graph *graph = builder->graph;
    uint32_t *of_op = graph->of_op;
    const struct muster_view_op *first = NULL, *before = NULL;
    uint32_t unit = MUSTER_NO_UNIT;
    struct muster_call_holes holes = {.fewest_sends = MUSTER_LAST_CALLS};
    struct between between = {.torn = true};
    struct unseen unseen = {.calls = 1};
    struct called calls = {MUSTER_NO_UNIT, MUSTER_NO_UNIT};
    bool missing = false;
    muster_positions_next_gpu(builder->positions);
    for (size_t i = 0; i < by_call->n; i++) {
        uint32_t o = called_at(by_call, i);
        const struct muster_view_op *op = &graph->view->op[o];
        missing |= !by_call->order && muster_calls_missing(&holes, &by_call->keyed[i]);
        between.torn |= missing;
        unseen.calls += missing;
        if (graph->any_sends && muster_view_to_itself(graph->view, op))
            continue;
        bool same = graph->any_sends && same_group(builder, unit, first, before, op);
        if (graph->called_after)
            note_call(graph, &calls, o, same, missing);
        if (same) {
            if (unit != MUSTER_NO_UNIT && timed(op)) {
                extend(graph, &graph->unit[unit], op);
                of_op[o] = unit;
            }
            before = op;
            continue;
        }
        uint32_t made = timed(op) ? new_unit(builder, o) : MUSTER_NO_UNIT;
        if (made != MUSTER_NO_UNIT) {
            struct muster_unit *own = &graph->unit[made];
            bool called = unit != MUSTER_NO_UNIT && !(op->flags & MUSTER_OP_GRAPH);
            own->known |= called ? 1u << MUSTER_EDGE_CALL : 0;
            set_known(builder, &between, &unseen, op, own);
            of_op[o] = made;
            between = (struct between){0};
            if (by_call->begins)
                set_edges(builder, members, n, made);
        } else {
            unseen.calls++;
            note_between(&between, graph, op);
        }
        muster_positions_add(builder->positions, op, made, missing);
        missing = false;
        unit = made;
        first = before = op;
    }
}

/* The operations of a GPU's members. */
static struct by_call calls_of(struct builder *builder, const uint32_t *members, size_t n)
{
    const struct muster_view *view = builder->graph->view;
    const struct muster_view_gpu *gpu = n ? &view->gpu[view->member[members[0]].gpu] : NULL;
    struct by_call calls = {.keyed = builder->keyed};
    if (gpu && gpu->in_step) {
        calls.order = gpu->order;
        calls.begins = !builder->graph->any_sends;
        calls.n = gpu->ordered;
    } else {
        calls.n = muster_calls_collect(view, members, n, builder->keyed);
        calls.keyed = muster_sort_keyed(builder->keyed, builder->spare, calls.n);
    }
    return calls;
}

/* Of a GPU whose units begin as the operations that they are made of. */
static void edges_in_order(struct builder *builder, const uint32_t *members, size_t n)
{
    const struct muster_graph *graph = builder->graph;
    const struct muster_view_gpu *gpu = &graph->view->gpu[graph->view->member[members[0]].gpu];
    for (uint32_t i = 0; i < gpu->ordered; i++) {
        uint32_t u = graph->of_op[gpu->order[i]];
        if (u != MUSTER_NO_UNIT)
            set_edges(builder, members, n, u);
    }
}

static void edges_by_begin(struct builder *builder, const uint32_t *members, size_t n, size_t first)
{
    const struct muster_graph *graph = builder->graph;
    size_t units = graph->units - first;
    for (size_t u = 0; u < units; u++) {
        builder->keyed[u] = (struct muster_keyed){
            muster_unit_begin_ns(graph, &graph->unit[first + u]), (uint32_t)(first + u), {0}};
    }
    const struct muster_keyed *by_begin = muster_sort_keyed(builder->keyed, builder->spare, units);
    for (size_t u = 0; u < units; u++)
        set_edges(builder, members, n, (uint32_t)by_begin[u].value);
}

static void one_gpu(struct builder *builder, const uint32_t *members, size_t n)
{
    struct muster_graph *graph = builder->graph;
    const struct muster_view *view = graph->view;
    size_t first = graph->units;
    for (size_t m = 0; m < n; m++)
        builder->recent[members[m]] = (struct recent){{MUSTER_NO_UNIT, MUSTER_NO_UNIT}, {0}};
    builder->ended = (struct ended){.newest = MUSTER_NO_UNIT};
    size_t groups = graph->groups;
    struct by_call by_call = calls_of(builder, members, n);
    walk_calls(builder, &by_call, members, n);
    bool ordered = n && view->gpu[view->member[members[0]].gpu].ordered >= graph->units - first;
    if (ordered && !by_call.begins && graph->groups == groups)
        edges_in_order(builder, members, n);
    else if (!by_call.begins)
        edges_by_begin(builder, members, n, first);
    if (n)
        muster_positions_set(builder->positions, view->member[members[0]].gpu);
}

static void make_builder(struct builder *builder, size_t most)
{
    size_t members = builder->graph->view->members;
    struct muster_arena *memory = &builder->memory;
    builder->keyed = muster_arena_array(memory, most + 1, sizeof *builder->keyed);
    builder->spare = muster_arena_array(memory, most + 1, sizeof *builder->spare);
    builder->recent = muster_arena_array(memory, members + 1, sizeof *builder->recent);
    builder->unseen = muster_arena_array(memory, members + 1, sizeof *builder->unseen);
    builder->positions = muster_arena_array(memory, 1, sizeof *builder->positions);
    if (builder->positions)
        muster_positions_begin(builder->positions, builder->graph, memory, most);
}

static size_t busiest(const struct muster_view *view, const uint32_t *members, const size_t *first)
{
    size_t most = 0;
    for (size_t g = 0; g < view->gpus; g++) {
        size_t ops = 0;
        for (size_t m = first[g]; m < first[g + 1]; m++)
            ops += view->member[members[m]].ops;
        most = ops > most ? ops : most;
    }
    return most;
}

static bool any_untimed(const struct muster_view *view)
{
    size_t o = 0;
    while (o < view->ops && timed(&view->op[o]))
        o++;
    return o < view->ops;
}

/* The graph's own arrays. */
static void make_arrays(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    graph->unit = muster_arena_array(graph->memory, view->ops + 1, sizeof *graph->unit);
    graph->role = muster_arena_array(graph->memory, view->comms + 1, sizeof *graph->role);
    graph->ranks = muster_arena_array(graph->making, view->comms + 1, sizeof *graph->ranks);
    graph->program = muster_arena_array(graph->memory, view->gpus + 1, sizeof *graph->program);
    graph->host = muster_view_hosts(view, graph->memory);
    graph->stages = muster_arena_array(graph->memory, view->comms + 1, sizeof *graph->stages);
    graph->timed = muster_arena_array(graph->memory, view->members + 1, sizeof *graph->timed);
    graph->first_unit =
        muster_arena_array(graph->memory, view->gpus + 1, sizeof *graph->first_unit);
    graph->of_op = muster_arena_array(graph->making, view->ops + 1, sizeof *graph->of_op);
    for (size_t i = 0; i < view->classes && !graph->any_sends; i++)
        graph->any_sends = muster_func_is_p2p(view->class[i].func);
    if (graph->any_sends && any_untimed(view)) {
        graph->called_after =
            muster_arena_array(graph->making, view->ops + 1, sizeof *graph->called_after);
    }
}

static bool is_failed(const struct builder *builder)
{
    return builder->memory.failed || builder->graph->memory->failed ||
           builder->graph->making->failed;
}

/* Gaps between calls of sends and receives, by their length. */
struct gaps {
    uint32_t together[GAPS], apart[GAPS]; /* of one group, or not, as was timed */
    size_t n;
};

static void note_gaps(const struct muster_view *view, const struct by_call *calls,
                      struct gaps *gaps)
{
    const struct muster_view_op *last = NULL;
    for (size_t i = 0; i < calls->n; i++) {
        const struct muster_view_op *op = &view->op[called_at(calls, i)];
        if (muster_view_to_itself(view, op))
            continue;
        bool both = last && last->member == op->member && muster_func_is_p2p(last->func) &&
                    muster_func_is_p2p(op->func) && timed(last) && timed(op);
        uint64_t gap_ns = both ? op->enqueue_ns - last->enqueue_ns : GROUP_NS;
        if (gap_ns < GROUP_NS) {
            bool same = ran_together(op, last->begin_ns, last->end_ns);
            (same ? gaps->together : gaps->apart)[gap_ns * GAPS / GROUP_NS]++;
            gaps->n++;
        }
        last = op;
    }
}

/* What was not timed is taken apart as it is where it was timed, on whichever GPU. */
static uint64_t learn_group_ns(struct builder *builder, const uint32_t *members,
                               const size_t *first)
{
    const struct muster_view *view = builder->graph->view;
    struct gaps gaps = {.n = 0};
    bool any = builder->graph->any_sends;
    for (size_t g = 0; g < view->gpus && any && gaps.n < GAPS_ENOUGH; g++) {
        struct by_call calls = calls_of(builder, members + first[g], first[g + 1] - first[g]);
        note_gaps(view, &calls, &gaps);
    }
    return best_cut(gaps.together, gaps.apart);
}

/* The GPUs [from, end), members + first[g] being those of GPU g. */
struct some_gpus {
    struct builder *builder;
    const uint32_t *members;
    const size_t *first;
    size_t from, end;
};

static void walk_gpus(void *arg)
{
    const struct some_gpus *some = arg;
    struct muster_graph *graph = some->builder->graph;
    for (size_t g = some->from; g < some->end && !is_failed(some->builder); g++) {
        one_gpu(some->builder, some->members + some->first[g], some->first[g + 1] - some->first[g]);
        graph->first_unit[g + 1] = (uint32_t)graph->units;
    }
}

/* Without sends and receives each timed operation is a unit of its own. */
static size_t count_units(const struct muster_view *view, const struct some_gpus *some)
{
    size_t units = 0;
    for (size_t m = some->first[some->from]; m < some->first[some->end]; m++) {
        const struct muster_view_member *member = &view->member[some->members[m]];
        for (uint32_t o = member->first_op; o < member->first_op + member->ops; o++)
            units += timed(&view->op[o]);
    }
    return units;
}

/* The GPUs of the first half here, the others on a second processor, with a graph of their own that
 * shares the arrays: where their units begin is known. */
static void both_halves(const struct some_gpus *all, size_t most)
{
    struct muster_graph *graph = all->builder->graph;
    struct muster_arena memory = {0}, making = {0};
    struct muster_graph other = *graph;
    struct builder builder = {.graph = &other};
    struct some_gpus first_gpu = *all, half[2] = {*all, *all};
    struct muster_beside beside;
    half[0].end = half[1].from = all->end / 2;
    half[1].builder = &builder;
    size_t first = other.units = count_units(graph->view, &half[0]);
    first_gpu.end = half[0].from = 1;
    other.memory = &memory;
    other.making = &making;
    make_builder(&builder, most);
    walk_gpus(&first_gpu);
    if (builder.positions)
        muster_positions_keep_sketches(builder.positions, all->builder->positions);
    muster_beside_begin(&beside, walk_gpus, &half[1]);
    walk_gpus(&half[0]);
    muster_beside_end(&beside);
    graph->units = other.units;
    if (!is_failed(all->builder) && !is_failed(&builder))
        muster_positions_join(all->builder->positions, builder.positions, half[1].from, first);
    muster_arena_end(&builder.memory, graph->memory);
    muster_arena_end(&memory, graph->memory);
    muster_arena_end(&making, graph->making);
}

static void all_gpus(struct builder *builder, const uint32_t *members, const size_t *first,
                     size_t most)
{
    struct muster_graph *graph = builder->graph;
    const struct muster_view *view = graph->view;
    memset(graph->of_op, 0xff, view->ops * sizeof *graph->of_op);
    if (graph->called_after)
        memset(graph->called_after, 0xff, view->ops * sizeof *graph->called_after);
    muster_graph_roles(graph);
    builder->group_ns = learn_group_ns(builder, members, first);
    struct some_gpus all = {builder, members, first, 0, view->gpus};
    if (muster_beside_is_permitted() && view->gpus > 1 && most <= HALVES_MOST && !graph->any_sends)
        both_halves(&all, most);
    else
        walk_gpus(&all);
    if (!is_failed(builder))
        muster_graph_find_stages(graph);
}

void muster_graph_units(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    struct builder builder = {.graph = graph};
    uint32_t *members = muster_arena_array(&builder.memory, view->members + 1, sizeof *members);
    const size_t *first = muster_view_members_by_gpu(view, members, &builder.memory);
    make_arrays(graph);
    size_t most = is_failed(&builder) ? 0 : busiest(view, members, first);
    if (!is_failed(&builder))
        make_builder(&builder, most);
    if (!is_failed(&builder))
        all_gpus(&builder, members, first, most);
    muster_arena_end(&builder.memory, graph->memory);
}
