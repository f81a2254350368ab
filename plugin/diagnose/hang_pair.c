/* Sends and receives, counted per directed pair. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "diagnose/hang_case.h"

static const struct muster_hang_pair *pair_of(const struct muster_hang_member *member, int32_t peer,
                                              bool send)
{
    for (uint32_t i = 0; i < member->pairs; i++) {
        if (member->pair[i].peer == peer && member->pair[i].send == send)
            return &member->pair[i];
    }
    return NULL;
}

static bool idle(const struct muster_hang_member *member)
{
    return member->over || member->ended == MUSTER_HANG_IDLE;
}

/* The other end has posted less. A receive cannot end without its send; a small send can end
 * before its receive, so for it there has to be proof. */
static bool waits(const struct muster_hang_member *member, const struct muster_hang_pair *pair,
                  uint64_t posted_there, uint64_t threshold)
{
    if (pair->posted <= posted_there || idle(member) || muster_hang_waited_ns(member) < threshold)
        return false;
    return !pair->send || pair->open || member->ended == MUSTER_HANG_OPEN;
}

static uint64_t called_unix(const struct muster_hang_member *member)
{
    return muster_hang_unix_ns(member, member->called_ns ? member->called_ns : member->begin_ns);
}

static int add_case(struct muster_hang_cases *cases, struct muster_hang_comm *comm, uint32_t from,
                    uint32_t to, const struct muster_hang_pair *pair, uint64_t posted_there)
{
    const struct muster_hang_member *waiter = &comm->member[from], *missing = &comm->member[to];
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_ABSENT);
    if (!hang)
        return -1;
    uint64_t since = muster_hang_unix_ns(waiter, pair->enqueue_ns);
    if (muster_hang_died_first(comm, missing, since, cases->threshold_ns))
        hang->finding.kind = MUSTER_FINDING_HANG_DEAD;
    hang->role[from] = MUSTER_HANG_VICTIM;
    hang->role[to] = MUSTER_HANG_GUILTY;
    const struct muster_hang_call call = {
        .count = pair->count,
        .root = -1,
        .func = pair->send ? MUSTER_FUNC_RECV : MUSTER_FUNC_SEND,
        .dtype = pair->dtype,
    };
    muster_hang_case_op(hang, posted_there, &call);
    muster_finding_say(&hang->finding.evidence,
                       "rank %" PRId32 " posted %" PRIu64 " %s rank %" PRId32
                       ", which posted %" PRIu64 " %s",
                       waiter->rank, pair->posted, pair->send ? "sends to" : "receives from",
                       missing->rank, posted_there, pair->send ? "receives" : "sends");
    muster_hang_say_absent(hang, missing);
    hang->finding.confidence = waiter->ended == MUSTER_HANG_OPEN ? 0.95 : 0.85;
    muster_text_copy(hang->finding.advice, sizeof hang->finding.advice,
                     "compare the schedules of the two ranks: one posted an operation that the "
                     "other did not");
    muster_hang_say_limits(hang);
    muster_hang_case_close(hang);
    return 0;
}

static bool judge_pair(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                       uint32_t from, const struct muster_hang_pair *pair)
{
    for (uint32_t to = 0; to < comm->members; to++) {
        const struct muster_hang_member *there = &comm->member[to];
        if (to == from || there->comm_rank != pair->peer)
            continue;
        const struct muster_hang_pair *answer =
            pair_of(there, comm->member[from].comm_rank, !pair->send);
        uint64_t posted = answer ? answer->posted : 0;
        uint64_t latest = muster_hang_latest_unix_ns(comm);
        /* One that goes on calling may be on its way. */
        bool missed = muster_hang_gone(there) || latest >= called_unix(there) + cases->threshold_ns;
        if (missed && waits(&comm->member[from], pair, posted, cases->threshold_ns) &&
            add_case(cases, comm, from, to, pair, posted) != 0)
            return false;
    }
    return true;
}

bool muster_hang_judge_pairs(struct muster_hang_cases *cases, struct muster_hang_comm *comm)
{
    for (uint32_t from = 0; from < comm->members; from++) {
        for (uint32_t i = 0; i < comm->member[from].pairs; i++) {
            if (!judge_pair(cases, comm, from, &comm->member[from].pair[i]))
                return false;
        }
    }
    return true;
}
