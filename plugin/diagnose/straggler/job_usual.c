/* What is usual for the ranks that do the same, and who took longer: by itself, net of what its GPU
 * waited for others meanwhile. */
#include <string.h>

#include "base/hash.h"
#include "base/sort.h"
#include "diagnose/straggler/job_graph.h"
#include "run/beside_work.h"

/* Turns that are looked at together: sorted at once, they take 32 bytes each. */
enum { AT_ONCE = 1 << 20, RUN_MOST = UINT8_MAX };

enum { LONG_MOST = 1 << 20 }; /* of these two tables may be kept */

#define NO_HOST UINT32_MAX

/* ---- how long each GPU waited for others ---- */

/* Where not all that it may have waited for were seen, it waits no less than it did beyond its own
 * shortest time at that position. */
static int64_t wait_of(const struct muster_graph *graph, const struct muster_unit *unit)
{
    const struct muster_turn *turn = &graph->turn[unit->turn];
    int64_t transfer = (int64_t)turn->transfer_ns, length_ns = muster_unit_length_ns(graph, unit);
    bool alone = turn->kind == MUSTER_TURN_APART;
    int64_t least = graph->seat[unit->seat].least_ns;
    if (!muster_turn_is_whole(graph, turn) && (alone || least < transfer))
        transfer = least;
    return length_ns > transfer ? length_ns - transfer : 0;
}

/* Whether an edge reaches over other operations, so that waits in these count. */
static bool any_reaches(const struct muster_graph *graph)
{
    for (size_t p = 0; p < graph->positions; p++) {
        uint8_t edge = graph->position[p].edge;
        if (edge != MUSTER_EDGE_LAST && edge != MUSTER_EDGE_CALL)
            return true;
    }
    return false;
}

static void find_waits(struct muster_graph *graph)
{
    if (!any_reaches(graph))
        return;
    graph->waited_ns =
        muster_arena_array(graph->making, graph->units + 1, sizeof *graph->waited_ns);
    if (!graph->waited_ns)
        return;
    int64_t sum = 0;
    for (size_t u = 0; u < graph->units; u++) {
        graph->waited_ns[u] = sum;
        int64_t wait = wait_of(graph, &graph->unit[u]);
        sum = wait < INT64_MAX - sum ? sum + wait : INT64_MAX;
    }
    graph->waited_ns[graph->units] = sum;
}

/* Of a unit's own time what its GPU waited for others in other operations meanwhile. */
static int64_t waited_ns(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    uint32_t before = muster_unit_before(graph, unit, unit->edge);
    uint32_t last = muster_unit_last(graph, unit);
    if (!graph->waited_ns || unit->edge == MUSTER_EDGE_LAST || unit->edge == MUSTER_EDGE_CALL ||
        last == MUSTER_NO_UNIT || last < before) {
        return 0;
    }
    return graph->waited_ns[last + 1] - graph->waited_ns[before + 1];
}

/* Known where the ranks did not leave together what ran before. */
int64_t muster_unit_held_ns(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    const struct muster_turn *turn = &graph->turn[unit->turn];
    int64_t held = INT64_MAX;
    uint32_t last = muster_unit_last(graph, unit);
    bool apart =
        last != MUSTER_NO_UNIT && graph->any_sends && graph->turn[graph->unit[last].turn].p2p;
    if (turn->kind == MUSTER_TURN_ALL && apart && muster_turn_is_whole(graph, turn)) {
        held = graph->longest_ns[unit->turn] - muster_unit_length_ns(graph, unit);
    } else if (turn->kind == MUSTER_TURN_PARTNERS) {
        held = 0;
        bool sends = !turn->sent;
        for (uint32_t i = graph->first_partner[u]; i < graph->first_partner[u + 1]; i++) {
            int64_t ns = wait_of(graph, &graph->unit[muster_partner(graph, i)]);
            bool waits = !turn->sent || muster_partner_receives(graph, i);
            held = ns > held && waits ? ns : held;
            sends |= waits;
        }
        held = sends ? held : INT64_MAX;
    }
    return held;
}

/* How much later it came than its GPU was behind already, where the others were ready before their
 * communicator was free; INT64_MAX: not known. */
static int64_t behind_ns(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    if (!graph->behind)
        return INT64_MAX;
    bool queued = (unit->edge == MUSTER_EDGE_LAST || unit->edge == MUSTER_EDGE_OWN) &&
                  muster_unit_last(graph, unit) == unit->own;
    if (!queued)
        return INT64_MAX;
    int64_t behind = muster_ns_of_short(&graph->long_ns, graph->behind[u] ^ MUSTER_NO_SHORT);
    return behind == MUSTER_NO_OWN ? INT64_MAX : behind > 0 ? behind : 0;
}

