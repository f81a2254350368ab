/* From the operations of each GPU to units: positions in the order of the calls, edges in the order
 * of the begins. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sort.h"
#include "diagnose/straggler/job_graph.h"
#include "diagnose/straggler/places.h"

enum {
    LAST_CALLS = 4,      /* a position is told by so many calls */
    GROUP_NS = 50000,    /* calls of one group follow each other within this */
    LAUNCH_NS = 3000,    /* a launch takes the host longer, a call of a group less */
    SLACK_NS = 2000,     /* what ended so much after a begin has ended before it */
    MARK_LEAST = 8,      /* a step's mark was met so often, at least */
    MARK_SHARE = 50,     /* calls met as rarely as the mark: one in so many, at least */
    SKETCH = 64,         /* labels by which programs are compared */
};

/* Stamps from outside: what is beyond is no time. So sums of a few never overflow. */
#define LATEST_NS  (1ull << 62) /* GPUs count from 1970 */
#define LONGEST_NS (86400 * 1000000000ull)

#define ALIKE 0.9 /* of the labels: the same program */

#define PERIOD_BETTER 0.8 /* of the variance that a shorter period leaves */

/* One call of a GPU, in their order. */
struct call {
    uint64_t hash;  /* of the last calls */
    uint64_t label; /* with the calls since the mark */
    uint32_t unit;  /* MUSTER_NO_UNIT: not timed */
};

/* The lowest labels of what a GPU calls step for step. */
struct sketch {
    uint64_t label[SKETCH];
    size_t n;
};

struct builder {
    struct muster_graph *graph;
    struct muster_arena memory;
    struct muster_keyed *keyed, *spare; /* of the busiest GPU */
    struct call *call;
    size_t calls;
    uint32_t (*recent)[2]; /* of each member of the view: its last units */
    uint64_t *count;       /* of hashes, by place */
    uint64_t *hash;
    uint64_t *sorted; /* room for as many counts */
    size_t places;
    struct muster_places labels;
    struct sketch *sketch; /* of each program that was met */
    size_t programs;
};

static const struct muster_view_op *op_of(const struct muster_graph *graph,
                                          const struct muster_unit *unit)
{
    return &graph->view->op[muster_unit_op(graph, unit)];
}

static bool timed(const struct muster_view_op *op)
{
    return muster_source_is_gpu(op->source) && op->end_ns > op->begin_ns &&
           op->end_ns < LATEST_NS && op->end_ns - op->begin_ns < LONGEST_NS;
}

/* Whether the operation belongs to the group of `first` and `last`. Of groups that were not timed the
 * next begins, at the latest, where the same is called again and a launch lies between. */
static bool same_group(const struct muster_graph *graph, const struct muster_unit *unit,
                       const struct muster_view_op *first, const struct muster_view_op *last,
                       const struct muster_view_op *op)
{
    if (!last || last->member != op->member || !muster_func_is_p2p(last->func) ||
        !muster_func_is_p2p(op->func)) {
        return false;
    }
    if (unit && timed(op)) {
        uint64_t begin_ns = muster_unit_begin_ns(graph, unit);
        uint64_t end_ns = muster_unit_end_ns(graph, unit);
        /* Stamps are exact to less than the slack: what follows at once is no part of it. */
        return op->begin_ns == begin_ns ||
               (op->begin_ns + SLACK_NS < end_ns && op->end_ns > begin_ns + SLACK_NS);
    }
    uint64_t gap_ns = op->enqueue_ns - last->enqueue_ns;
    bool again = op->func == first->func && op->peer == first->peer;
    return gap_ns < (again ? LAUNCH_NS : GROUP_NS) && !timed(op);
}

static uint64_t signature(const struct muster_graph *graph, const struct muster_view_op *op)
{
    const struct muster_view_class *class = &graph->view->class[op->class];
    bool p2p = muster_func_is_p2p(op->func);
    uint64_t role = graph->role[graph->view->member[op->member].comm];
    return muster_hash_number(role, (uint64_t)op->func | (p2p ? 0 : (uint64_t) class->size_log2)
                                                             << 8 |
                                        (uint64_t)(op->flags & MUSTER_OP_GRAPH) << 16);
}

