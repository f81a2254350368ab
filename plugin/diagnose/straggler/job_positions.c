/* Positions: the last calls of a GPU, and the calls since its step began. */
#include "diagnose/straggler/job_positions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum {
    MARK_LEAST = 8,   /* a step's mark was met so often, at least */
    MARK_SHARE = 50,  /* calls met as rarely as the mark: one in so many, at least */
    SKETCH = 64,      /* labels by which programs are compared */
    LONGEST_ROW = 32, /* of calls by which a mark is told */
    UNEVEN = 3,       /* one gap in so many is shorter than half the longest */
    NO_HASH = UINT32_MAX,
};

#define RARER 0.55 /* than the mark of fewer calls */

#define ALIKE         0.9   /* of the labels: the same program */
#define PERIOD_BETTER 0.8   /* of the variance that a shorter period leaves */
#define GAP_NS        50000 /* gaps of less are alike */

/* The lowest labels of what a GPU calls step for step. */
struct muster_sketch {
    uint64_t label[SKETCH];
    bool often[SKETCH];
    size_t n;
    bool kept; /* for muster_positions_join */
};

static void make_counts(struct muster_counts *counts, struct muster_arena *memory, size_t most)
{
    counts->number.memory = memory;
    counts->hash = muster_arena_array(memory, most + 1, sizeof *counts->hash);
    counts->count = muster_arena_array(memory, most + 1, sizeof *counts->count);
}

void muster_positions_begin(struct muster_positions *positions, struct muster_graph *graph,
                            struct muster_arena *memory, size_t most)
{
    positions->graph = graph;
    positions->memory = memory;
    positions->labels.memory = memory;
    positions->call = muster_arena_array(memory, most + 1, sizeof *positions->call);
    positions->sorted = muster_arena_array(memory, most + 1, sizeof *positions->sorted);
    positions->longer = muster_arena_array(memory, most + 1, sizeof *positions->longer);
    make_counts(&positions->hashes, memory, most);
    make_counts(&positions->met, memory, most);
}

static void clear(struct muster_counts *counts)
{
    muster_places_clear(&counts->number);
    counts->n = 0;
}

/* Its number. */
static uint32_t number_of(struct muster_counts *counts, uint64_t hash)
{
    uint32_t *at = muster_places_at(&counts->number, hash);
    if (!*at) {
        counts->hash[counts->n] = hash;
        counts->count[counts->n] = 0;
        *at = (uint32_t)++counts->n;
    }
    return *at - 1;
}

/* ---- calls ---- */

static uint64_t signature(const struct muster_graph *graph, const struct muster_view_op *op)
{
    const struct muster_view_class *class = &graph->view->class[op->class];
    bool p2p = muster_func_is_p2p(op->func);
    uint64_t role = graph->role[graph->view->member[op->member].comm];
    return muster_hash_number(role, (uint64_t)op->func |
                                        (p2p ? 0 : (uint64_t) class->size_log2) << 8 |
                                        (uint64_t)(op->flags & MUSTER_OP_GRAPH) << 16);
}

static uint64_t hash_last(const struct muster_positions *positions)
{
    const uint64_t *last = positions->last;
    uint64_t hash = MUSTER_HASH_SEED;
    for (size_t i = 1; i <= MUSTER_LAST_CALLS; i++)
        hash = muster_hash_number(hash, last[(positions->calls + i) % MUSTER_LAST_CALLS]);
    return hash;
}

static void forget_last(struct muster_positions *positions)
{
    memset(positions->last, 0, sizeof positions->last);
    positions->last_hash = 0;
    positions->row = 0;
}

void muster_positions_next_gpu(struct muster_positions *positions)
{
    positions->calls = positions->sends = 0;
    forget_last(positions);
    positions->row = MUSTER_LAST_CALLS;
    memset(positions->call_met, 0, sizeof positions->call_met);
    memset(positions->place_met, 0, sizeof positions->place_met);
    clear(&positions->hashes);
    clear(&positions->met);
}

