#include "diagnose/straggler/straggler_details.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sort.h"
#include "base/text.h"
#include "diagnose/straggler/e_process.h"

/* ---- when ---- */

#define EDGE      0.02 /* of its lateness, on either side: what chance adds */
#define MOST_EDGE 0.1  /* the same of most of it: what it waited for another one adds more */
#define MUCH      0.5  /* of its upper quartile: below, it is no stroke of the beat */
#define OVERLAP   0.1  /* of the shorter one: who is late after another one */
#define EXACT     0.5  /* of the gaps between strokes are the beat */
#define WHOLE     0.8  /* or a multiple of it: one was too short to be seen */
#define OF_ALL    1.5  /* times as long as usual at the strokes: what all ranks do then */
enum { GAPS_LEAST = 5, BEAT_MOST = 4096 };

struct late {
    uint64_t unix_ns, number;
    double excess_ns;
    double usual_ns; /* what the other ranks needed */
    bool most;       /* at the position where it is late most */
};

struct lates {
    struct late *at;
    size_t n;
    uint64_t step; /* operations of its communicator from step to step */
    uint64_t *gap; /* ns from one to the next where it is late most, all between them timed */
    size_t gaps;
    double *usual; /* where it is late most, whether it was late or not */
    size_t usuals;
};

/* The last unit where it is late most. */
struct stroke {
    uint64_t number, begin_ns;
    uint64_t after; /* units of its communicator since then */
    bool known;
};

static void note_stroke(const struct muster_graph *graph, const struct muster_unit *unit,
                        struct stroke *last, struct muster_arena *memory, struct lates *lates)
{
    uint64_t number = graph->view->op[muster_unit_op(graph, unit)].number;
    uint64_t begin_ns = muster_unit_begin_ns(graph, unit);
    uint64_t between = number - last->number;
    if (last->known && number > last->number) {
        lates->step = between < lates->step ? between : lates->step;
        uint64_t *gap = last->after + 1 < between || begin_ns < last->begin_ns
                            ? NULL
                            : muster_arena_add(memory, &lates->gap, &lates->gaps, sizeof *gap);
        if (gap)
            *gap = begin_ns - last->begin_ns;
    }
    *last = (struct stroke){.number = number, .begin_ns = begin_ns, .known = true};
}

/* Of one GPU. By its clock, as the host's means nothing in a replay at full speed. What is to be
 * added to that for the time since 1970: of the operation that began soonest after its call, as the
 * first one waits for its communicator's connections. */
static void collect_gpu(const struct muster_graph *graph, uint32_t seat, uint32_t gpu,
                        struct muster_arena *memory, struct lates *lates)
{
    struct stroke last = {.known = false};
    uint32_t member = MUSTER_NO_UNIT;
    int64_t ahead_ns = INT64_MIN;
    size_t before = lates->n;
    for (uint32_t u = graph->first_unit[gpu]; u < graph->first_unit[gpu + 1]; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        bool most = unit->seat == seat;
        uint64_t begin_ns = muster_unit_begin_ns(graph, unit);
        ahead_ns = muster_ns_most(ahead_ns, (int64_t)(muster_unit_call_ns(graph, unit) - begin_ns));
        last.after += !most && muster_unit_member(graph, unit) == member;
        if (!unit->evaluated || !graph->seat[unit->seat].culprit)
            continue;
        uint64_t number = graph->view->op[muster_unit_op(graph, unit)].number;
        int64_t excess_ns = muster_unit_excess_ns(graph, unit);
        int64_t usual_ns = muster_unit_own_ns(graph, unit) - excess_ns;
        if (most) {
            double *usual = muster_arena_add(memory, &lates->usual, &lates->usuals, sizeof *usual);
            *usual = (double)usual_ns;
            member = muster_unit_member(graph, unit);
            note_stroke(graph, unit, &last, memory, lates);
        }
        if (excess_ns <= muster_seat_limit_ns(usual_ns))
            continue;
        struct late *late = muster_arena_add(memory, &lates->at, &lates->n, sizeof *late);
        *late = (struct late){.unix_ns = begin_ns,
                              .number = number,
                              .excess_ns = (double)excess_ns,
                              .usual_ns = (double)usual_ns,
                              .most = most};
    }
    for (size_t i = before; i < lates->n; i++)
        lates->at[i].unix_ns += (uint64_t)ahead_ns + (uint64_t)graph->view->gpu[gpu].unix_ns;
}

