/* All entered the same operation, and none ends it. */
#include <inttypes.h>

#include "base/text.h"
#include "diagnose/hang/hang_case.h"

bool muster_hang_stands_still(const struct muster_hang_comm *comm, uint64_t number,
                              uint64_t threshold_ns)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (member->calls <= number || member->over || member->ended == MUSTER_HANG_IDLE)
            continue;
        bool long_enough = muster_hang_waited_ns(member) >= threshold_ns;
        if (!long_enough && !muster_hang_gone(member))
            return false;
        waiting += long_enough;
    }
    return waiting > 0;
}

static void report_not_observable(const struct muster_hang_cases *cases,
                                  const struct muster_hang_comm *comm,
                                  const struct muster_hang_facts *facts)
{
    for (uint32_t i = 0; i < comm->members; i++)
        if (muster_hang_gone(&comm->member[i]) || comm->member[i].over)
            return;
    muster_finding_line(cases->not_observable,
                        "communicator %016" PRIx64 ": all ranks called %" PRIu64
                        " collectives and none since; waiting or idle, completion not observable",
                        comm->id, facts->most);
}

static void report_unseen(const struct muster_hang_cases *cases,
                          const struct muster_hang_comm *comm, uint64_t number)
{
    muster_finding_line(cases->not_observable,
                        "communicator %016" PRIx64 ": ranks wait in #%" PRIu64
                        ", perhaps for one of the %u that are not visible here",
                        comm->id, number, comm->nranks - comm->members);
}

static void describe(struct muster_hang_case *hang, const struct muster_hang_facts *facts,
                     bool first)
{
    const struct muster_hang_comm *comm = hang->comm;
    uint32_t proxies = 0;
    for (uint32_t i = 0; i < comm->members; i++)
        proxies += comm->member[i].proxies_open;
    muster_hang_describe_ended(hang, 8);
    if (proxies)
        muster_finding_line(&hang->finding.evidence, "the network is in it on %u of %u ranks",
                            proxies, comm->members);
    hang->finding.confidence = muster_confidence_hang(
        MUSTER_FINDING_HANG_STUCK,
        facts->open == comm->members ? MUSTER_PROOF_ENDED : MUSTER_PROOF_PART);
    muster_text_copy(hang->finding.advice, sizeof hang->finding.advice,
                     first     ? "a first operation makes the connections: look at interfaces, "
                                 "peer access, /dev/shm and firewalls"
                     : proxies ? "look at the network between the ranks: link state, errors, drops"
                               : "look at the GPUs and their links: Xid messages, NVLink errors; "
                                 "a GPU that computes without end looks the same");
    muster_hang_describe_limits(hang);
    muster_hang_case_close(hang);
}

bool muster_hang_evaluate_stuck(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                                const struct muster_hang_facts *facts)
{
    uint64_t number = facts->done, since;
    if (facts->least == 0 || facts->done >= facts->most || facts->over > 0 || facts->idle > 0 ||
        facts->differs != UINT64_MAX)
        return true;
    if (number >= facts->least)
        number = facts->least - 1;
    if (!muster_hang_stands_still(comm, number, cases->threshold_ns))
        return true;
    if (!facts->stuck) {
        if (facts->open == 0 && facts->least == facts->most)
            report_not_observable(cases, comm, facts);
        return true;
    }
    if (!facts->all_seen) {
        report_unseen(cases, comm, number);
        return true;
    }
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_STUCK);
    if (!hang)
        return false;
    muster_hang_find_waiting(cases, hang, number, &since);
    muster_hang_case_op(hang, number, muster_hang_call_of_any(comm, number));
    muster_finding_line(&hang->finding.evidence,
                        number == 0 ? "it is the communicator's first operation"
                                    : "%" PRIu64 " operations before it ended",
                        number);
    describe(hang, facts, number == 0);
    return true;
}

/* ---- sends and receives ---- */

static bool in_posted_pair(const struct muster_hang_comm *comm,
                           const struct muster_hang_member *member,
                           const struct muster_hang_pair *pair)
{
    uint64_t posted_there;
    return !muster_hang_waits_for_peer(comm, member, pair, &posted_there) &&
           muster_hang_by_rank(comm, pair->peer) != NULL;
}

/* The pair that a member is stuck in although both ends posted; NULL: it is in none. */
static const struct muster_hang_pair *stuck_pair(const struct muster_hang_comm *comm,
                                                 const struct muster_hang_member *member)
{
    const struct muster_hang_pair *newest = NULL;
    uint64_t posted_there;
    if (member->over || member->ended != MUSTER_HANG_OPEN)
        return NULL;
    for (uint32_t i = 0; i < member->pairs; i++) {
        const struct muster_hang_pair *pair = &member->pair[i];
        if (muster_hang_waits_for_peer(comm, member, pair, &posted_there))
            return NULL;
        bool better = !newest || pair->open > newest->open ||
                      (pair->open == newest->open && pair->enqueue_ns > newest->enqueue_ns);
        if (better && in_posted_pair(comm, member, pair))
            newest = pair;
    }
    return newest;
}

bool muster_hang_evaluate_stuck_pairs(struct muster_hang_cases *cases,
                                      struct muster_hang_comm *comm,
                                      const struct muster_hang_facts *facts)
{
    struct muster_hang_case *hang = NULL;
    for (uint32_t i = 0; i < comm->members; i++)
        if (muster_hang_died_first(comm, &comm->member[i], UINT64_MAX / 2, cases->threshold_ns))
            return true; /* that is reason enough */
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        const struct muster_hang_pair *pair = stuck_pair(comm, member);
        if (!pair || muster_hang_waited_ns(member) < cases->threshold_ns)
            continue;
        if (!facts->all_seen) {
            report_unseen(cases, comm, pair->posted ? pair->posted - 1 : 0);
            return true;
        }
        if (!hang) {
            const struct muster_hang_call call = {.count = pair->count,
                                                  .root = -1,
                                                  .func = pair->send ? MUSTER_FUNC_SEND
                                                                     : MUSTER_FUNC_RECV,
                                                  .dtype = pair->dtype};
            hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_STUCK);
            if (!hang)
                return false;
            muster_hang_case_op(hang, pair->posted ? pair->posted - 1 : 0, &call);
        }
        hang->role[i] = MUSTER_HANG_VICTIM;
        muster_finding_line(&hang->finding.evidence,
                            "rank %" PRId32 " and its peer both posted %s #%" PRIu64, member->rank,
                            pair->send ? "send" : "receive", pair->posted ? pair->posted - 1 : 0);
    }
    if (hang)
        describe(hang, facts, false);
    return true;
}