/* A row of calls that is no row of the program's, as some are missing in it, tells no step: these
 * are alike wherever a window was not timed, and rarer than any other. */
void muster_positions_add(struct muster_positions *positions, const struct muster_view_op *op,
                          uint32_t unit, bool missing)
{
    if (missing)
        forget_last(positions);
    uint64_t before = positions->last_hash, what = (uint64_t)op->member << 20 | op->class;
    struct muster_call_met *met =
        &positions->call_met[(before ^ what * 0x9e3779b97f4a7c15ull >> 40) % MUSTER_CALLS_MET];
    uint64_t *last = &positions->last[positions->calls % MUSTER_LAST_CALLS];
    if (met->number && met->before == before && met->what == what) {
        *last = met->signature;
    } else {
        *last = signature(positions->graph, op);
        *met = (struct muster_call_met){before, what, *last, hash_last(positions), 0};
        met->number = number_of(&positions->hashes, met->hash) + 1;
    }
    positions->last_hash = met->hash;
    positions->sends += muster_func_is_p2p(op->func);
    positions->row += positions->row < MUSTER_LAST_CALLS;
    positions->hashes.count[met->number - 1] += positions->row == MUSTER_LAST_CALLS;
    positions->call[positions->calls++] =
        (struct muster_call){(met->number - 1) & (UINT32_MAX >> 2), 0, missing, unit};
}

/* ---- the step ---- */