static void collect(const struct muster_graph *graph, const struct muster_suspects *suspects,
                    size_t s, struct muster_arena *memory, struct lates *lates)
{
    for (uint32_t g = 0; g < graph->view->gpus; g++)
        if (suspects->group[g] == s)
            collect_gpu(graph, suspects->suspect[s].seat, g, memory, lates);
}

static int in_time(const void *left, const void *right)
{
    const struct late *a = left, *b = right;
    return (a->unix_ns > b->unix_ns) - (a->unix_ns < b->unix_ns);
}

/* Those of one GPU come in time, but where kernels overlap. */
static void sort_in_time(struct lates *lates)
{
    size_t sorted = 1;
    while (sorted < lates->n && lates->at[sorted - 1].unix_ns <= lates->at[sorted].unix_ns)
        sorted++;
    if (sorted < lates->n)
        qsort(lates->at, lates->n, sizeof *lates->at, in_time);
}

/* From when to when, but for a share of the lateness on either side; in the order of time. */
static struct muster_when_span span_but_for(const struct lates *lates, double share)
{
    struct muster_when_span span = {0, 0};
    double all = 0, sum = 0;
    for (size_t i = 0; i < lates->n; i++)
        all += lates->at[i].excess_ns;
    for (size_t i = 0; i < lates->n; i++) {
        bool before = sum < share * all, inside = sum <= (1 - share) * all;
        sum += lates->at[i].excess_ns;
        if (before && sum >= share * all)
            span.since_unix_ns = lates->at[i].unix_ns;
        span.until_unix_ns = inside ? lates->at[i].unix_ns : span.until_unix_ns;
    }
    return span;
}

/* Those at one position that are no chance. Returns how many; they stand first. */
static size_t keep_strokes(struct lates *lates, struct muster_arena *memory)
{
    size_t n = 0;
    double *excess = muster_arena_array(memory, lates->n + 1, sizeof *excess);
    if (!excess)
        return 0;
    for (size_t i = 0; i < lates->n; i++) {
        if (lates->at[i].most) {
            excess[n] = lates->at[i].excess_ns;
            lates->at[n++] = lates->at[i];
        }
    }
    muster_sort_double(excess, n);
    double least = n ? MUCH * excess[3 * n / 4] : 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (lates->at[i].excess_ns >= least)
            lates->at[kept++] = lates->at[i];
    return kept;
}

/* Whether all ranks need longer at the strokes than they usually do there: then operations of one
 * step are alike, and it is late at the beginning of each. */
static bool is_of_all(const struct lates *lates, size_t strokes, struct muster_arena *memory)
{
    double *usual = muster_arena_array(memory, strokes + 1, sizeof *usual);
    for (size_t i = 0; i < strokes && usual; i++)
        usual[i] = lates->at[i].usual_ns;
    if (!usual || !strokes || !lates->usuals)
        return false;
    muster_sort_double(usual, strokes);
    muster_sort_double(lates->usual, lates->usuals);
    return usual[strokes / 2] > OF_ALL * lates->usual[lates->usuals / 2];
}

/* What ranks send each other they do as often in a step as it has micro-batches: there the gap from
 * one to the next is no step. */
static bool is_once_a_step(const struct muster_graph *graph, uint32_t seat)
{
    return !muster_seat_turn(graph, &graph->seat[seat])->p2p;
}

/* The gap that is met most between strokes; in operations. */
static void set_beat(struct lates *lates, struct muster_arena *memory, struct muster_when *when)
{
    size_t n = keep_strokes(lates, memory);
    uint64_t *gap = muster_arena_array(memory, n + 1, sizeof *gap);
    if (!gap || n <= GAPS_LEAST || is_of_all(lates, n, memory))
        return;
    for (size_t i = 1; i < n; i++)
        gap[i - 1] = lates->at[i].number - lates->at[i - 1].number;
    muster_sort_u64(gap, n - 1);
    uint64_t beat = 0;
    size_t exact = 0, whole = 0;
    for (size_t i = 0, end; i < n - 1; i = end) {
        for (end = i; end < n - 1 && gap[end] == gap[i]; end++) {
        }
        beat = end - i > exact ? gap[i] : beat;
        exact = end - i > exact ? end - i : exact;
    }
    for (size_t i = 0; i < n - 1; i++)
        whole += beat && gap[i] % beat == 0;
    bool steps =
        beat % lates->step == 0 && beat / lates->step >= 2 && beat / lates->step <= BEAT_MOST;
    if (steps && (double)exact >= EXACT * (double)(n - 1) &&
        (double)whole >= WHOLE * (double)(n - 1)) {
        double lasted = (double)(lates->at[n - 1].unix_ns - lates->at[0].unix_ns);
        double beats = (double)(lates->at[n - 1].number - lates->at[0].number) / (double)beat;
        when->every_steps = (uint32_t)(beat / lates->step);
        when->every_s = lasted / beats / (double)MUSTER_NS_PER_S;
    }
}

