#include "diagnose/straggler/straggler_when.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/sort.h"
#include "diagnose/straggler/e_process.h"

#define EDGE      0.02 /* of its lateness, on either side: what chance adds */
#define MUCH      0.5  /* of its upper quartile: below, it is no stroke of the beat */
#define OVERLAP   0.1  /* of the shorter one: who is late after another one */
#define WHOLE_RUN 0.9  /* of it was timed: the rest is a pause or the begin */
#define EXACT     0.5  /* of the gaps between strokes are the beat */
#define WHOLE     0.8  /* or a multiple of it: one was too short to be seen */
enum { GAPS_LEAST = 5, BEAT_MOST = 4096, PARTS = 24 };

struct late {
    uint64_t unix_ns, number;
    double excess_ns;
    bool most; /* at the position where it is late most */
};

struct lates {
    struct late *at;
    size_t n;
    uint64_t step; /* operations of its communicator from step to step */
};

/* By its GPU's clock, as the host's means nothing in a replay at full speed. `first`: what was
 * timed of its GPU first. */
static uint64_t unix_of(const struct muster_graph *graph, const struct muster_unit *first,
                        const struct muster_unit *unit)
{
    uint32_t gpu = muster_unit_gpu(graph, first);
    return muster_unit_call_ns(graph, first) + (uint64_t)graph->view->gpu[gpu].unix_ns +
           (muster_unit_begin_ns(graph, unit) - muster_unit_begin_ns(graph, first));
}