/* ---- what is usual ---- */

/* Units that are compared with each other. */
struct pool {
    int64_t *own; /* scratch */
    uint32_t *unit;
    size_t n;
    uint32_t host_of_most; /* see below; once hosts_known */
    bool hosts_known;
};

static uint32_t host_of(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return graph->host[muster_unit_gpu(graph, unit)];
}

static uint64_t call_before_ns(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return muster_unit_call_ns(graph,
                               &graph->unit[muster_unit_before(graph, unit, MUSTER_EDGE_CALL)]);
}

/* The host of more than half of the pool's units; NO_HOST: none. */
static uint32_t host_of_most(const struct muster_graph *graph, const struct pool *pool)
{
    uint32_t most = NO_HOST;
    size_t lead = 0, same = 0;
    for (size_t i = 0; i < pool->n; i++) {
        uint32_t host = host_of(graph, &graph->unit[pool->unit[i]]);
        if (lead == 0)
            most = host;
        lead = most == host ? lead + 1 : lead - 1;
    }
    for (size_t i = 0; i < pool->n; i++)
        same += most == host_of(graph, &graph->unit[pool->unit[i]]);
    return 2 * same > pool->n ? most : NO_HOST;
}

/* A GPU that began as soon as it was called waited for its host. What that took longer is measured
 * from call to call, against ranks of the host that are so far ahead that they cannot have waited
 * for this one in between; unless there are few of these, a lag from before is nobody's excess. */
static int64_t host_excess(const struct muster_graph *graph, struct pool *pool,
                           const struct muster_unit *unit, int64_t *scratch)
{
    const struct muster_view *view = graph->view;
    size_t n = 0, others = 0;
    if (!muster_unit_waited_for_call(graph, unit) ||
        !muster_unit_knows(graph, unit, MUSTER_EDGE_CALL)) {
        return INT64_MAX;
    }
    uint32_t host = host_of(graph, unit);
    if (!pool->hosts_known) {
        pool->host_of_most = host_of_most(graph, pool);
        pool->hosts_known = true;
    }
    if (pool->host_of_most != host)
        return INT64_MAX; /* half of the others are on other hosts */
    uint64_t before_ns = call_before_ns(graph, unit);
    for (size_t i = 0; i < pool->n; i++) {
        const struct muster_unit *other = &graph->unit[pool->unit[i]];
        const struct muster_view_gpu *gpu = &view->gpu[muster_unit_gpu(graph, other)];
        others += other != unit;
        if (other != unit && gpu->host_times && muster_unit_call_ns(graph, other) < before_ns &&
            muster_unit_knows(graph, other, MUSTER_EDGE_CALL) && host_of(graph, other) == host) {
            scratch[n++] = muster_unit_own(graph, other, MUSTER_EDGE_CALL);
        }
    }
    if (2 * n < others || n == 0)
        return INT64_MAX;
    muster_sort_i64(scratch, n);
    return muster_unit_own(graph, unit, MUSTER_EDGE_CALL) - scratch[n / 2];
}

/* The lower median: half of the ranks may be late together. */
static int64_t usual_of(struct pool *pool)
{
    muster_sort_i64(pool->own, pool->n);
    return pool->own[(pool->n - 1) / 2];
}

/* How long after its communicator's last was over a unit began. */
static int64_t gap_of(const struct muster_graph *graph, uint32_t u)
{
    const struct muster_unit *unit = &graph->unit[u];
    return muster_unit_knows(graph, unit, MUSTER_EDGE_OWN)
               ? muster_unit_own(graph, unit, MUSTER_EDGE_OWN)
               : INT64_MAX;
}

/* Of what the hosts' calls took of the own times, the usual; MUSTER_NO_OWN: not known. Sorts
 * pool->own anew. */
static int64_t usual_host(const struct muster_graph *graph, struct pool *pool)
{
    size_t known = 0;
    for (size_t i = 0; i < pool->n; i++) {
        int64_t host = muster_unit_host(graph, &graph->unit[pool->unit[i]]);
        if (host != MUSTER_NO_OWN)
            pool->own[known++] = host;
    }
    muster_sort_i64(pool->own, known);
    return known < 2 ? MUSTER_NO_OWN : pool->own[(known - 1) / 2];
}