static uint64_t hash_calls(const uint64_t *last)
{
    uint64_t hash = MUSTER_HASH_SEED;
    for (unsigned i = 0; i < LAST_CALLS; i++) {
        hash = muster_hash_number(hash, last[i]);
    }
    return hash;
}

static uint32_t new_unit(struct builder *builder, uint32_t o)
{
    struct muster_graph *graph = builder->graph;
    const struct muster_view_op *op = &graph->view->op[o];
    const struct muster_view_comm *comm =
        &graph->view->comm[graph->view->member[op->member].comm];
    struct muster_unit *unit = &graph->unit[graph->units];
    *unit = (struct muster_unit){
        .op = o,
        .turn = MUSTER_NO_UNIT,
        .seat = MUSTER_NO_UNIT,
        .own = MUSTER_NO_UNIT,
        .own_ns = MUSTER_NO_SHORT,
        .scored = muster_view_scored(op) && !comm->duplicate_rank,
    };
    return (uint32_t)graph->units++;
}

static void note_known(struct muster_unit *unit, const struct muster_view_op *op)
{
    if (op->self_known) {
        unit->known |= 1u << MUSTER_EDGE_LAST | 1u << MUSTER_EDGE_OWN | 1u << MUSTER_EDGE_BEGIN;
    }
}

struct muster_unit_group *muster_unit_own_group(struct muster_graph *graph,
                                                struct muster_unit *unit)
{
    if (!unit->group) {
        struct muster_unit_group *own =
            muster_arena_add(graph->memory, &graph->group, &graph->groups, sizeof *own);
        *own = (struct muster_unit_group){muster_unit_begin_ns(graph, unit),
                                          muster_unit_end_ns(graph, unit), unit->op};
        if (graph->memory->failed) {
            return NULL;
        }
        unit->op = (uint32_t)graph->groups - 1;
        unit->group = true;
    }
    return &graph->group[unit->op];
}

static void extend(struct muster_graph *graph, struct muster_unit *unit,
                   const struct muster_view_op *op)
{
    struct muster_unit_group *group = muster_unit_own_group(graph, unit);
    if (!group) {
        return;
    }
    group->begin_ns = op->begin_ns < group->begin_ns ? op->begin_ns : group->begin_ns;
    group->end_ns = op->end_ns > group->end_ns ? op->end_ns : group->end_ns;
    unit->scored &= muster_view_scored(op);
    note_known(unit, op);
}

/* The calls of one GPU in their order, and a unit of each that was timed. */
static void walk_calls(struct builder *builder, const struct muster_keyed *keyed, size_t n)
{
    struct muster_graph *graph = builder->graph;
    uint32_t *of_op = graph->of_op;
    uint64_t last[LAST_CALLS] = {0};
    const struct muster_view_op *first = NULL, *before = NULL;
    uint32_t unit = MUSTER_NO_UNIT;
    builder->calls = 0;
    for (size_t i = 0; i < n; i++) {
        const struct muster_view_op *op = &graph->view->op[keyed[i].value];
        if (muster_view_to_itself(graph->view, op)) {
            continue;
        }
        struct muster_unit *group = unit == MUSTER_NO_UNIT ? NULL : &graph->unit[unit];
        if (same_group(graph, group, first, before, op)) {
            if (group && timed(op)) {
                extend(graph, group, op);
                of_op[keyed[i].value] = unit;
            }
            before = op;
            continue;
        }
        memmove(last, last + 1, sizeof last - sizeof *last);
        last[LAST_CALLS - 1] = signature(graph, op);
        uint32_t made = timed(op) ? new_unit(builder, (uint32_t)keyed[i].value) : MUSTER_NO_UNIT;
        if (made != MUSTER_NO_UNIT) {
            struct muster_unit *own = &graph->unit[made];
            own->known |= unit != MUSTER_NO_UNIT ? 1u << MUSTER_EDGE_CALL : 0;
            note_known(own, op);
            of_op[keyed[i].value] = made;
        }
        builder->call[builder->calls++] = (struct call){.hash = hash_calls(last), .unit = made};
        unit = made;
        first = before = op;
    }
}