/* The upper quartile: a place that is met several times in a step lies closer to itself in it. */
static double step_s(struct lates *lates)
{
    muster_sort_u64(lates->gap, lates->gaps);
    return lates->gaps ? (double)lates->gap[3 * lates->gaps / 4] / (double)MUSTER_NS_PER_S : 0;
}

void muster_when_of(const struct muster_graph *graph, const struct muster_suspects *suspects,
                    size_t s, struct muster_when *when)
{
    struct muster_arena scratch = {0};
    struct lates lates = {.step = UINT64_MAX};
    collect(graph, suspects, s, &scratch, &lates);
    *when = (struct muster_when){.step_s = step_s(&lates)};
    if (lates.n) {
        sort_in_time(&lates);
        when->span = span_but_for(&lates, EDGE);
        when->most = span_but_for(&lates, MOST_EDGE);
        if (!suspects->suspect[s].host && lates.step != UINT64_MAX &&
            is_once_a_step(graph, suspects->suspect[s].seat))
            set_beat(&lates, &scratch, when);
    }
    muster_arena_end(&scratch, graph->memory);
}

static bool is_after(const struct muster_when_span *a, const struct muster_when_span *b)
{
    uint64_t since = a->since_unix_ns > b->since_unix_ns ? a->since_unix_ns : b->since_unix_ns;
    uint64_t until = a->until_unix_ns < b->until_unix_ns ? a->until_unix_ns : b->until_unix_ns;
    uint64_t one = a->until_unix_ns - a->since_unix_ns;
    uint64_t two = b->until_unix_ns - b->since_unix_ns;
    double shorter = (double)(one < two ? one : two);
    return until <= since || (double)(until - since) <= OVERLAP * shorter;
}

bool muster_when_moves(const struct muster_when *when, size_t n)
{
    bool moves = n > 1;
    for (size_t i = 0; i < n && moves; i++)
        for (size_t k = i + 1; k < n && moves; k++)
            moves = is_after(&when[i].most, &when[k].most);
    return moves;
}

/* ---- where ---- */

enum {
    LOOKED_AT = 15,   /* steps: most are as long as the typical one */
    KINDS_MOST = 2048 /* units of a step in which kinds are counted */
};

/* The units of a GPU from one that is at a position to the next one there. */
struct cycle {
    uint32_t from, n; /* n 0: none */
};

/* The first cycle of the typical length, of some in the middle of what was timed. */
static struct cycle typical_cycle(const struct muster_graph *graph, uint32_t seat)
{
    uint32_t gpu = graph->seat[seat].gpu, met = 0;
    uint32_t first = graph->first_unit[gpu], end = graph->first_unit[gpu + 1];
    uint64_t length[LOOKED_AT];
    uint32_t begin[LOOKED_AT];
    size_t n = 0;
    uint32_t half = 0;
    for (uint32_t u = first; u < end; u++)
        half += graph->unit[u].seat == seat;
    uint32_t last = MUSTER_NO_UNIT;
    half = half > LOOKED_AT ? (half - LOOKED_AT) / 2 : 0;
    for (uint32_t u = first; u < end && n < LOOKED_AT; u++) {
        if (graph->unit[u].seat != seat)
            continue;
        if (last != MUSTER_NO_UNIT && met > half) {
            begin[n] = last;
            length[n++] = u - last;
        }
        met++;
        last = u;
    }
    if (n == 0)
        return (struct cycle){0, 0};
    uint64_t sorted[LOOKED_AT];
    for (size_t i = 0; i < n; i++)
        sorted[i] = length[i];
    uint64_t usual = muster_upper_median_u64(sorted, n);
    size_t i = 0;
    while (i + 1 < n && length[i] != usual)
        i++;
    return (struct cycle){begin[i], (uint32_t)length[i]};
}

static const struct muster_view_op *op_of(const struct muster_graph *graph, uint32_t u)
{
    return &graph->view->op[muster_unit_op(graph, &graph->unit[u])];
}

static bool alike(const struct muster_graph *graph, uint32_t a, uint32_t b)
{
    const struct muster_view_op *one = op_of(graph, a), *two = op_of(graph, b);
    const struct muster_view *view = graph->view;
    return one->func == two->func && graph->role[view->member[one->member].comm] ==
                                         graph->role[view->member[two->member].comm];
}