void muster_unit_set_excess(struct muster_graph *graph, struct muster_unit *unit, int64_t excess_ns,
                            int64_t host_ns)
{
    unit->excess_ns = muster_shorten_ns(&graph->long_ns, excess_ns);
    if (excess_ns >= MUSTER_GAP_NS) {
        graph->more_host[unit - graph->unit] =
            muster_shorten_ns(&graph->long_ns, host_ns) ^ MUSTER_NO_SHORT;
    }
}

/* What is usual in a pool. */
struct usual {
    int64_t own, wait;
    int64_t first; /* the gap of the first to come */
    int64_t host;  /* once it was asked for */
    bool host_asked;
};

static void evaluate_unit(struct muster_graph *graph, struct pool *pool, struct usual *usual,
                          uint32_t u)
{
    struct muster_unit *unit = &graph->unit[u];
    int64_t waited = graph->waited_ns ? waited_ns(graph, u) - usual->wait : 0;
    int64_t gap = muster_edge_begins(unit->edge) ? gap_of(graph, u) : INT64_MAX;
    bool clamped = gap < INT64_MAX;
    int64_t after = clamped ? gap - usual->first : INT64_MAX;
    int64_t more = muster_unit_own_ns(graph, unit) - usual->own;
    int64_t excess = more - (waited > 0 ? waited : 0);
    excess = after < excess ? after : excess;
    bool sends = graph->any_sends; /* else what ran before was left together */
    int64_t held = sends && excess > 0 ? muster_unit_held_ns(graph, u) : INT64_MAX;
    excess = held < excess ? held : excess;
    int64_t behind = excess > 0 ? behind_ns(graph, u) : INT64_MAX;
    excess = behind < excess ? behind : excess;
    int64_t meanwhile = more > 0 ? more - (excess > 0 ? excess : 0) : 0;
    if (meanwhile)
        graph->more_waited[u] = muster_shorten_ns(&graph->long_ns, meanwhile);
    unit->evaluated = true;
    int64_t host_ns = MUSTER_NO_OWN;
    if (excess >= MUSTER_GAP_NS) {
        host_ns = muster_unit_host(graph, unit);
        usual->host = usual->host_asked ? usual->host : usual_host(graph, pool);
        usual->host_asked = true;
        bool known = host_ns != MUSTER_NO_OWN && usual->host != MUSTER_NO_OWN;
        host_ns = known ? host_ns - usual->host : MUSTER_NO_OWN;
        int64_t by_calls = host_excess(graph, pool, unit, pool->own);
        unit->carried = by_calls < excess / 2;
        excess = by_calls < excess ? by_calls : excess;
    }
    muster_unit_set_excess(graph, unit, excess, host_ns);
}

/* Late is who took longer, less what it waited longer for others meanwhile, no later than it came
 * after the first to come, and no longer than anybody waited for it. */
static void evaluate_pool(struct muster_graph *graph, struct pool *pool)
{
    struct usual usual = {.first = INT64_MAX};
    if (pool->n < 2)
        return;
    bool begins = false;
    for (size_t i = 0; i < pool->n; i++) {
        const struct muster_unit *unit = &graph->unit[pool->unit[i]];
        pool->own[i] = muster_unit_own_ns(graph, unit);
        begins |= muster_edge_begins(unit->edge);
    }
    usual.own = usual_of(pool);
    for (size_t i = 0; i < pool->n && graph->waited_ns; i++)
        pool->own[i] = waited_ns(graph, pool->unit[i]);
    usual.wait = graph->waited_ns ? usual_of(pool) : 0;
    pool->hosts_known = false;
    for (size_t i = 0; i < pool->n && begins; i++) {
        int64_t gap = gap_of(graph, pool->unit[i]);
        usual.first = gap < usual.first ? gap : usual.first;
    }
    for (size_t i = 0; i < pool->n; i++)
        evaluate_unit(graph, pool, &usual, pool->unit[i]);
}

/* Units by what they are compared with: ranks of the same program in the same place of the same
 * step, in all communicators of the role. A collective that follows what its communicator did last
 * took longer than one that follows what another did beside that. */
struct key_parts {
    uint32_t position, program, stage, beside; /* stage: rank + 1; beside: follows another's */
};

static struct key_parts key_parts(const struct muster_graph *graph, const struct muster_turn *turn,
                                  const struct muster_unit *unit)
{
    const struct muster_seat *seat = &graph->seat[unit->seat];
    struct key_parts parts = {seat->position, graph->program[seat->gpu], 0, 0};
    uint32_t last = muster_unit_last(graph, unit);
    if (!turn->p2p && unit->edge == MUSTER_EDGE_LAST)
        parts.beside = last != MUSTER_NO_UNIT && last != unit->own;
    if (turn->p2p && graph->stages[turn->comm])
        parts.stage = (uint32_t)graph->view->member[muster_unit_member(graph, unit)].rank + 1;
    return parts;
}

