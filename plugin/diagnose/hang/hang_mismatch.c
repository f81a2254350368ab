/* Another operation at the same place. */
#include <inttypes.h>

#include "base/text.h"
#include "diagnose/hang/hang_case.h"

/* How many ranks called what member `i` called at this place. */
static uint32_t side_size(const struct muster_hang_comm *comm, uint32_t i, uint64_t number)
{
    const struct muster_hang_call *mine = muster_hang_call(&comm->member[i], number);
    uint32_t n = 0;
    for (uint32_t j = 0; mine && j < comm->members; j++) {
        const struct muster_hang_call *call = muster_hang_call(&comm->member[j], number);
        n += call && muster_hang_same_call(call, mine);
    }
    return n;
}

/* The member that stands for the largest side; *tie: another side is as large. */
static uint32_t largest_side(const struct muster_hang_comm *comm, uint64_t number, bool *tie)
{
    uint32_t best = 0, size = 0;
    *tie = false;
    for (uint32_t i = 0; i < comm->members; i++) {
        uint32_t n = side_size(comm, i, number);
        const struct muster_hang_call *call = muster_hang_call(&comm->member[i], number);
        const struct muster_hang_call *of_best = muster_hang_call(&comm->member[best], number);
        bool other = call && of_best && !muster_hang_same_call(call, of_best);
        if (n > size) {
            best = i;
            size = n;
            *tie = false;
        } else if (n == size && other) {
            *tie = true;
        }
    }
    return best;
}

static void report_sides(struct muster_hang_case *hang, uint64_t number, uint32_t best)
{
    const struct muster_hang_comm *comm = hang->comm;
    muster_hang_describe_calls(hang, &comm->member[best], number);
    for (uint32_t i = 0; i < comm->members && hang->finding.evidence.n < 8; i++)
        if (i != best && (hang->role[i] & MUSTER_HANG_CULPRIT))
            muster_hang_describe_calls(hang, &comm->member[i], number);
    muster_finding_line(&hang->finding.evidence,
                        "all calls before #%" PRIu64 " that are remembered agree", number);
}

bool muster_hang_evaluate_mismatch(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                                   const struct muster_hang_facts *facts)
{
    uint64_t number = facts->differs;
    bool tie;
    if (number == UINT64_MAX || !muster_hang_stands_still(comm, number, cases->threshold_ns))
        return true;
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_MISMATCH);
    if (!hang)
        return false;
    uint32_t best = largest_side(comm, number, &tie);
    const struct muster_hang_call *right = muster_hang_call(&comm->member[best], number);
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_call *call = muster_hang_call(&comm->member[i], number);
        bool odd = call && (tie || !muster_hang_same_call(call, right));
        hang->role[i] = odd                              ? MUSTER_HANG_BOTH
                        : comm->member[i].calls > number ? MUSTER_HANG_VICTIM
                                                         : MUSTER_HANG_BYSTANDER;
    }
    muster_hang_case_op(hang, number, right);
    hang->finding.confidence =
        muster_confidence_hang(MUSTER_FINDING_HANG_MISMATCH, tie               ? MUSTER_PROOF_TIE
                                                             : facts->all_seen ? MUSTER_PROOF_ENDED
                                                                               : MUSTER_PROOF_PART);
    report_sides(hang, number, best);
    if (tie)
        muster_finding_line(&hang->finding.not_observable,
                            "which side is wrong: as many ranks called the one as the other");
    muster_hang_describe_limits(hang);
    muster_hang_case_close(hang);
    muster_text_copy(hang->finding.advice, sizeof hang->finding.advice,
                     "compare the code path that led the named ranks to this call: a branch, a "
                     "batch or a size that differs between ranks");
    return true;
}
