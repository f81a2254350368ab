/* The rows of the report under way: which one an operation belongs to, adding up what belongs to a
 * row, and collecting the durations that are known one by one. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "report/report_internal.h"
#include "view/aligned.h"

_Static_assert(sizeof(struct muster_class_key) == 16, "compared as bytes");

uint32_t muster_build_class(struct muster_build *build, const struct muster_class_key *key,
                            bool make)
{
    build->class_at.key_bytes = sizeof *key;
    size_t at = muster_hashmap_find(&build->class_at, key);
    if (at != SIZE_MAX)
        return (uint32_t)at;
    if (!make)
        return MUSTER_NO_CLASS;
    struct muster_arena *memory = &build->memory;
    struct muster_class *class =
        muster_arena_add(memory, &build->class, &build->classes, sizeof *class);
    class->key = *key;
    memory->failed =
        memory->failed || !muster_hashmap_put(&build->class_at, key, build->classes - 1);
    return memory->failed ? MUSTER_NO_CLASS : (uint32_t)(build->classes - 1);
}

static void add_estimate(struct muster_totals *totals, const struct muster_seg_row *row,
                         uint8_t source)
{
    uint64_t timed = source == MUSTER_SOURCE_GPU     ? row->timed
                     : source == MUSTER_SOURCE_EVENT ? row->event_timed
                     : source == MUSTER_SOURCE_PROXY ? row->proxy_timed
                                                     : row->host_timed;
    double ns = timed ? (double)row->sum_ns * (double)row->count / (double)timed : 0;
    totals->run_ns += ns;
    totals->common += muster_joint_ends_together(row->func) ? row->count : 0;
}

void muster_totals_add_row(struct muster_totals *totals, const struct muster_seg_row *row,
                           struct muster_arena *memory)
{
    uint8_t source = row->timed         ? MUSTER_SOURCE_GPU
                     : row->event_timed ? MUSTER_SOURCE_EVENT
                     : row->proxy_timed ? MUSTER_SOURCE_PROXY
                     : row->host_timed  ? MUSTER_SOURCE_HOST
                                        : MUSTER_SOURCE_NONE;
    if (source && !totals->hist) {
        totals->hist = muster_arena_array(memory, 1, sizeof *totals->hist);
        if (!totals->hist)
            return;
    }
    totals->count += row->count;
    totals->bytes += row->bytes;
    totals->graph += row->graph;
    totals->api_only += row->api_only;
    totals->timed[MUSTER_SOURCE_GPU] += row->timed;
    totals->timed[MUSTER_SOURCE_EVENT] += row->event_timed;
    totals->timed[MUSTER_SOURCE_PROXY] += row->proxy_timed;
    totals->timed[MUSTER_SOURCE_HOST] += row->host_timed;
    totals->sum_ns[source] += row->sum_ns;
    add_estimate(totals, row, source);
    if (muster_source_rank(source) > muster_source_rank(totals->source)) {
        totals->source = source;
        memset(totals->hist, 0, sizeof *totals->hist);
    }
    if (source && source == totals->source)
        muster_hist_merge(totals->hist, &row->hist);
}

void muster_totals_quantiles(const struct muster_totals *totals, const uint64_t *value, size_t n,
                             double *p50_us, double *p99_us)
{
    *p50_us = *p99_us = NAN;
    if (!totals->source)
        return;
    if (n && n >= totals->timed[totals->source]) {
        *p50_us = (double)muster_quantile_exact(value, n, 0.50) / (double)MUSTER_NS_PER_US;
        *p99_us = (double)muster_quantile_exact(value, n, 0.99) / (double)MUSTER_NS_PER_US;
    } else if (totals->hist && muster_hist_total(totals->hist)) {
        *p50_us = muster_hist_quantile_ns(totals->hist, 0.50) / (double)MUSTER_NS_PER_US;
        *p99_us = muster_hist_quantile_ns(totals->hist, 0.99) / (double)MUSTER_NS_PER_US;
    }
}

struct muster_class_key muster_build_key(const struct muster_build *build, uint32_t comm,
                                         int32_t rank, uint32_t entry,
                                         const struct muster_class_key *own)
{
    bool p2p = muster_func_is_p2p(own->func);
    switch (build->report->by) {
    case MUSTER_BY_COMM:
        return (struct muster_class_key){.comm = comm, .rank = -1, .peer = -1};
    case MUSTER_BY_SIZE:
        return (struct muster_class_key){.comm = MUSTER_NO_COMM,
                                         .rank = -1,
                                         .peer = -1,
                                         .func = own->func,
                                         .size_log2 = own->size_log2};
    case MUSTER_BY_RANK_SIZE:
        return (struct muster_class_key){.comm = MUSTER_NO_COMM,
                                         .rank = (int32_t)entry,
                                         .peer = -1,
                                         .func = own->func,
                                         .size_log2 = own->size_log2};
    case MUSTER_BY_OP:
        break;
    }
    return (struct muster_class_key){.comm = comm,
                                     .rank = p2p ? rank : -1,
                                     .peer = p2p ? own->peer : -1,
                                     .func = own->func,
                                     .algo = own->algo,
                                     .proto = own->proto,
                                     .size_log2 = own->size_log2};
}

/* ---- totals ---- */