static uint64_t pool_key(const struct muster_graph *graph, const struct muster_turn *turn,
                         const struct key_parts *parts)
{
    uint64_t label = graph->position[parts->position].label;
    uint64_t program = (uint64_t)parts->program << 21 ^ parts->stage << 1 ^ parts->beside;
    return muster_hash_number(label, muster_hash_number(program, turn->number << 1 ^ turn->graph));
}

/* Units that follow each other in a turn and have one key. */
struct runs {
    struct muster_keyed *run; /* value: the first of them in of_turn; mark[0]: how many */
    struct muster_keyed *spare;
    size_t n;
};

static void add_runs(const struct muster_graph *graph, const struct muster_turn *turn,
                     struct runs *runs)
{
    struct muster_keyed *last = NULL;
    struct key_parts before = {0};
    for (uint32_t i = turn->first; i < turn->first + turn->units; i++) {
        const struct muster_unit *unit = &graph->unit[graph->of_turn[i]];
        if (unit->own_ns == MUSTER_NO_SHORT) {
            last = NULL;
            continue;
        }
        struct key_parts own = key_parts(graph, turn, unit);
        bool same = last && memcmp(&own, &before, sizeof own) == 0;
        if (same && last->mark[0] < RUN_MOST) {
            last->mark[0]++;
            continue;
        }
        uint64_t key = same ? last->key : pool_key(graph, turn, &own);
        last = &runs->run[runs->n++];
        *last = (struct muster_keyed){key, i, {1}};
        before = own;
    }
}

/* The pools of those runs. */
static void evaluate_runs(struct muster_graph *graph, const struct runs *runs, struct pool *pool)
{
    const struct muster_keyed *sorted = muster_sort_keyed(runs->run, runs->spare, runs->n);
    for (size_t i = 0; i < runs->n; i++) {
        for (uint32_t at = 0; at < sorted[i].mark[0]; at++)
            pool->unit[pool->n++] = graph->of_turn[sorted[i].value + at];
        if (i + 1 == runs->n || sorted[i + 1].key != sorted[i].key) {
            evaluate_pool(graph, pool);
            pool->n = 0;
        }
    }
}

/* Units of the turns of one number, at most. */
static size_t largest_group(const struct muster_graph *graph, const struct muster_keyed *turn,
                            size_t n)
{
    size_t most = 0, units = 0;
    for (size_t i = 0; i < n; i++) {
        units =
            (i && turn[i].key == turn[i - 1].key ? units : 0) + graph->turn[turn[i].value].units;
        most = units > most ? units : most;
    }
    return most;
}

/* By number, which all units of a pool have in common. */
struct some_turns {
    struct muster_graph *graph;
    const struct muster_keyed *turn;
    size_t n;
    struct muster_arena memory; /* scratch */
};

static void evaluate_turns(void *arg)
{
    struct some_turns *some = arg;
    struct muster_graph *graph = some->graph;
    struct muster_arena *memory = &some->memory;
    const struct muster_keyed *turn = some->turn;
    size_t most = largest_group(graph, turn, some->n) + 1;
    struct pool pool = {.own = muster_arena_array(memory, most, sizeof *pool.own),
                        .unit = muster_arena_array(memory, most, sizeof *pool.unit)};
    struct runs runs = {.run = muster_arena_array(memory, most, sizeof *runs.run),
                        .spare = muster_arena_array(memory, most, sizeof *runs.spare)};
    for (size_t i = 0; i < some->n && !memory->failed; i++) {
        if (i + 3 * MUSTER_AHEAD < some->n) {
            const uint32_t ahead[] = {turn[i + MUSTER_AHEAD].value,
                                      turn[i + 2 * MUSTER_AHEAD].value,
                                      turn[i + 3 * MUSTER_AHEAD].value};
            muster_turns_ask(graph, ahead);
        }
        add_runs(graph, &graph->turn[turn[i].value], &runs);
        if (i + 1 == some->n || turn[i + 1].key != turn[i].key) {
            evaluate_runs(graph, &runs, &pool);
            runs.n = 0;
        }
    }
}

