/* The rows of the report under way: finding the class of an operation, and adding up what belongs
 * to a row. */
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

/* ---- totals ---- */

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