/* What a step ends with: of the cycle's kinds of reductions the rarest, as gradients are reduced
 * once and layers many times. MUSTER_NO_UNIT: all are of one kind. */
static uint32_t find_gradients(const struct muster_graph *graph, const struct cycle *cycle)
{
    uint32_t rarest = MUSTER_NO_UNIT, least = cycle->n;
    for (uint32_t i = 0; i < cycle->n && cycle->n <= KINDS_MOST; i++) {
        uint32_t u = cycle->from + i, n = 0;
        for (uint32_t k = 0; k < cycle->n && muster_func_reduces(op_of(graph, u)->func); k++)
            n += alike(graph, u, cycle->from + k);
        rarest = n && n < least ? u : rarest;
        least = n && n < least ? n : least;
    }
    return rarest;
}

/* Forward no gradients are reduced: where that lasts longest the step begins. */
static uint32_t forward_begin(const struct muster_graph *graph, const struct cycle *cycle,
                              uint32_t gradients)
{
    uint32_t begin = 0, longest = 0, run = 0;
    for (uint32_t i = 0; i < 2 * cycle->n; i++) {
        run = alike(graph, cycle->from + i % cycle->n, gradients) ? 0 : run + 1;
        begin = run > longest ? (i + 1 - run) % cycle->n : begin;
        longest = run > longest ? run : longest;
    }
    return begin;
}

/* Where the longest pause is, in the cycle; MUSTER_NO_UNIT: none is longer than others by half. */
static uint32_t longest_pause(const struct muster_graph *graph, const struct cycle *cycle)
{
    uint32_t begin = 0;
    int64_t longest = 0, second = 0;
    for (uint32_t i = 0; i < cycle->n; i++) {
        const struct muster_unit *unit = &graph->unit[cycle->from + i];
        int64_t ready = graph->position[graph->seat[unit->seat].position].ready_ns;
        second = ready > longest ? longest : ready > second ? ready : second;
        begin = ready > longest ? i : begin;
        longest = ready > longest ? ready : longest;
    }
    return cycle->n > 1 && 2 * longest < 3 * second ? MUSTER_NO_UNIT : begin;
}

static uint32_t step_begin(const struct muster_graph *graph, const struct cycle *cycle)
{
    uint32_t gradients = find_gradients(graph, cycle);
    return gradients == MUSTER_NO_UNIT ? longest_pause(graph, cycle)
                                       : forward_begin(graph, cycle, gradients);
}

void muster_where_of(const struct muster_graph *graph, uint32_t seat, char *to, size_t size)
{
    struct cycle cycle = typical_cycle(graph, seat);
    const char *word =
        muster_func_name(op_of(graph, graph->position[graph->seat[seat].position].unit)->func);
    if (cycle.n == 0) {
        snprintf(to, size, "before a certain %s", word);
        return;
    }
    uint32_t begin = step_begin(graph, &cycle), all = 0, number = 0;
    for (uint32_t i = 0; i < cycle.n && begin != MUSTER_NO_UNIT; i++) {
        uint32_t u = cycle.from + (begin + i) % cycle.n;
        all += alike(graph, u, cycle.from);
        number = u == cycle.from ? all : number;
    }
    if (cycle.n == 1 || begin == MUSTER_NO_UNIT) {
        snprintf(to, size, "before each %s", word);
    } else if (all == 1) {
        snprintf(to, size, "before the one %s of each step", word);
    } else if (number == 1) {
        snprintf(to, size, "before the first of %" PRIu32 " %s of each step", all, word);
    } else if (number == all) {
        snprintf(to, size, "before the last of %" PRIu32 " %s of each step", all, word);
    } else {
        snprintf(to, size, "before the %" PRIu32 "%s of %" PRIu32 " %s of each step", number,
                 muster_text_ordinal(number), all, word);
    }
}

/* ---- host or GPU ---- */

#define HOSTS 0.7 /* of the delay, that the host called late by: it is the host's */
/* Less of it is the host's: the GPU's. A slow GPU whose host waits for it once a step has up to
 * half of it in that wait */
#define GPUS    0.55
#define AT_ONCE 0.5 /* of the delay: stood in the queue for less */
/* Than this share of the queue elsewhere, or of others': there hosts are ahead */
#define SHORTER 0.5
#define BEHIND  0.5 /* of the delays: its calls came after the others' on its host */