/* Of one GPU. */
static void collect_gpu(const struct muster_graph *graph, uint32_t seat, uint32_t gpu,
                        struct muster_arena *memory, struct lates *lates)
{
    uint64_t last = UINT64_MAX;
    const struct muster_unit *first = &graph->unit[graph->first_unit[gpu]];
    for (uint32_t u = graph->first_unit[gpu]; u < graph->first_unit[gpu + 1]; u++) {
        const struct muster_unit *unit = &graph->unit[u];
        if (!unit->evaluated || !graph->seat[unit->seat].culprit)
            continue;
        uint64_t number = graph->view->op[muster_unit_op(graph, unit)].number;
        if (unit->seat == seat) {
            bool next = last != UINT64_MAX && number > last;
            lates->step = next && number - last < lates->step ? number - last : lates->step;
            last = number;
        }
        int64_t excess_ns = muster_unit_excess_ns(graph, unit);
        if (excess_ns <= muster_seat_limit_ns(muster_unit_own_ns(graph, unit) - excess_ns))
            continue;
        struct late *late = muster_arena_add(memory, &lates->at, &lates->n, sizeof *late);
        *late = (struct late){.unix_ns = unix_of(graph, first, unit),
                              .number = number,
                              .excess_ns = (double)excess_ns,
                              .most = unit->seat == seat};
    }
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

static void set_ends(const struct lates *lates, struct muster_when *when)
{
    double all = 0, sum = 0;
    for (size_t i = 0; i < lates->n; i++)
        all += lates->at[i].excess_ns;
    for (size_t i = 0; i < lates->n; i++) {
        bool before = sum < EDGE * all, inside = sum <= (1 - EDGE) * all;
        sum += lates->at[i].excess_ns;
        if (before && sum >= EDGE * all)
            when->since_unix_ns = lates->at[i].unix_ns;
        when->until_unix_ns = inside ? lates->at[i].unix_ns : when->until_unix_ns;
    }
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

/* The gap that is met most between strokes; in operations. */
static void set_beat(struct lates *lates, struct muster_arena *memory, struct muster_when *when)
{
    size_t n = keep_strokes(lates, memory);
    uint64_t *gap = muster_arena_array(memory, n + 1, sizeof *gap);
    if (!gap || n <= GAPS_LEAST)
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

/* A stretch of the run. */
struct part {
    double excess_ns, covered_ns;
};

/* What is known to have passed with the unit, and before it. */
static double covered_ns(const struct muster_graph *graph, const struct muster_unit *unit)
{
    uint32_t last = muster_unit_last(graph, unit);
    const struct muster_view_op *own = &graph->view->op[muster_unit_op(graph, unit)];
    const struct muster_view_op *before =
        last == MUSTER_NO_UNIT ? own : &graph->view->op[muster_unit_op(graph, &graph->unit[last])];
    bool skips = before->member == own->member && own->number > before->number + 1;
    bool known = muster_unit_knows(graph, unit, MUSTER_EDGE_LAST) && !skips;
    int64_t gap = known ? muster_unit_own(graph, unit, MUSTER_EDGE_LAST) : 0;
    return (double)(muster_unit_length_ns(graph, unit) + (gap > 0 ? gap : 0));
}

/* In each part of the run it is late as in what was timed of it; parts of which nothing was are as
 * the others. */
static double share_of_run(const struct muster_graph *graph, uint32_t gpu)
{
    struct part part[PARTS] = {{0, 0}};
    uint64_t begin = UINT64_MAX, end = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (uint32_t u = graph->first_unit[gpu]; u < graph->first_unit[gpu + 1]; u++) {
            const struct muster_unit *unit = &graph->unit[u];
            uint64_t at = muster_unit_begin_ns(graph, unit);
            if (pass == 0) {
                begin = at < begin ? at : begin;
                end = at > end ? at : end;
                continue;
            }
            struct part *own = &part[(at - begin) * PARTS / (end - begin + 1)];
            bool late = unit->evaluated && graph->seat[unit->seat].culprit;
            int64_t excess_ns = late ? muster_unit_excess_ns(graph, unit) : 0;
            own->excess_ns += excess_ns > 0 ? (double)excess_ns : 0;
            own->covered_ns += covered_ns(graph, unit);
        }
    }
    double length = (double)(end - begin) / PARTS, timed = 0, run = 0, seen = 0, covered = 0;
    for (unsigned i = 0; i < PARTS; i++) {
        covered += part[i].covered_ns;
        double more = part[i].covered_ns > 0 ? length / part[i].covered_ns : 0;
        timed += part[i].excess_ns;
        run += part[i].excess_ns * (more > 1 ? more : 1);
        seen += part[i].covered_ns > 0;
    }
    bool all = covered >= WHOLE_RUN * (double)(end - begin);
    return timed > 0 && !all ? run / timed * PARTS / seen : 1;
}

void muster_when_of(const struct muster_graph *graph, const struct muster_suspects *suspects,
                    size_t s, struct muster_when *when)
{
    struct muster_arena scratch = {0};
    struct lates lates = {.step = UINT64_MAX};
    collect(graph, suspects, s, &scratch, &lates);
    *when = (struct muster_when){.of_run = 1};
    if (lates.n) {
        qsort(lates.at, lates.n, sizeof *lates.at, in_time);
        set_ends(&lates, when);
        when->of_run = share_of_run(graph, suspects->suspect[s].gpu);
        if (!suspects->suspect[s].host && lates.step != UINT64_MAX)
            set_beat(&lates, &scratch, when);
    }
    muster_arena_end(&scratch, graph->memory);
}

bool muster_when_moves(const struct muster_when *when, size_t n)
{
    bool moves = n > 1;
    for (size_t i = 0; i < n && moves; i++) {
        for (size_t k = i + 1; k < n && moves; k++) {
            const struct muster_when *a = &when[i], *b = &when[k];
            uint64_t since =
                a->since_unix_ns > b->since_unix_ns ? a->since_unix_ns : b->since_unix_ns;
            uint64_t until =
                a->until_unix_ns < b->until_unix_ns ? a->until_unix_ns : b->until_unix_ns;
            uint64_t one = a->until_unix_ns - a->since_unix_ns;
            uint64_t two = b->until_unix_ns - b->since_unix_ns;
            double shorter = (double)(one < two ? one : two);
            moves = until <= since || (double)(until - since) <= OVERLAP * shorter;
        }
    }
    return moves;
}
