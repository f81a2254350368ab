/* Sends and receives, counted per directed pair. */
#include <inttypes.h>

#include "base/text.h"
#include "diagnose/hang/hang_case.h"

static bool add_case(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                     const struct muster_hang_member *waiter,
                     const struct muster_hang_member *missing, const struct muster_hang_pair *pair,
                     uint64_t posted_there, bool dead)
{
    struct muster_hang_case *hang = muster_hang_case_add(
        cases, comm, dead ? MUSTER_FINDING_HANG_DEAD : MUSTER_FINDING_HANG_ABSENT);
    if (!hang)
        return false;
    hang->tentative = !dead && cases->who[missing->who].busy;
    hang->proven = dead || cases->who[missing->who].proven;
    hang->role[waiter - comm->member] = MUSTER_HANG_VICTIM;
    hang->role[missing - comm->member] = MUSTER_HANG_CULPRIT;
    cases->who[waiter->who].busy |= dead;
    cases->who[missing->who].dead |= dead;
    const struct muster_hang_call call = {
        .count = pair->count,
        .root = -1,
        .func = pair->send ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND,
        .dtype = pair->dtype,
    };
    muster_hang_case_op(hang, posted_there, &call);
    muster_finding_line(&hang->finding.evidence,
                        "rank %" PRId32 " posted %" PRIu64 " %s rank %" PRId32
                        ", which posted %" PRIu64 " %s",
                        waiter->rank, pair->posted, pair->send ? "sends to" : "receives from",
                        missing->rank, posted_there, pair->send ? "receives" : "sends");
    muster_hang_describe_absent(hang, missing, "", false);
    hang->finding.confidence = muster_confidence_hang(
        hang->finding.kind, hang->proven ? MUSTER_PROOF_ENDED : MUSTER_PROOF_ORDER);
    muster_text_copy(hang->finding.advice, sizeof hang->finding.advice,
                     dead ? "look for the first error in the log of the rank that is gone"
                          : "compare the schedules of the two ranks: one posted an operation that "
                            "the other did not");
    muster_hang_describe_limits(hang);
    muster_hang_case_close(hang);
    return true;
}

static bool evaluate_pair(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                          const struct muster_hang_member *waiter,
                          const struct muster_hang_pair *pair, bool dead)
{
    const struct muster_hang_member *there = muster_hang_by_rank(comm, pair->peer);
    uint64_t posted = pair->posted;
    bool waits = muster_hang_waits_for_peer(comm, waiter, pair, &posted);
    if (!there || there == waiter || muster_hang_waited_ns(waiter) < cases->threshold_ns)
        return true;
    uint64_t since = muster_hang_unix_ns(waiter, pair->enqueue_ns);
    bool died = muster_hang_died_first(comm, there, since, cases->threshold_ns);
    if (dead) {
        /* It may have gone inside an operation that it had posted. */
        bool inside =
            (pair->open || waiter->ended == MUSTER_HANG_OPEN) && !muster_hang_gone(waiter);
        return !died || (!waits && !inside) ||
               add_case(cases, comm, waiter, there, pair, posted, true);
    }
    /* One that goes on calling may be on its way. */
    bool missed =
        muster_hang_gone(there) ||
        muster_hang_latest_unix_ns(comm) >= muster_hang_called_unix_ns(there) + cases->threshold_ns;
    if (died || !waits || !missed)
        return true;
    if (!cases->who[there->who].busy && cases->who[there->who].unsure) {
        muster_finding_line(cases->not_observable,
                            "communicator %016" PRIx64 ": ranks wait in it, perhaps for one that "
                            "is not visible here",
                            comm->id);
        return true;
    }
    return add_case(cases, comm, waiter, there, pair, posted, false);
}

bool muster_hang_evaluate_pairs(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                                bool dead)
{
    for (uint32_t from = 0; from < comm->members; from++) {
        const struct muster_hang_member *member = &comm->member[from];
        for (uint32_t i = 0; i < member->pairs; i++)
            if (!evaluate_pair(cases, comm, member, &member->pair[i], dead))
                return false;
    }
    return true;
}
