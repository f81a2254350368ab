/* A link that becomes slow while the job runs: the transfers of a class take longer from one moment
 * on, and go on doing so, and with them those of the communicator as a whole. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "diagnose/confidence.h"
#include "diagnose/transfer/transfer_internal.h"

#define LONGER     1.6  /* a class, by its medians */
#define AS_A_WHOLE 1.4  /* all classes of the communicator, by time */
#define STRAYS     0.05 /* of a side may lie on the other's */
#define COVERED    0.01 /* of the covered time, the least that is reported */
enum {
    SIDE_LEAST = 30, /* operations before, and since */
    OTHER_LEAST = 10 /* of another class, to count */
};

/* Where a class became slow. */
struct change {
    size_t from, at, end; /* of the sorted transfers: before, since */
    uint64_t before_ns, since_ns;
};

/* Transfers of the class on the wrong side of `limit`, if it changed at `at`. */
static bool separates(const struct muster_transfer *t, size_t at, size_t n, uint64_t limit)
{
    size_t high = 0, low = 0;
    for (size_t i = 0; i < at; i++)
        high += t[i].ns >= limit;
    for (size_t i = at; i < n; i++)
        low += t[i].ns < limit;
    return (double)high <= STRAYS * (double)at && (double)low <= STRAYS * (double)(n - at);
}

/* The place that parts those below the limit from those above best. */
static size_t best_split(const struct muster_transfer *t, size_t n, uint64_t limit)
{
    size_t best = 0;
    int64_t sum = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        sum += t[i].ns < limit ? 1 : -1;
        if (sum > most) {
            most = sum;
            best = i + 1;
        }
    }
    return best;
}

static bool find_change(const struct muster_transfers *sorted, size_t from, size_t end,
                        uint64_t *scratch, struct change *change)
{
    const struct muster_transfer *t = sorted->at + from;
    size_t n = end - from;
    if (n < 2 * SIDE_LEAST)
        return false;
    uint64_t first = muster_transfers_median(t, n / 4, scratch);
    uint64_t last = muster_transfers_median(t + n - n / 4, n / 4, scratch);
    size_t tail = n / 8;
    uint64_t newest = muster_transfers_median(t + n - tail, tail, scratch);
    last = newest > last ? newest : last;
    if ((double)last < LONGER * (double)first)
        return false;
    uint64_t limit = (uint64_t)sqrt((double)first * (double)last);
    size_t at = best_split(t, n, limit);
    if (at < SIDE_LEAST || n - at < SIDE_LEAST || !separates(t, at, n, limit))
        return false;
    *change = (struct change){from, from + at, end, muster_transfers_median(t, at, scratch),
                              muster_transfers_median(t + at, n - at, scratch)};
    return (double)change->since_ns >= LONGER * (double)change->before_ns;
}

/* All classes since then against what they took before. */
struct whole {
    double took_ns, usual_ns;
    uint64_t ops;
};

static void weigh(const struct muster_transfers *sorted, uint32_t place, uint64_t *scratch,
                  struct whole *whole)
{
    memset(whole, 0, sizeof *whole);
    for (size_t from = 0, end; from < sorted->n; from = end) {
        end = muster_transfers_group(sorted, from);
        size_t at = from;
        while (at < end && sorted->at[at].place < place)
            at++;
        if (at - from < OTHER_LEAST || end - at < OTHER_LEAST)
            continue;
        uint64_t usual = muster_transfers_median(sorted->at + from, at - from, scratch);
        whole->usual_ns += (double)usual * (double)(end - at);
        whole->ops += end - at;
        for (size_t i = at; i < end; i++)
            whole->took_ns += (double)sorted->at[i].ns;
    }
}

static double us(uint64_t ns)
{
    return (double)ns / (double)MUSTER_NS_PER_US;
}

static void describe(const struct change *change, const struct whole *whole, double covered_ns,
                     struct muster_finding *finding)
{
    finding->cost_s = (whole->took_ns - whole->usual_ns) / (double)MUSTER_NS_PER_S;
    finding->cost_share = covered_ns > 0 ? (whole->took_ns - whole->usual_ns) / covered_ns : 0;
    finding->confidence = muster_confidence_transfer_history();
    muster_finding_line(&finding->evidence,
                        "%s #%" PRIu64 " and those like it take %.1f us, the %zu before took "
                        "%.1f us; of the %zu since then at most 1 in 20 was as short",
                        muster_func_name(finding->op.func), finding->op.index, us(change->since_ns),
                        change->at - change->from, us(change->before_ns), change->end - change->at);
    muster_finding_line(&finding->evidence,
                        "all ranks are in view, none is late, and %" PRIu64
                        " operations since then took %.1f times as long as before",
                        whole->ops, whole->took_ns / whole->usual_ns);
    snprintf(finding->advice, sizeof finding->advice,
             "look at what changed then: link speed and errors, clocks, other jobs on the same "
             "links or GPUs");
}

int muster_transfer_history(const struct muster_view *view, uint32_t comm, uint32_t from,
                            uint32_t to, struct muster_transfers *sorted,
                            const struct muster_view_span *span, struct muster_findings *findings)
{
    struct change best = {0}, change;
    double most = 0;
    uint64_t scratch[MUSTER_TRANSFERS_LOOK];
    for (size_t begin = 0, end; begin < sorted->n; begin = end) {
        end = muster_transfers_group(sorted, begin);
        if (!find_change(sorted, begin, end, scratch, &change))
            continue;
        double cost = (double)(change.since_ns - change.before_ns) * (double)(end - change.at);
        if (cost > most) {
            most = cost;
            best = change;
        }
    }
    struct whole whole = {0};
    int result = 0;
    if (most > 0)
        weigh(sorted, sorted->at[best.at].place, scratch, &whole);
    uint32_t gpu = view->member[view->comm[comm].first_member].gpu;
    double covered =
        (double)span[from == MUSTER_VIEW_NONE ? gpu : view->member[from].gpu].covered_ns;
    if (most > 0 && whole.took_ns >= AS_A_WHOLE * whole.usual_ns &&
        whole.took_ns - whole.usual_ns >= COVERED * covered) {
        struct muster_finding *finding = muster_findings_add(findings);
        result = finding ? 0 : -1;
        if (finding) {
            muster_transfer_name(view, comm, from, to, sorted->at[best.at].op, finding);
            describe(&best, &whole, covered, finding);
        }
    }
    return result;
}
