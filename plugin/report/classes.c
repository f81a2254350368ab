#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "export/build.h"

unsigned muster_op_source(const struct muster_op *op)
{
    bool timed = op->source < MUSTER_SOURCES && op->end_ns >= op->begin_ns &&
                 !(op->flags & MUSTER_OP_INCOMPLETE);
    return timed ? op->source : MUSTER_SOURCE_NONE;
}

void muster_totals_add_op(struct muster_totals *totals, const struct muster_op *op, uint64_t bytes)
{
    unsigned source = muster_op_source(op);
    totals->count++;
    totals->bytes += bytes;
    totals->graph += (op->flags & MUSTER_OP_GRAPH) != 0;
    totals->api_only += (op->flags & MUSTER_OP_API_ONLY) != 0;
    if (source) {
        totals->timed[source]++;
        totals->sum_ns[source] += muster_op_duration_ns(op);
        totals->source = source > totals->source ? (uint8_t)source : totals->source;
    }
}

int muster_totals_add_row(struct muster_totals *totals, const struct muster_seg_row *row)
{
    uint8_t source = row->timed         ? MUSTER_SOURCE_GPU
                     : row->proxy_timed ? MUSTER_SOURCE_PROXY
                     : row->host_timed  ? MUSTER_SOURCE_HOST
                                        : MUSTER_SOURCE_NONE;
    if (source && !totals->hist) {
        totals->hist = calloc(1, sizeof *totals->hist);
        if (!totals->hist) {
            return -1;
        }
    }
    totals->count += row->count;
    totals->bytes += row->bytes;
    totals->graph += row->graph;
    totals->api_only += row->api_only;
    totals->timed[MUSTER_SOURCE_GPU] += row->timed;
    totals->timed[MUSTER_SOURCE_PROXY] += row->proxy_timed;
    totals->timed[MUSTER_SOURCE_HOST] += row->host_timed;
    totals->sum_ns[source] += row->sum_ns;
    if (source > totals->source) {
        totals->source = source;
        memset(totals->hist, 0, sizeof *totals->hist);
    }
    if (source && source == totals->source) {
        muster_hist_merge(totals->hist, &row->hist);
    }
    return 0;
}

void muster_totals_quantiles(const struct muster_totals *totals, const uint64_t *value, size_t n,
                             double *p50_us, double *p99_us)
{
    *p50_us = *p99_us = NAN;
    if (!totals->source) {
        return;
    }
    if (n && n >= totals->timed[totals->source]) {
        *p50_us = (double)muster_quantile_exact(value, n, 0.50) / (double)MUSTER_NS_PER_US;
        *p99_us = (double)muster_quantile_exact(value, n, 0.99) / (double)MUSTER_NS_PER_US;
    } else if (totals->hist && muster_hist_total(totals->hist)) {
        *p50_us = muster_hist_quantile_ns(totals->hist, 0.50) / (double)MUSTER_NS_PER_US;
        *p99_us = muster_hist_quantile_ns(totals->hist, 0.99) / (double)MUSTER_NS_PER_US;
    }
}