static int by_number(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* Of what is met once a step: of the rarest hashes that are no exceptions (one call in so many has
 * such a one) the lowest; its number. NO_HASH: none. */
static uint32_t own_mark(const struct muster_positions *positions,
                         const struct muster_counts *hashes, uint64_t mark_share)
{
    uint64_t *count = positions->sorted, often = 0;
    size_t n = 0;
    for (size_t i = 0; i < hashes->n; i++)
        if (hashes->count[i] >= MARK_LEAST)
            count[n++] = hashes->count[i];
    if (n)
        qsort(count, n, sizeof *count, by_number);
    for (size_t i = 0; i < n && !often; i++) {
        uint64_t sum = 0;
        for (size_t k = i; k < n && 4 * count[k] <= 5 * count[i]; k++)
            sum += count[k];
        often = sum * mark_share >= positions->calls ? count[i] : 0;
    }
    uint32_t mark = NO_HASH;
    for (uint32_t i = 0; i < hashes->n && often; i++) {
        bool is = hashes->count[i] >= often && 4ull * hashes->count[i] <= 5 * often;
        bool lower = mark == NO_HASH || hashes->hash[i] < hashes->hash[mark];
        mark = is && lower ? i : mark;
    }
    return mark != NO_HASH && 2ull * hashes->count[mark] < positions->calls ? mark : NO_HASH;
}

/* Whether so many are about as many as are expected; one more or less by where a window ends. */
static bool is_about(uint64_t count, uint64_t expected)
{
    return 4 * count + 4 >= 3 * expected && 4 * count <= 5 * expected + 4;
}

static void note_mark(struct muster_positions *positions, struct muster_mark_met met)
{
    struct muster_mark_met *own =
        muster_arena_add(positions->memory, &positions->mark, &positions->marks, sizeof *own);
    *own = met;
}

/* Where the marks of GPUs before will do, the same: GPUs of one program are compared place by
 * place, and which of several hashes is rarest may be by where their windows begin and end. */
static uint32_t find_mark(struct muster_positions *positions, const struct muster_counts *hashes,
                          uint64_t mark_share)
{
    uint32_t own = own_mark(positions, hashes, mark_share);
    for (size_t i = 0; i < positions->marks; i++) {
        const struct muster_mark_met *met = &positions->mark[i];
        uint32_t mark = muster_places_find(&hashes->number, met->hash);
        uint64_t count = mark ? hashes->count[mark - 1] : 0;
        uint64_t expected =
            own != NO_HASH ? hashes->count[own] : met->count * positions->calls / met->calls;
        if (2 * count >= MARK_LEAST && is_about(count, expected))
            return mark - 1;
    }
    if (own != NO_HASH) {
        const struct muster_mark_met met = {hashes->hash[own], hashes->count[own],
                                            positions->calls};
        note_mark(positions, met);
    }
    return own;
}

enum { PERIOD_MOST = 64, GAPS_MOST = 1024, NUMBERINGS = 2 };

/* Of calls with numbers of their own: how long after the call before. */
struct numbered_gaps {
    double gap[GAPS_MOST];
    uint64_t number[GAPS_MOST];
    uint8_t numbering[GAPS_MOST]; /* sends and receives are numbered apart */
    size_t n, numberings;
};

/* In the communicator that comes first: of its collectives; or of its sends to, and receives from,
 * one peer. */
static void find_gaps(const struct muster_positions *positions, bool sends,
                      struct numbered_gaps *gaps)
{
    const struct muster_graph *graph = positions->graph;
    const struct muster_view_op *first = NULL;
    gaps->n = 0;
    gaps->numberings = sends ? NUMBERINGS : 1;
    for (size_t i = 1; i < positions->calls && gaps->n < GAPS_MOST; i++) {
        uint32_t u = positions->call[i].unit, before = positions->call[i - 1].unit;
        if (u == MUSTER_NO_UNIT || before == MUSTER_NO_UNIT || positions->call[i].torn)
            continue;
        const struct muster_unit *own = &graph->unit[u], *last = &graph->unit[before];
        const struct muster_view_op *op = muster_op_of(graph, own);
        if (muster_func_is_p2p(op->func) != sends)
            continue;
        first = first ? first : op;
        if (op->member != first->member || (sends && op->peer != first->peer) ||
            muster_op_of(graph, last)->member != first->member) {
            continue;
        }
        uint64_t ns = muster_unit_begin_ns(graph, own) - muster_unit_begin_ns(graph, last);
        gaps->gap[gaps->n] = log1p((double)ns / GAP_NS);
        gaps->numbering[gaps->n] = sends && op->func == MUSTER_FUNC_RECV;
        gaps->number[gaps->n++] = op->number;
    }
}

/* What of the gaps' variance a period of `k` leaves. */
static double variance_left(const struct numbered_gaps *gaps, uint32_t k)
{
    double sum[NUMBERINGS][PERIOD_MOST] = {{0}}, square = 0;
    uint32_t count[NUMBERINGS][PERIOD_MOST] = {{0}};
    for (size_t i = 0; i < gaps->n; i++) {
        unsigned numbering = gaps->numbering[i];
        sum[numbering][gaps->number[i] % k] += gaps->gap[i];
        square += gaps->gap[i] * gaps->gap[i];
        count[numbering][gaps->number[i] % k]++;
    }
    for (size_t n = 0; n < gaps->numberings; n++) {
        for (uint32_t phase = 0; phase < k; phase++) {
            double own = sum[n][phase];
            square -= count[n][phase] ? own * own / count[n][phase] : 0;
        }
    }
    return square / (double)(gaps->n - gaps->numberings * k);
}

/* The period by which the gaps are told apart best; 0: none. */
static uint32_t best_period(const struct numbered_gaps *gaps)
{
    double best = 0;
    uint32_t period = 0;
    for (uint32_t k = 1; k <= PERIOD_MOST && 4 * gaps->numberings * k <= gaps->n; k++) {
        double left = variance_left(gaps, k);
        best = k == 1 ? left * PERIOD_BETTER : best;
        if (k > 1 && left < best) {
            best = left * PERIOD_BETTER;
            period = k;
        }
    }
    return period;
}

/* Without a mark, as where all calls of a step are alike, the step shows in the gaps; else in those
 * of sends: the last stage of a pipeline receives and sends by turns, and waits once a step. */
static uint32_t find_period(const struct muster_positions *positions)
{
    struct numbered_gaps gaps;
    find_gaps(positions, false, &gaps);
    uint32_t period = best_period(&gaps);
    if (period == 0) {
        find_gaps(positions, true, &gaps);
        period = best_period(&gaps);
    }
    return period;
}

/* Finds how many calls there are from mark to mark, most of all and, in `sorted`, each time.
 * Returns how often. */
static size_t find_steps(struct muster_positions *positions)
{
    uint64_t most = 0, since = 0;
    size_t n = 0;
    bool met = false;
    for (size_t i = 0; i < positions->calls; i++) {
        const struct muster_call *call = &positions->call[i];
        met &= !call->torn;
        since++;
        if (!call->mark)
            continue;
        if (met) {
            positions->sorted[n++] = since - 1;
            most = since - 1 > most ? since - 1 : most;
        }
        since = 1;
        met = true;
    }
    positions->step = most;
    return n;
}

/* Whether the mark is met several times in a step, as in each of its layers: then the gaps between
 * differ. */
static bool is_uneven(struct muster_positions *positions, uint64_t marks)
{
    size_t n = find_steps(positions), shorter = 0;
    for (size_t i = 0; i < n; i++)
        shorter += positions->sorted[i] < (positions->step + 1) / 2;
    return UNEVEN * shorter > marks;
}

/* The newest call up to `i` before which some are missing; 0: none are. */
static size_t torn_before(const struct muster_positions *positions, size_t i)
{
    while (i > 0 && !positions->call[i].torn)
        i--;
    return i;
}

/* Where the last calls are the same several times in a step, longer rows of calls tell one of these
 * places: of twice as many calls, and so on, as long as they are met more rarely. Marks it; returns
 * how often it is met. */
static uint64_t mark_longer(struct muster_positions *positions, uint64_t marks)
{
    struct muster_counts *counts = &positions->met;
    uint64_t *longer = positions->longer;
    for (size_t i = 0; i < positions->calls; i++)
        longer[i] = positions->hashes.hash[positions->call[i].hash];
    for (size_t n = MUSTER_LAST_CALLS; n < LONGEST_ROW; n *= 2) {
        size_t from = positions->calls;
        clear(counts);
        for (size_t i = positions->calls; i-- > 0;) {
            from = i < from ? torn_before(positions, i) : from;
            uint64_t own = muster_hash_number(MUSTER_HASH_SEED, longer[i]);
            longer[i] = muster_hash_number(own, i >= from + n ? longer[i - n] : 0);
            bool whole = from == 0 || i + 1 >= from + 2 * n;
            counts->count[number_of(counts, longer[i])] += whole;
        }
        uint32_t mark = find_mark(positions, counts, MARK_SHARE * MUSTER_LAST_CALLS / (2 * n));
        if (mark == NO_HASH || counts->count[mark] > RARER * (double)marks)
            continue;
        marks = counts->count[mark];
        for (size_t i = 0; i < positions->calls; i++)
            positions->call[i].mark = longer[i] == counts->hash[mark];
    }
    clear(counts);
    find_steps(positions);
    return marks;
}

/* Whether sends and receives come by turns, two to a mark: the last calls tell both apart, and no
 * step. */
static bool is_by_turns(const struct muster_positions *positions, uint64_t marks)
{
    return 5 * marks > 2 * positions->calls && 2 * positions->sends > positions->calls;
}

/* Marks where steps begin; returns how many do. 0: nothing tells. */
static uint64_t mark_steps(struct muster_positions *positions)
{
    uint32_t mark = find_mark(positions, &positions->hashes, MARK_SHARE);
    if (mark == NO_HASH)
        return 0;
    uint64_t marks = positions->hashes.count[mark];
    if (is_by_turns(positions, marks))
        return 0;
    for (size_t i = 0; i < positions->calls; i++)
        positions->call[i].mark = positions->call[i].hash == mark;
    return is_uneven(positions, marks) ? mark_longer(positions, marks) : marks;
}

static struct muster_place_met *place_met(struct muster_positions *positions, uint32_t hash,
                                          uint64_t place)
{
    struct muster_place_met *met = &positions->place_met[(hash + place * 31) % MUSTER_PLACES_MET];
    if (met->hash != hash + 1 || met->place != place)
        *met = (struct muster_place_met){.place = place, .hash = hash + 1};
    return met;
}

/* The number of a label, + 1. */
static uint32_t number_label(struct muster_positions *positions, uint64_t label)
{
    struct muster_graph *graph = positions->graph;
    uint32_t *at = muster_places_at(&positions->labels, label);
    if (!*at) {
        uint64_t *own = muster_arena_add(graph->making, &graph->label, &graph->labels, sizeof *own);
        *own = label;
        *at = (uint32_t)graph->labels;
    }
    return *at;
}

/* What units are told apart by: the number of the label. */
static uint32_t label_of(struct muster_positions *positions, struct muster_place_met *met)
{
    if (!met->label) {
        uint64_t label = muster_hash_number(positions->hashes.hash[met->hash - 1], met->place);
        met->label = number_label(positions, label);
    }
    return met->label - 1;
}

static void count_met(struct muster_positions *positions, struct muster_place_met *met)
{
    if (!met->met) {
        uint64_t label = muster_hash_number(positions->hashes.hash[met->hash - 1], met->place);
        met->met = number_of(&positions->met, label) + 1;
    }
    positions->met.count[met->met - 1]++;
}

/* How many calls the step has up to each one. */
struct step_place {
    uint64_t calls;
    bool known;
};

/* After missing calls: by how many there are to the end of the step. Where of no step all calls are
 * known (`most` 0) these are counted down from 0, and no others are like them. */
static struct step_place count_back(const struct muster_positions *positions, size_t i,
                                    uint64_t most)
{
    size_t end = i + 1;
    while (end < positions->calls && !positions->call[end].mark && !positions->call[end].torn)
        end++;
    bool met = end < positions->calls && positions->call[end].mark;
    return (struct step_place){most - (end - i), met && (!most || end - i < most)};
}

/* Where the mark stays away for longer than steps differ, as in a warm-up or in replays of a graph,
 * something else runs: there the last calls alone tell the position. */
static void by_mark(struct muster_positions *positions)
{
    uint64_t most = positions->step;
    struct step_place place = {0, true};
    for (size_t i = 0; i < positions->calls; i++) {
        const struct muster_call *call = &positions->call[i];
        place.calls++;
        if (call->mark)
            place = (struct step_place){0, true};
        else if (call->torn)
            place = count_back(positions, i, most);
        place.known &= !most || place.calls <= most;
        struct muster_place_met *met =
            place_met(positions, call->hash, place.known ? place.calls : most + 1);
        count_met(positions, met);
        if (call->unit != MUSTER_NO_UNIT)
            positions->graph->unit[call->unit].seat = label_of(positions, met);
    }
}

static void by_period(struct muster_positions *positions)
{
    struct muster_graph *graph = positions->graph;
    uint32_t period = find_period(positions);
    for (size_t i = 0; i < positions->calls; i++) {
        const struct muster_call *call = &positions->call[i];
        if (call->unit != MUSTER_NO_UNIT) {
            struct muster_unit *unit = &graph->unit[call->unit];
            uint64_t place = period ? muster_op_of(graph, unit)->number % period : 1;
            unit->seat = label_of(positions, place_met(positions, call->hash, place));
        }
    }
    struct muster_counts *met = &positions->met;
    for (met->n = 0; met->n < positions->hashes.n; met->n++) {
        met->hash[met->n] = muster_hash_number(positions->hashes.hash[met->n], 0);
        met->count[met->n] = positions->hashes.count[met->n];
    }
}

/* ---- programs ---- */

static void keep_lowest(struct muster_sketch *sketch, uint64_t label, bool often)
{
    size_t at = sketch->n;
    if (at == SKETCH && label >= sketch->label[SKETCH - 1])
        return;
    at -= at == SKETCH;
    for (; at > 0 && sketch->label[at - 1] > label; at--) {
        sketch->label[at] = sketch->label[at - 1];
        sketch->often[at] = sketch->often[at - 1];
    }
    sketch->label[at] = label;
    sketch->often[at] = often;
    sketch->n += sketch->n < SKETCH;
}

/* The positions that are met in most of so many steps; 0: that are met often. And those that are
 * met half as often: another GPU of the program may just have met them often, as windows begin and
 * end anywhere. */
static void draw_sketch(const struct muster_positions *positions, uint64_t steps,
                        struct muster_sketch *sketch)
{
    const struct muster_counts *met = &positions->met;
    memset(sketch, 0, sizeof *sketch);
    for (size_t i = 0; i < met->n; i++) {
        uint64_t count = met->count[i];
        bool often = count >= MARK_LEAST && 2 * count >= steps;
        if (often || (2 * count >= MARK_LEAST && 4 * count >= steps))
            keep_lowest(sketch, met->hash[i], often);
    }
}

/* Of the lowest labels that one of both met often those that both have. */
static bool is_alike(const struct muster_sketch *a, const struct muster_sketch *b)
{
    size_t i = 0, k = 0, same = 0, all = 0, seen = 0;
    for (; seen < SKETCH && (i < a->n || k < b->n); seen++) {
        bool from_a = k == b->n || (i < a->n && a->label[i] <= b->label[k]);
        bool from_b = i == a->n || (k < b->n && b->label[k] <= a->label[i]);
        bool often = (from_a && a->often[i]) || (from_b && b->often[k]);
        same += often && from_a && from_b;
        all += often;
        i += from_a;
        k += from_b;
    }
    return (double)same >= ALIKE * (double)all;
}

static void set_program(struct muster_positions *positions, const struct muster_sketch *own,
                        size_t gpu)
{
    size_t p = 0;
    while (p < positions->programs && !is_alike(own, &positions->sketch[p]))
        p++;
    if (p == positions->programs) {
        struct muster_sketch *added = muster_arena_add(positions->memory, &positions->sketch,
                                                       &positions->programs, sizeof *own);
        *added = *own;
    }
    positions->graph->program[gpu] = (uint32_t)p;
}

void muster_positions_set(struct muster_positions *positions, uint32_t gpu)
{
    struct muster_sketch own;
    uint64_t marks = mark_steps(positions);
    if (marks)
        by_mark(positions);
    else
        by_period(positions);
    draw_sketch(positions, marks, &own);
    own.kept = true;
    if (positions->of_gpu)
        positions->of_gpu[gpu] = own;
    else
        set_program(positions, &own, gpu);
}

void muster_positions_keep_sketches(struct muster_positions *more,
                                    const struct muster_positions *positions)
{
    size_t gpus = more->graph->view->gpus;
    more->of_gpu = muster_arena_array(more->memory, gpus + 1, sizeof *more->of_gpu);
    for (size_t i = 0; i < positions->marks; i++)
        note_mark(more, positions->mark[i]);
}

void muster_positions_join(struct muster_positions *positions, struct muster_positions *more,
                           size_t from, size_t first)
{
    struct muster_graph *graph = positions->graph;
    size_t labels = more->graph->labels;
    uint32_t *number = muster_arena_array(positions->memory, labels + 1, sizeof *number);
    if (!number || !more->of_gpu)
        return;
    for (size_t i = 0; i < labels; i++)
        number[i] = number_label(positions, more->graph->label[i]) - 1;
    for (size_t u = first; u < graph->units; u++)
        graph->unit[u].seat = number[graph->unit[u].seat];
    for (size_t g = from; g < graph->view->gpus; g++)
        if (more->of_gpu[g].kept)
            set_program(positions, &more->of_gpu[g], g);
}