/* Where a hash is counted. */
static size_t place_of(struct builder *builder, uint64_t hash)
{
    size_t at = hash & (builder->places - 1);
    while (builder->count[at] && builder->hash[at] != hash) {
        at = (at + 1) & (builder->places - 1);
    }
    return at;
}

static int by_number(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The hash that is met once a step: of the rarest that are no exceptions, the lowest. 0: none. */
static uint64_t find_mark(struct builder *builder)
{
    memset(builder->count, 0, builder->places * sizeof *builder->count);
    for (size_t i = 0; i < builder->calls; i++) {
        size_t at = place_of(builder, builder->call[i].hash);
        builder->hash[at] = builder->call[i].hash;
        builder->count[at]++;
    }
    size_t n = 0;
    uint64_t *count = builder->sorted;
    for (size_t i = 0; i < builder->places; i++) {
        if (builder->count[i] >= MARK_LEAST) {
            count[n++] = builder->count[i];
        }
    }
    uint64_t mark = 0, often = 0;
    if (n) {
        qsort(count, n, sizeof *count, by_number);
    }
    for (size_t i = 0; i < n && !often; i++) {
        uint64_t sum = 0;
        for (size_t k = i; k < n && 4 * count[k] <= 5 * count[i]; k++) {
            sum += count[k];
        }
        often = sum * MARK_SHARE >= builder->calls ? count[i] : 0;
    }
    for (size_t i = 0; i < builder->places && often; i++) {
        bool is = builder->count[i] >= often && 4 * builder->count[i] <= 5 * often;
        mark = is && (!mark || builder->hash[i] < mark) ? builder->hash[i] : mark;
    }
    return mark;
}

/* Without a mark, as where all calls of a step are alike, the step shows in the gaps: the period by
 * which they are told apart best. 0: none. */
static uint32_t find_period(const struct builder *builder)
{
    enum { MOST = 64, LOOKED_AT = 1024 };
    const struct muster_graph *graph = builder->graph;
    double gap[LOOKED_AT], best = 0;
    uint64_t number[LOOKED_AT];
    uint32_t period = 0, member = MUSTER_NO_UNIT;
    size_t n = 0;
    for (size_t i = 1; i < builder->calls && n < LOOKED_AT; i++) {
        uint32_t u = builder->call[i].unit, before = builder->call[i - 1].unit;
        if (u == MUSTER_NO_UNIT || before == MUSTER_NO_UNIT ||
            muster_func_is_p2p(op_of(graph, &graph->unit[u])->func)) {
            continue;
        }
        const struct muster_unit *own = &graph->unit[u], *last = &graph->unit[before];
        member = member == MUSTER_NO_UNIT ? op_of(graph, own)->member : member;
        if (op_of(graph, own)->member == member && op_of(graph, last)->member == member) {
            uint64_t ns = muster_unit_begin_ns(graph, own) - muster_unit_begin_ns(graph, last);
            gap[n] = log1p((double)ns / GROUP_NS);
            number[n++] = op_of(graph, own)->number;
        }
    }
    for (uint32_t k = 1; k <= MOST && 4 * k <= n; k++) {
        double sum[MOST] = {0}, square = 0;
        uint32_t count[MOST] = {0};
        for (size_t i = 0; i < n; i++) {
            sum[number[i] % k] += gap[i];
            square += gap[i] * gap[i];
            count[number[i] % k]++;
        }
        for (uint32_t phase = 0; phase < k; phase++) {
            square -= count[phase] ? sum[phase] * sum[phase] / count[phase] : 0;
        }
        square /= (double)(n - k);
        best = k == 1 ? square * PERIOD_BETTER : best;
        if (k > 1 && square < best) {
            best = square * PERIOD_BETTER;
            period = k;
        }
    }
    return period;
}

/* Its number. */
static uint32_t label_of(struct builder *builder, uint64_t label)
{
    struct muster_graph *graph = builder->graph;
    uint32_t *at = muster_places_at(&builder->labels, label);
    if (!*at) {
        uint64_t *own =
            muster_arena_add(graph->making, &graph->label, &graph->labels, sizeof *own);
        *own = label;
        *at = (uint32_t)graph->labels;
    }
    return *at - 1;
}

static bool is_mark(struct builder *builder, uint64_t mark)
{
    return mark && 2 * builder->count[place_of(builder, mark)] < builder->calls;
}

/* Calls from mark to mark, at most: the length of a step. */
static uint64_t step_calls(const struct builder *builder, uint64_t mark)
{
    uint64_t most = 0, since = 0;
    bool met = false;
    for (size_t i = 0; i < builder->calls; i++) {
        bool is = builder->call[i].hash == mark;
        most = is && met && since > most ? since : most;
        since = is ? 1 : since + 1;
        met |= is;
    }
    return most;
}

/* Where the mark stays away for longer than steps differ, as in a warm-up or in replays of a graph,
 * something else runs: there the last calls alone tell the position. Returns how often the mark was
 * met. */
static uint64_t set_positions(struct builder *builder)
{
    struct muster_graph *graph = builder->graph;
    uint64_t mark = find_mark(builder), since = 0;
    mark = is_mark(builder, mark) ? mark : 0;
    uint64_t most = mark ? step_calls(builder, mark) : 0;
    uint32_t period = mark ? 0 : find_period(builder);
    for (size_t i = 0; i < builder->calls; i++) {
        struct call *call = &builder->call[i];
        since = call->hash == mark ? 0 : since + (since <= most);
        if (call->unit != MUSTER_NO_UNIT) {
            struct muster_unit *unit = &graph->unit[call->unit];
            uint64_t place = period ? op_of(graph, unit)->number % period : since;
            unit->seat = label_of(builder, muster_hash_number(call->hash, place));
        }
        call->label = muster_hash_number(call->hash, mark ? since : 0);
    }
    return mark ? builder->count[place_of(builder, mark)] : 0;
}

/* ---- programs ---- */

static void keep_lowest(struct sketch *sketch, uint64_t label)
{
    size_t at = sketch->n;
    if (at == SKETCH && label >= sketch->label[SKETCH - 1]) {
        return;
    }
    at -= at == SKETCH;
    for (; at > 0 && sketch->label[at - 1] > label; at--) {
        sketch->label[at] = sketch->label[at - 1];
    }
    sketch->label[at] = label;
    sketch->n += sketch->n < SKETCH;
}

/* The positions that are met in most of so many steps; 0: that are met often. */
static void draw_sketch(struct builder *builder, uint64_t steps, struct sketch *sketch)
{
    memset(builder->count, 0, builder->places * sizeof *builder->count);
    memset(sketch, 0, sizeof *sketch);
    for (size_t i = 0; i < builder->calls; i++) {
        size_t at = place_of(builder, builder->call[i].label);
        builder->hash[at] = builder->call[i].label;
        builder->count[at]++;
    }
    for (size_t i = 0; i < builder->places; i++) {
        if (builder->count[i] >= MARK_LEAST && 2 * builder->count[i] >= steps) {
            keep_lowest(sketch, builder->hash[i]);
        }
    }
}

/* Of the lowest labels of both together those that both have. */
static bool is_alike(const struct sketch *a, const struct sketch *b)
{
    size_t i = 0, k = 0, same = 0, all = 0;
    while (all < SKETCH && (i < a->n || k < b->n)) {
        bool from_a = k == b->n || (i < a->n && a->label[i] <= b->label[k]);
        bool from_b = i == a->n || (k < b->n && b->label[k] <= a->label[i]);
        same += from_a && from_b;
        all++;
        i += from_a;
        k += from_b;
    }
    return (double)same >= ALIKE * (double)all;
}

static void set_program(struct builder *builder, uint64_t steps, uint32_t gpu)
{
    struct sketch own;
    size_t p = 0;
    draw_sketch(builder, steps, &own);
    while (p < builder->programs && !is_alike(&own, &builder->sketch[p])) {
        p++;
    }
    if (p == builder->programs) {
        struct sketch *added = muster_arena_add(&builder->memory, &builder->sketch,
                                                &builder->programs, sizeof own);
        *added = own;
    }
    builder->graph->program[gpu] = (uint32_t)p;
}

/* The last unit of the member that had ended then. */
static uint32_t ended_before(const struct builder *builder, uint32_t member, uint64_t begin_ns)
{
    for (unsigned i = 0; i < 2; i++) {
        uint32_t at = builder->recent[member][i];
        if (at != MUSTER_NO_UNIT &&
            muster_unit_end_ns(builder->graph, &builder->graph->unit[at]) <= begin_ns + SLACK_NS) {
            return at;
        }
    }
    return MUSTER_NO_UNIT;
}

static void set_edges(struct builder *builder, const uint32_t *members, size_t n, uint32_t u)
{
    struct muster_graph *graph = builder->graph;
    struct muster_unit *unit = &graph->unit[u];
    const struct muster_view_op *op = op_of(graph, unit);
    uint64_t last_ns = 0;
    for (size_t m = 0; m < n; m++) {
        uint32_t at = ended_before(builder, members[m], muster_unit_begin_ns(graph, unit));
        uint64_t end_ns = at == MUSTER_NO_UNIT ? 0 : muster_unit_end_ns(graph, &graph->unit[at]);
        if (end_ns > last_ns) {
            /* What was called so far from it is as good as unknown. */
            int64_t back = (int64_t)u - (int64_t)at;
            unit->last = (int16_t)(back >= -INT16_MAX && back <= INT16_MAX ? back : 0);
            last_ns = end_ns;
        }
    }
    uint32_t *recent = builder->recent[op->member];
    unit->own = recent[0];
    if (recent[0] != MUSTER_NO_UNIT) {
        const struct muster_unit *before = &graph->unit[recent[0]];
        const struct muster_view_op *own = op_of(graph, before);
        bool unbroken = (unit->known >> MUSTER_EDGE_OWN & 1) ||
                        (!muster_func_is_p2p(op->func) && !muster_func_is_p2p(own->func) &&
                         op->number == own->number + 1 &&
                         ((op->flags ^ own->flags) & MUSTER_OP_GRAPH) == 0);
        /* Further back as far as the unit before knows. */
        uint8_t back = (unsigned)before->known << 1 &
                       (1u << MUSTER_EDGE_OWN_2 | 1u << MUSTER_EDGE_OWN_3 |
                        1u << MUSTER_EDGE_BEGIN_2 | 1u << MUSTER_EDGE_BEGIN_3);
        uint8_t next = 1u << MUSTER_EDGE_OWN | 1u << MUSTER_EDGE_BEGIN;
        unit->known |= unbroken ? back | next : 0;
    }
    recent[1] = recent[0];
    recent[0] = u;
}

static void one_gpu(struct builder *builder, const uint32_t *members, size_t n)
{
    struct muster_graph *graph = builder->graph;
    const struct muster_view *view = graph->view;
    size_t ops = 0, first = graph->units;
    for (size_t m = 0; m < n; m++) {
        const struct muster_view_member *member = &view->member[members[m]];
        for (uint32_t o = member->first_op; o < member->first_op + member->ops; o++) {
            builder->keyed[ops++] = (struct muster_keyed){view->op[o].enqueue_ns, o, {0}};
        }
        memset(builder->recent[members[m]], 0xff, sizeof *builder->recent);
    }
    walk_calls(builder, muster_sort_keyed(builder->keyed, builder->spare, ops), ops);
    uint64_t steps = set_positions(builder);
    size_t units = graph->units - first;
    for (size_t u = 0; u < units; u++) {
        builder->keyed[u] =
            (struct muster_keyed){muster_unit_begin_ns(graph, &graph->unit[first + u]),
                                  (uint32_t)(first + u),
                                  {0}};
    }
    const struct muster_keyed *by_begin =
        muster_sort_keyed(builder->keyed, builder->spare, units);
    for (size_t u = 0; u < units; u++) {
        set_edges(builder, members, n, (uint32_t)by_begin[u].value);
    }
    if (n) {
        set_program(builder, steps, view->member[members[0]].gpu);
    }
}

/* Communicators of as many ranks that are used alike have one role. */
static void set_roles(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    for (size_t i = 0; i < view->ops; i++) {
        uint64_t *role = &graph->role[view->member[view->op[i].member].comm];
        *role |= 1ull << (view->op[i].func & 31);
    }
    for (size_t c = 0; c < view->comms; c++) {
        graph->role[c] = muster_hash_number(graph->role[c], view->comm[c].nranks);
    }
}

static void make_builder(struct builder *builder, size_t most)
{
    size_t members = builder->graph->view->members;
    struct muster_arena *memory = &builder->memory;
    for (builder->places = 64; builder->places < 2 * most + 2;) {
        builder->places *= 2;
    }
    builder->keyed = muster_arena_array(memory, most + 1, sizeof *builder->keyed);
    builder->spare = muster_arena_array(memory, most + 1, sizeof *builder->spare);
    builder->call = muster_arena_array(memory, most + 1, sizeof *builder->call);
    builder->recent = muster_arena_array(memory, members + 1, sizeof *builder->recent);
    builder->count = muster_arena_array(memory, builder->places, sizeof *builder->count);
    builder->hash = muster_arena_array(memory, builder->places, sizeof *builder->hash);
    builder->sorted = muster_arena_array(memory, builder->places, sizeof *builder->sorted);
    builder->labels.memory = memory;
}

static size_t busiest(const struct muster_view *view, const uint32_t *members,
                      const size_t *first)
{
    size_t most = 0;
    for (size_t g = 0; g < view->gpus; g++) {
        size_t ops = 0;
        for (size_t m = first[g]; m < first[g + 1]; m++) {
            ops += view->member[members[m]].ops;
        }
        most = ops > most ? ops : most;
    }
    return most;
}

/* The graph's own arrays. */
static void make_arrays(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    graph->unit = muster_arena_array(graph->memory, view->ops + 1, sizeof *graph->unit);
    graph->role = muster_arena_array(graph->memory, view->comms + 1, sizeof *graph->role);
    graph->program = muster_arena_array(graph->memory, view->gpus + 1, sizeof *graph->program);
    graph->stages = muster_arena_array(graph->memory, view->comms + 1, sizeof *graph->stages);
    graph->of_op = muster_arena_array(graph->making, view->ops + 1, sizeof *graph->of_op);
}

static bool is_failed(const struct builder *builder)
{
    return builder->memory.failed || builder->graph->memory->failed ||
           builder->graph->making->failed;
}

static void all_gpus(struct builder *builder, const uint32_t *members, const size_t *first)
{
    struct muster_graph *graph = builder->graph;
    const struct muster_view *view = graph->view;
    memset(graph->of_op, 0xff, view->ops * sizeof *graph->of_op);
    set_roles(graph);
    for (size_t g = 0; g < view->gpus && !is_failed(builder); g++) {
        one_gpu(builder, members + first[g], first[g + 1] - first[g]);
    }
    for (size_t m = 0; m < view->members; m++) {
        const struct muster_view_member *own = &view->member[m];
        uint32_t first_gpu = view->member[view->comm[own->comm].first_member].gpu;
        graph->stages[own->comm] |= graph->program[own->gpu] != graph->program[first_gpu];
    }
}

void muster_graph_units(struct muster_graph *graph)
{
    const struct muster_view *view = graph->view;
    struct builder builder = {.graph = graph};
    uint32_t *members = muster_arena_array(&builder.memory, view->members + 1, sizeof *members);
    const size_t *first = muster_view_members_by_gpu(view, members, &builder.memory);
    make_arrays(graph);
    if (!is_failed(&builder)) {
        make_builder(&builder, busiest(view, members, first));
    }
    if (!is_failed(&builder)) {
        all_gpus(&builder, members, first);
    }
    muster_arena_end(&builder.memory, graph->memory);
}