/* What a class and its communicator learn from a row. */
static void note(struct muster_build *build, uint32_t at, const struct muster_place *place,
                 const struct muster_seg_row *row)
{
    struct muster_class *class = &build->class[at];
    class->mixed |= class->totals.count > row->count && class->nranks != place->nranks;
    class->nranks = place->nranks;
    class->channels = row->channels;
    build->report->comm[place->comm].ops += row->count;
    build->unattributed += place->stray ? row->count : 0;
}

static void note_to_itself(struct muster_totals *rank, const struct muster_place *place,
                           const struct muster_seg_row *row)
{
    uint64_t timed = row->timed + row->event_timed + row->proxy_timed + row->host_timed;
    if (muster_func_is_p2p(row->func) && place->rank >= 0 && row->peer == place->rank &&
        timed < row->count)
        rank->to_itself += row->count - timed;
}

static void count_rows(struct muster_build *build, uint32_t p)
{
    const struct muster_segment *segment = build->run->process[p].segment;
    for (size_t i = 0; i < MUSTER_SEG_ROWS; i++) {
        const struct muster_seg_row *row = &segment->row[i];
        if (!row->comm || !row->count)
            continue;
        struct muster_place place = muster_build_place(build, p, row->comm);
        struct muster_class_key own = {.func = row->func,
                                       .algo = row->algo,
                                       .proto = row->proto,
                                       .size_log2 = row->size_log2,
                                       .peer = row->peer};
        struct muster_class_key key =
            muster_build_key(build, place.comm, place.rank, place.entry, &own);
        uint32_t class = muster_build_class(build, &key, true);
        if (class == MUSTER_NO_CLASS)
            return;
        muster_totals_add_row(&build->class[class].totals, row, &build->memory);
        muster_totals_add_row(&build->rank[place.entry], row, &build->memory);
        note(build, class, &place, row);
        note_to_itself(&build->rank[place.entry], &place, row);
    }
}

/* The process's cost includes that of its communicators, which is their GPU's. */
static void move_cost(struct muster_report_rank *first, struct muster_report_rank *rank,
                      const struct muster_seg_comm *comm)
{
    double cost_s = (double)comm->timing_cost_ns / (double)MUSTER_NS_PER_S;
    if (rank == first || isnan(rank->cost_s))
        return;
    cost_s = cost_s < first->cost_s ? cost_s : first->cost_s;
    rank->cost_s += cost_s;
    first->cost_s -= cost_s;
}

static void add_segment_counts(struct muster_build *build, uint32_t p)
{
    const struct muster_segment *segment = build->run->process[p].segment;
    struct muster_report_rank *first = &build->report->rank[build->first_entry[p]];
    for (size_t d = 0; d < MUSTER_DROPS; d++)
        first->drops[d] = segment->drops[d];
    first->lost_log = segment->lost_log;
    if (!isnan(first->cost_s))
        first->cost_s = (double)segment->timing_cost_ns / (double)MUSTER_NS_PER_S;
    for (size_t i = 0; i <= MUSTER_SEG_COMMS; i++) {
        const struct muster_seg_comm *comm = &segment->comm[i];
        if (!comm->uid)
            continue;
        struct muster_place place = muster_build_place(build, p, comm->uid);
        struct muster_report_rank *rank = &build->report->rank[place.entry];
        rank->captured += comm->captured;
        move_cost(first, rank, comm);
        /* the process's count includes those of its communicators: move them to their GPU */
        for (size_t d = 0; rank != first && d < MUSTER_DROPS; d++) {
            uint64_t own = comm->drops[d];
            own = own < first->drops[d] ? own : first->drops[d];
            rank->drops[d] += own;
            first->drops[d] -= own;
        }
    }
}