/* A time that stands in another table behind the first `known`, which are the same. */
static void take_long(struct muster_graph *graph, const struct muster_long_ns *from, size_t known,
                      int32_t *ns, int32_t flip)
{
    int32_t own = *ns ^ flip;
    if (own >= MUSTER_SHORT_MOST + (int32_t)known)
        *ns = muster_shorten_ns(&graph->long_ns, muster_ns_of_short(from, own)) ^ flip;
}

static void take_long_times(struct muster_graph *graph, const struct some_turns *half, size_t known)
{
    const struct muster_long_ns *from = &half->graph->long_ns;
    for (size_t i = 0; i < half->n && from->n > known; i++) {
        const struct muster_turn *turn = &graph->turn[half->turn[i].value];
        for (uint32_t at = turn->first; at < turn->first + turn->units; at++) {
            uint32_t u = graph->of_turn[at];
            take_long(graph, from, known, &graph->unit[u].excess_ns, 0);
            take_long(graph, from, known, &graph->more_waited[u], 0);
            take_long(graph, from, known, &graph->more_host[u], MUSTER_NO_SHORT);
        }
    }
}

/* The numbers of the first half here, the others on a second processor, with a graph of their own
 * that shares all but the table of long times. */
static void both_halves(struct some_turns *all)
{
    struct muster_graph *graph = all->graph, other = *graph;
    struct muster_arena memory = {0};
    struct some_turns half[2] = {*all, {.graph = &other}};
    struct muster_beside beside;
    size_t known = graph->long_ns.n, middle = all->n / 2;
    while (middle > 0 && middle < all->n && all->turn[middle].key == all->turn[middle - 1].key)
        middle++;
    half[0].n = middle;
    half[1].turn = all->turn + middle;
    half[1].n = all->n - middle;
    other.long_ns = (struct muster_long_ns){.memory = &memory};
    for (size_t i = 0; i < known; i++)
        muster_shorten_long_ns(&other.long_ns, graph->long_ns.ns[i]);
    if (!memory.failed) {
        muster_beside_begin(&beside, evaluate_turns, &half[1]);
        evaluate_turns(&half[0]);
        muster_beside_end(&beside);
        take_long_times(graph, &half[1], known);
    }
    muster_arena_end(&memory, graph->memory);
    muster_arena_end(&half[0].memory, graph->memory);
    muster_arena_end(&half[1].memory, graph->memory);
}

/* The turns of every so manieth number, in `turn` and as much room again. */
static void evaluate_pass(struct muster_graph *graph, uint64_t pass, uint64_t passes,
                          struct muster_keyed *turn, struct muster_keyed *spare)
{
    size_t n = 0;
    for (uint32_t t = 0; t < graph->turns; t++)
        if ((graph->turn[t].number & (passes - 1)) == pass)
            turn[n++] = (struct muster_keyed){graph->turn[t].number, t, {0}};
    struct some_turns all = {graph, muster_sort_keyed(turn, spare, n), n, {0}};
    if (muster_beside_is_permitted() && !graph->groups && graph->long_ns.n <= LONG_MOST) {
        both_halves(&all);
    } else {
        evaluate_turns(&all);
        muster_arena_end(&all.memory, graph->memory);
    }
}

/* passes: a power of two. Turns of the pass that has most. */
static size_t largest_pass(const struct muster_graph *graph, uint64_t passes,
                           struct muster_arena *memory)
{
    size_t *turns = muster_arena_array(memory, passes, sizeof *turns), most = 0;
    for (size_t t = 0; t < graph->turns && turns; t++) {
        size_t n = ++turns[graph->turn[t].number & (passes - 1)];
        most = n > most ? n : most;
    }
    return most;
}

void muster_graph_usual(struct muster_graph *graph)
{
    struct muster_arena scratch = {0};
    uint64_t passes = 1;
    find_waits(graph);
    if (graph->making->failed)
        return;
    graph->more_waited =
        muster_arena_array(graph->memory, graph->units + 1, sizeof *graph->more_waited);
    graph->more_host =
        muster_arena_array(graph->memory, graph->units + 1, sizeof *graph->more_host);
    while (passes * AT_ONCE < graph->turns)
        passes *= 2;
    size_t most = largest_pass(graph, passes, &scratch) + 1;
    struct muster_keyed *turn = muster_arena_array(&scratch, most, sizeof *turn);
    struct muster_keyed *spare = muster_arena_array(&scratch, most, sizeof *spare);
    for (uint64_t pass = 0; pass < passes && !graph->memory->failed && !scratch.failed; pass++)
        evaluate_pass(graph, pass, passes, turn, spare);
    muster_arena_end(&scratch, graph->memory);
}
