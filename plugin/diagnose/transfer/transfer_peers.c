/* Communicators of the same shape that do the same: of a model's tensor-parallel groups one whose
 * transfers take far longer than everybody else's has a slow link. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "diagnose/confidence.h"
#include "diagnose/transfer/transfer_internal.h"

#define LONGER  2.5  /* than the median of the others */
#define SPREAD  1.5  /* of the others around their median */
#define COVERED 0.01 /* of the covered time, the least that is reported */
enum {
    OTHERS_LEAST = 3,
    OPS_LEAST = 40,
};

void muster_transfer_summarise(const struct muster_view *view, uint32_t comm,
                               const struct muster_transfers *sorted, struct muster_arena *memory,
                               struct muster_transfer_classes *to)
{
    uint64_t sample[MUSTER_TRANSFERS_LOOK];
    for (size_t from = 0, end; from < sorted->n; from = end) {
        end = muster_transfers_group(sorted, from);
        const struct muster_transfer *first = &sorted->at[from];
        if (end - from < OPS_LEAST)
            continue;
        struct muster_transfer_class *class =
            muster_arena_add(memory, &to->at, &to->n, sizeof *class);
        *class = (struct muster_transfer_class){.comm = comm,
                                                .class = first->class,
                                                .nranks = view->comm[comm].nranks,
                                                .nnodes = view->comm[comm].nnodes,
                                                .count = first->count,
                                                .n = end - from,
                                                .op = first->op};
        size_t n = muster_transfers_sample(first, class->n, sample);
        class->median_ns = muster_sample_quantile(sample, n, 0.5);
        class->low_ns = muster_sample_quantile(sample, n, 0.1);
        class->high_ns = muster_sample_quantile(sample, n, 0.9);
        for (size_t i = from; i < end; i++)
            class->sum_ns += sorted->at[i].ns;
    }
}

static int by_shape(const void *left, const void *right)
{
    const struct muster_transfer_class *a = left, *b = right;
    const uint64_t one[] = {a->nranks, a->nnodes, a->class, a->count, a->median_ns, a->comm};
    const uint64_t two[] = {b->nranks, b->nnodes, b->class, b->count, b->median_ns, b->comm};
    for (unsigned i = 0; i < sizeof one / sizeof one[0]; i++)
        if (one[i] != two[i])
            return one[i] < two[i] ? -1 : 1;
    return 0;
}

static bool same_shape(const struct muster_transfer_class *a, const struct muster_transfer_class *b)
{
    return a->nranks == b->nranks && a->nnodes == b->nnodes && a->class == b->class &&
           a->count == b->count;
}

/* The slowest of n of one shape, in the order of their medians, if it stands out of the others and
 * these do not differ. */
static bool stands_out(const struct muster_transfer_class *at, size_t n)
{
    if (n < OTHERS_LEAST + 1)
        return false;
    const struct muster_transfer_class *slow = &at[n - 1];
    double usual = (double)at[(n - 1) / 2].median_ns;
    return (double)slow->median_ns >= LONGER * usual && slow->low_ns > at[n - 2].high_ns &&
           (double)at[n - 2].median_ns <= SPREAD * usual &&
           usual <= SPREAD * (double)at[0].median_ns;
}

static void describe(const struct muster_transfer_class *at, size_t n, double covered_ns,
                     struct muster_finding *finding)
{
    const struct muster_transfer_class *slow = &at[n - 1];
    double usual = (double)at[(n - 1) / 2].median_ns;
    double cost_ns = (double)slow->sum_ns - usual * (double)slow->n;
    finding->cost_s = cost_ns / (double)MUSTER_NS_PER_S;
    finding->cost_share = covered_ns > 0 ? cost_ns / covered_ns : 0;
    finding->confidence = muster_confidence_transfer_peers();
    muster_finding_line(
        &finding->evidence,
        "%s of this size typically takes %.1f us here, and %.1f us in the %zu other "
        "communicators of %" PRIu32 " ranks that do the same; nine in ten take "
        "longer here than nine in ten there",
        muster_func_name(finding->op.func), (double)slow->median_ns / (double)MUSTER_NS_PER_US,
        usual / (double)MUSTER_NS_PER_US, n - 1, slow->nranks);
    muster_finding_line(&finding->evidence, "all its ranks are in view, none is late");
    snprintf(finding->advice, sizeof finding->advice,
             "compare the links between these ranks with those of the other groups: muster topo "
             "and muster doctor");
}

int muster_transfer_compare(const struct muster_view *view, struct muster_transfer_classes *classes,
                            const struct muster_view_span *span, struct muster_findings *findings)
{
    if (classes->n > 1)
        qsort(classes->at, classes->n, sizeof *classes->at, by_shape);
    for (size_t from = 0, end; from < classes->n; from = end) {
        for (end = from; end < classes->n && same_shape(&classes->at[from], &classes->at[end]);)
            end++;
        const struct muster_transfer_class *slow = &classes->at[end - 1];
        const struct muster_view_comm *comm = &view->comm[slow->comm];
        double covered = (double)span[view->member[comm->first_member].gpu].covered_ns;
        double usual = (double)classes->at[from + (end - from - 1) / 2].median_ns;
        double cost = (double)slow->sum_ns - usual * (double)slow->n;
        if (!stands_out(&classes->at[from], end - from) || cost < COVERED * covered ||
            muster_transfer_named(findings, comm->id, MUSTER_FINDING_SLOW_TRANSFER))
            continue;
        struct muster_finding *finding = muster_findings_add(findings);
        if (!finding)
            return -1;
        muster_transfer_name(view, slow->comm, MUSTER_VIEW_NONE, MUSTER_VIEW_NONE, slow->op,
                             finding);
        describe(&classes->at[from], end - from, covered, finding);
    }
    return 0;
}
