/* hosts.bandwidth and hosts.loss: what pairs of hosts measured with each other. */
#include <stdlib.h>

#include "doctor/hosts/hosts_evaluation.h"

static const char *why_unmeasured(const struct muster_evaluation *evaluation)
{
    return evaluation->result->quick ? "--quick" : "no pair could be measured";
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t n)
{
    if (n == 0)
        return -1;
    qsort(values, n, sizeof *values, by_size);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Median of what was measured at host i, both ways; of all hosts for i = n. */
static double median_of(const struct muster_evaluation *evaluation, unsigned i, double *room)
{
    size_t n = 0;
    for (unsigned at = 0; at < evaluation->n; at++) {
        const struct muster_hosts_seen *seen = &evaluation->result->seen[at];
        for (size_t k = 0; k < seen->flows; k++)
            if (seen->flow[k].gbps >= 0 &&
                (i == evaluation->n || at == i || seen->flow[k].peer == i))
                room[n++] = seen->flow[k].gbps;
    }
    return median(room, n);
}

/* Below this part of the job's median a host or a pair is reported. As p2p.bandwidth's 70 %: the
 * hosts of a job are alike, and one second of TCP in a quiet network varies by a tenth; at a half a
 * host with one of two bonded links just escaped, at 0.9 a busy one would be reported. */
static const double slow_part = 0.7;

/* A pair has one measurement each way, and any busy processor shows in that: below half, and only
 * where there are enough others to compare with. */
static const double slow_pair_part = 0.5;
enum { ENOUGH = 8 };

static void report_slow_pairs(struct muster_evaluation *evaluation, struct muster_check *check,
                              const double *of, double all)
{
    for (unsigned i = 0; i < evaluation->n; i++) {
        const struct muster_hosts_seen *seen = &evaluation->result->seen[i];
        for (size_t k = 0; k < seen->flows; k++) {
            unsigned peer = seen->flow[k].peer;
            if (seen->flow[k].gbps < 0 || seen->flow[k].gbps >= slow_pair_part * all ||
                peer >= evaluation->n || of[i] < slow_part * all || of[peer] < slow_part * all)
                continue;
            muster_check_worse(check, MUSTER_CHECK_WARNING);
            muster_check_evidence(check, "from %s to %s: %.2f Gb/s", evaluation->name[peer],
                                  evaluation->name[i], seen->flow[k].gbps);
            if (!check->found[0])
                muster_check_found(check, "from %s to %s less than %.0f %% of the job's median",
                                   evaluation->name[peer], evaluation->name[i],
                                   slow_pair_part * 100);
        }
    }
}

void muster_hosts_evaluate_bandwidth(struct muster_evaluation *evaluation)
{
    size_t n = 0;
    struct muster_check *check =
        muster_check_begin(evaluation->checks, "hosts.bandwidth", "F33,F58,F60");
    for (unsigned i = 0; i < evaluation->n; i++)
        n += evaluation->result->seen[i].flows;
    double *room = muster_arena_array(evaluation->arena, n + 1, sizeof *room);
    double *of = muster_arena_array(evaluation->arena, evaluation->n + 1ul, sizeof *of);
    double all = room && of ? median_of(evaluation, evaluation->n, room) : -1;
    if (!room || !of || all < 0) {
        muster_check_unchecked(check, "%s", why_unmeasured(evaluation));
        return;
    }
    muster_check_expected(check, "one TCP connection carries at least %.0f %% of the job's median",
                          slow_part * 100);
    muster_check_evidence(check, "median %.2f Gb/s, %zu measurements", all, n);
    for (unsigned i = 0; i < evaluation->n; i++) {
        of[i] = median_of(evaluation, i, room);
        if (evaluation->n < 3 || of[i] < 0 || of[i] >= slow_part * all)
            continue;
        muster_check_worse(check, MUSTER_CHECK_PROBLEM);
        muster_check_evidence(check, "host %s: %.2f Gb/s", evaluation->name[i], of[i]);
        if (!check->found[0])
            muster_check_found(check, "host %s carries less than %.0f %% of the job's median",
                               evaluation->name[i], slow_part * 100);
    }
    if (n >= ENOUGH)
        report_slow_pairs(evaluation, check, of, all);
    if (check->status >= MUSTER_CHECK_WARNING)
        muster_check_advice(check, "compare its link's rate (ethtool), its CPU's load and "
                                   "hosts.loss with a host that is not slow");
    if (!check->found[0])
        muster_check_found(check, "even");
}

/* ---- loss ---- */

/* 4 of 2,000 datagrams: one that is lost by chance is not reported, and 0.2 % already costs TCP and
 * RoCE most of their speed. At 1 % it is a problem. */
enum { LOST_LEAST = 4, PROBLEM_PART = 100 };
static const double loss_part = 0.002;

static bool is_lossy(const struct muster_hosts_flow *flow)
{
    return flow->lost >= LOST_LEAST && (double)flow->lost >= loss_part * (double)flow->expected;
}

static const char *why_loss(const struct muster_evaluation *evaluation, unsigned from, unsigned to)
{
    const struct muster_hosts_seen *seen = &evaluation->result->seen[to];
    for (size_t k = 0; k < seen->flows; k++)
        if (seen->flow[k].peer == from)
            return muster_arena_format(
                evaluation->arena, "%.1f %% of %llu datagrams lost",
                100.0 * (double)seen->flow[k].lost /
                    (double)(seen->flow[k].expected ? seen->flow[k].expected : 1),
                (unsigned long long)seen->flow[k].expected);
    return "";
}

/* Hosts most of whose measurements are lossy; only these pairs are known, so that the folding of
 * all pairs does not serve. */
static void report_lossy_hosts(struct muster_evaluation *evaluation, struct muster_check *check)
{
    for (unsigned i = 0; i < evaluation->n; i++) {
        unsigned measured = 0, lossy = 0;
        for (unsigned at = 0; at < evaluation->n; at++) {
            const struct muster_hosts_seen *seen = &evaluation->result->seen[at];
            for (size_t k = 0; k < seen->flows; k++) {
                bool mine = at == i || seen->flow[k].peer == i;
                measured += mine && seen->flow[k].expected > 0;
                lossy += mine && is_lossy(&seen->flow[k]);
            }
        }
        if (measured < 6 || lossy * 2 < measured)
            continue;
        muster_check_evidence(check, "host %s loses in %u of %u measurements", evaluation->name[i],
                              lossy, measured);
        muster_check_found(check, "host %s loses packets", evaluation->name[i]);
        for (unsigned j = 0; j < evaluation->n; j++)
            *muster_evaluation_bad(evaluation, i, j) = *muster_evaluation_bad(evaluation, j, i) =
                MUSTER_FOLD_UNKNOWN;
    }
}

void muster_hosts_evaluate_loss(struct muster_evaluation *evaluation)
{
    size_t measured = 0;
    struct muster_check *check = muster_check_begin(evaluation->checks, "hosts.loss", "F58,F60");
    muster_check_expected(check, "fewer than 0.2 %% of full frames lost at 2,000 a second");
    muster_evaluation_forget(evaluation); /* most never meet */
    for (unsigned i = 0; i < evaluation->n; i++) {
        const struct muster_hosts_seen *seen = &evaluation->result->seen[i];
        for (size_t k = 0; k < seen->flows; k++) {
            const struct muster_hosts_flow *flow = &seen->flow[k];
            measured += flow->expected > 0;
            if (flow->peer >= evaluation->n || flow->expected == 0)
                continue;
            *muster_evaluation_bad(evaluation, flow->peer, i) = MUSTER_FOLD_GOOD;
            if (!is_lossy(flow))
                continue;
            *muster_evaluation_bad(evaluation, flow->peer, i) = MUSTER_FOLD_BAD;
            muster_check_worse(check, flow->lost * PROBLEM_PART >= flow->expected
                                          ? MUSTER_CHECK_PROBLEM
                                          : MUSTER_CHECK_WARNING);
        }
    }
    if (check->status >= MUSTER_CHECK_WARNING) {
        report_lossy_hosts(evaluation, check);
        muster_evaluation_fold(evaluation, check, why_loss);
        muster_check_advice(check,
                            "look at the cables, transceivers and port counters (ethtool -S, "
                            "the switch) of these hosts");
    } else if (measured == 0) {
        muster_check_unchecked(check, "%s", why_unmeasured(evaluation));
    } else {
        muster_check_found(check, "none in %zu measurements", measured);
    }
}
