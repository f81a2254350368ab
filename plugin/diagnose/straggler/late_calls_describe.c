#include "diagnose/straggler/late_calls_describe.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/text.h"
#include "diagnose/confidence.h"

#define PERSISTENT 0.6 /* of the rounds: as of other late ranks */
/* Of bench/verdicts --no-gpu-times, seeds 1 to 60, faults that cost 1 % and more: true costs over
 * those said, a tenth below and a tenth above. */
#define COST_LOW  0.79
#define COST_HIGH 2.45

static void put_evidence(const struct muster_view *view, const struct muster_late_caller *caller,
                         struct muster_finding *finding)
{
    double ms = (double)MUSTER_NS_PER_MS, hits = caller->hits;
    muster_finding_line(&finding->evidence,
                        "by when hosts called: in %" PRIu32 " of %" PRIu32 " steps rank %" PRId32
                        " went on later than the %" PRIu32
                        " others of its host after all had waited for their GPUs, and was still "
                        "later when all waited again",
                        caller->hits, caller->rounds, finding->rank[0], caller->ranks - 1);
    muster_finding_line(&finding->evidence,
                        "in these by %.2f ms on average, the next latest by %.2f ms",
                        caller->late_ns / hits / ms, caller->next_ns / hits / ms);
    muster_finding_line(
        &finding->not_observable,
        "whether its host or its GPU kept it: NCCL before 2.28.3, and timing light, "
        "give no GPU times");
    muster_finding_line(
        &finding->not_observable,
        "what it cost is what the others of host %s waited for it at most: ranks of "
        "other hosts may have been later, and its GPU may have had work left",
        view->gpu[view->member[caller->member].gpu].host);
}

void muster_late_calls_describe(const struct muster_view *view,
                                const struct muster_late_caller *caller,
                                struct muster_findings *findings)
{
    const struct muster_view_member *member = &view->member[caller->member];
    const struct muster_view_gpu *gpu = &view->gpu[member->gpu];
    struct muster_finding *finding = muster_findings_add(findings);
    if (!finding)
        return;
    finding->kind = MUSTER_FINDING_LATE_RANK;
    finding->comm = view->comm[member->comm].id;
    finding->rank[finding->ranks++] = gpu->rank;
    muster_text_copy(finding->host, sizeof finding->host, gpu->host);
    finding->gpu = gpu->gpu_index;
    muster_finding_set_op(finding, view, &view->comm[member->comm], caller->first);
    finding->mode = caller->hits >= PERSISTENT * caller->rounds ? MUSTER_MODE_PERSISTENT
                                                                : MUSTER_MODE_INTERMITTENT;
    finding->cause = MUSTER_CAUSE_UNKNOWN;
    finding->by_calls = true;
    finding->since_unix_ns = caller->first->enqueue_ns + (uint64_t)gpu->unix_ns;
    finding->cost_s = caller->gain_ns / (double)MUSTER_NS_PER_S;
    finding->cost_share = caller->gain_ns / caller->run_ns;
    finding->cost_run_s = finding->cost_s;
    finding->cost_low_s = COST_LOW * finding->cost_s;
    finding->cost_high_s = COST_HIGH * finding->cost_s;
    finding->confidence = muster_confidence_late_calls();
    finding->stretch[finding->stretches++] =
        (struct muster_finding_stretch){gpu->rank, MUSTER_CAUSE_UNKNOWN, finding->since_unix_ns,
                                        caller->last->enqueue_ns + (uint64_t)gpu->unix_ns};
    put_evidence(view, caller, finding);
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "look at its process first: data loading, CPU time, others on its cores; then "
                     "at its GPU. NCCL 2.28.3 and later give GPU times, which tell them apart");
}

void muster_late_calls_limits(uint32_t blind, uint32_t compared, struct muster_finding_lines *to)
{
    if (blind > 0 && compared == 0) {
        muster_finding_line(
            to,
            "%" PRIu32 " ranks have no GPU times (NCCL before 2.28.3, or timing "
            "light): late ranks and slow transfers are not seen. By when hosts call "
            "they are only where three and more of a host wait for their GPUs once "
            "a step",
            blind);
    } else if (blind > 0) {
        muster_finding_line(to,
                            "%" PRIu32 " ranks have no GPU times (NCCL before 2.28.3, or timing "
                            "light): of %" PRIu32 " of them it was compared when their hosts call; "
                            "what GPUs and transfers took is not seen",
                            blind, compared);
    }
}