void muster_build_tally(struct muster_build *build)
{
    for (uint32_t p = 0; p < build->run->processes; p++) {
        add_segment_counts(build, p);
        count_rows(build, p);
    }
    muster_build_waits(build);
}

/* ---- durations ---- */

struct muster_times muster_build_rank_times(const struct muster_build *build, uint32_t rank,
                                            struct muster_arena *memory)
{
    const struct muster_view *view = build->view;
    uint32_t p = view->gpu[rank].process;
    struct muster_times times = {0};
    size_t most = 0;
    for (size_t m = build->first_member[p]; m < build->first_member[p + 1]; m++)
        most += view->member[view->by_uid[m]].ops;
    times.value = muster_arena_array(memory, most, sizeof *times.value);
    for (size_t m = build->first_member[p]; m < build->first_member[p + 1]; m++) {
        const struct muster_view_member *own = &view->member[view->by_uid[m]];
        bool counts = times.value && own->gpu == rank;
        for (uint32_t i = own->first_op; counts && i < own->first_op + own->ops; i++) {
            const struct muster_view_op *op = &view->op[i];
            if (op->source && op->source == build->rank[rank].source)
                times.value[times.n++] = op->end_ns - op->begin_ns;
        }
    }
    return times;
}

/* The class that the last operation of a view's class was found to be of. */
struct known {
    uint32_t member, class;
};

/* MUSTER_NO_CLASS: there is none, or its row goes by another source. */
static uint32_t class_of(struct muster_build *build, const struct muster_view_op *op,
                         struct known *known)
{
    const struct muster_view *view = build->view;
    const struct muster_view_member *member = &view->member[op->member];
    const struct muster_view_class *of = &view->class[op->class];
    if (!op->source)
        return MUSTER_NO_CLASS;
    if (known[op->class].member != op->member || muster_func_is_p2p(op->func)) {
        struct muster_class_key own = {.func = of->func,
                                       .algo = of->algo,
                                       .proto = of->proto,
                                       .size_log2 = of->size_log2,
                                       .peer = (int32_t)op->peer};
        struct muster_class_key key =
            muster_build_key(build, member->comm + 1, member->rank, member->gpu, &own);
        known[op->class] = (struct known){op->member, muster_build_class(build, &key, false)};
    }
    uint32_t class = known[op->class].class;
    return class != MUSTER_NO_CLASS && op->source == build->class[class].totals.source
               ? class
               : MUSTER_NO_CLASS;
}

static struct known *nothing_known(const struct muster_view *view, struct muster_arena *memory)
{
    struct known *known = muster_arena_array(memory, view->classes + 1, sizeof *known);
    for (size_t i = 0; known && i < view->classes; i++)
        known[i] = (struct known){MUSTER_VIEW_NONE, MUSTER_NO_CLASS};
    return known;
}

/* How many durations each class has, counted one place further on, so that filling leaves first[c]
 * where class c begins. Returns how many there are in all. */
static size_t count_times(struct muster_build *build, struct known *known, size_t *first)
{
    const struct muster_view *view = build->view;
    size_t n = 0;
    for (size_t i = 0; i < view->ops; i++) {
        uint32_t class = class_of(build, &view->op[i], known);
        if (class != MUSTER_NO_CLASS) {
            first[class + 2]++;
            n++;
        }
    }
    for (size_t c = 2; c < build->classes + 2; c++)
        first[c] += first[c - 1];
    return n;
}

struct muster_sample_groups muster_build_class_times(struct muster_build *build,
                                                     struct muster_arena *memory)
{
    const struct muster_view *view = build->view;
    struct known *known = nothing_known(view, memory);
    size_t *first = muster_arena_array(memory, build->classes + 2, sizeof *first);
    size_t n = known && first ? count_times(build, known, first) : 0;
    uint64_t *value = known && first ? muster_arena_array(memory, n + 1, sizeof *value) : NULL;
    for (size_t i = 0; value && i < view->ops; i++) {
        uint32_t class = class_of(build, &view->op[i], known);
        if (class != MUSTER_NO_CLASS)
            value[first[class + 1]++] = view->op[i].end_ns - view->op[i].begin_ns;
    }
    return (struct muster_sample_groups){.value = value, .first = first};
}