static bool is_known(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return muster_unit_queued(graph, unit) != MUSTER_QUEUED_UNKNOWN &&
           graph->view->gpu[muster_unit_gpu(graph, unit)].host_times;
}

static int64_t since_call_ns(const struct muster_graph *graph, const struct muster_unit *unit)
{
    return muster_unit_knows(graph, unit, MUSTER_EDGE_CALL)
               ? muster_unit_own(graph, unit, MUSTER_EDGE_CALL)
               : MUSTER_NO_OWN;
}

/* Against the others of its turn: how long their calls stood in the queue, whether most of them
 * took less from call to call, and, on its host, whether most of them came earlier: by half the
 * delay. */
static void compare(struct muster_cause_tally *tally, const struct muster_graph *graph,
                    const uint8_t *group, const struct muster_unit *unit)
{
    const struct muster_turn *turn = &graph->turn[unit->turn];
    uint32_t near = 0, earlier = 0, paced = 0, quicker = 0;
    int64_t since_ns = since_call_ns(graph, unit), excess_ns = muster_unit_excess_ns(graph, unit);
    uint32_t gpu = muster_unit_gpu(graph, unit);
    for (uint32_t i = 0; i < turn->units; i++) {
        const struct muster_unit *other = &graph->unit[graph->of_turn[turn->first + i]];
        uint32_t its_gpu = muster_unit_gpu(graph, other);
        muster_unit_ask_next(graph, other);
        if (group[its_gpu] == group[gpu] || !is_known(graph, other))
            continue;
        tally->peers++;
        tally->peers_queued_ns += (double)muster_unit_queued_ns(graph, other);
        int64_t its_ns = since_call_ns(graph, other);
        if (since_ns != MUSTER_NO_OWN && its_ns != MUSTER_NO_OWN) {
            paced++;
            quicker += 2 * (since_ns - its_ns) >= excess_ns;
        }
        if (graph->host[its_gpu] == graph->host[gpu]) {
            int64_t behind_ns =
                (int64_t)(muster_unit_call_ns(graph, unit) - muster_unit_call_ns(graph, other));
            near++;
            earlier += 2 * behind_ns >= excess_ns;
        }
    }
    tally->slower += paced > 0 && 2 * quicker >= paced;
    tally->compared += near > 0;
    tally->behind += near > 0 && 2 * earlier >= near;
}

void muster_cause_add(struct muster_cause_tally *tally, const struct muster_graph *graph,
                      const uint8_t *group, const struct muster_unit *unit, bool late)
{
    double queued = (double)muster_unit_queued_ns(graph, unit);
    double excess = (double)muster_unit_excess_ns(graph, unit);
    int64_t host_ns = muster_unit_host_ns(graph, unit);
    if (!is_known(graph, unit))
        return;
    if (!late) {
        tally->elsewhere++;
        tally->elsewhere_queued_ns += queued;
    } else if (host_ns != MUSTER_NO_OWN) {
        double host = host_ns > 0 ? (double)host_ns : 0;
        tally->known++;
        tally->called_late += 2 * host >= excess;
        tally->late_ns += excess;
        tally->host_ns += host < excess ? host : excess;
        tally->queued_ns += queued < excess ? queued : excess;
        tally->stage |= unit->stage;
        compare(tally, graph, group, unit);
    }
}

/* Whether its GPU waited for the calls, as far as can be known: the soonest begin of all may have
 * stood in the queue, too. */
static bool at_once(const struct muster_cause_tally *tally)
{
    double own = tally->queued_ns / tally->known;
    double elsewhere = tally->elsewhere ? tally->elsewhere_queued_ns / tally->elsewhere : 0;
    double peers = tally->peers ? tally->peers_queued_ns / tally->peers : 0;
    bool slower = tally->slower >= BEHIND * tally->known;
    return tally->queued_ns < AT_ONCE * tally->late_ns &&
           (own < SHORTER * elsewhere || (slower && own < SHORTER * peers));
}

enum muster_finding_cause muster_cause_of(const struct muster_cause_tally *tally)
{
    if (!tally->known)
        return MUSTER_CAUSE_UNKNOWN;
    if (tally->host_ns < GPUS * tally->late_ns)
        return MUSTER_CAUSE_GPU;
    bool behind = tally->behind >= BEHIND * tally->compared;
    return at_once(tally) && behind && !tally->stage && tally->host_ns >= HOSTS * tally->late_ns
               ? MUSTER_CAUSE_HOST
               : MUSTER_CAUSE_UNKNOWN;
}
