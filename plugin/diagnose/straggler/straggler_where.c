#include "diagnose/straggler/straggler_where.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/sort.h"
#include "base/text.h"

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

static bool reduces(unsigned func)
{
    return func == MUSTER_FUNC_ALL_REDUCE || func == MUSTER_FUNC_REDUCE_SCATTER ||
           func == MUSTER_FUNC_REDUCE;
}

/* What a step ends with: of the cycle's kinds of reductions the rarest, as gradients are reduced
 * once and layers many times. MUSTER_NO_UNIT: all are of one kind. */
static uint32_t find_gradients(const struct muster_graph *graph, const struct cycle *cycle)
{
    uint32_t rarest = MUSTER_NO_UNIT, least = cycle->n;
    for (uint32_t i = 0; i < cycle->n && cycle->n <= KINDS_MOST; i++) {
        uint32_t u = cycle->from + i, n = 0;
        for (uint32_t k = 0; k < cycle->n && reduces(op_of(graph, u)->func); k++)
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
        muster_func_word(op_of(graph, graph->position[graph->seat[seat].position].unit)->func);
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
