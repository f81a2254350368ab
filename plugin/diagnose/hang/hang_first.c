/* Of a job that is over as a whole: who was killed before the others, which then ended by
 * themselves. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/text.h"
#include "diagnose/hang/hang_case.h"

/* Ten heartbeats, by which it is known when a process went. What is ended as a whole is so within
 * less, and who sees the error of a network takes longer. */
#define APART_NS    MUSTER_NS_PER_S
#define TOGETHER_NS (APART_NS / 2)

/* Who goes first, up to when; and the next one. */
struct first {
    uint64_t from_ns, until_ns, then_ns;
    uint32_t n;
};

static struct first first_of(const struct muster_hang_comm *comm)
{
    struct first first = {.from_ns = UINT64_MAX, .then_ns = UINT64_MAX};
    for (uint32_t i = 0; i < comm->members; i++) {
        uint64_t at = muster_hang_last_unix_ns(&comm->member[i]);
        first.from_ns = at < first.from_ns ? at : first.from_ns;
    }
    for (uint32_t i = 0; i < comm->members; i++) {
        uint64_t at = muster_hang_last_unix_ns(&comm->member[i]);
        if (at - first.from_ns <= TOGETHER_NS) {
            first.until_ns = at > first.until_ns ? at : first.until_ns;
            first.n++;
        } else if (at < first.then_ns) {
            first.then_ns = at;
        }
    }
    return first;
}

static bool is_first(const struct first *first, const struct muster_hang_member *member)
{
    return muster_hang_last_unix_ns(member) <= first->until_ns;
}

/* Seen as a whole, gone as a whole, and nobody gave it up in order. */
static bool is_over(const struct muster_hang_comm *comm)
{
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (!muster_hang_gone(member) || member->over || member->from_log)
            return false;
    }
    return comm->members > 1 && comm->members == comm->nranks && !comm->duplicate_rank;
}

/* All killed, and on one host: who raises an error or is interrupted leaves by exit(), and others
 * that were interrupted with it may take their time. */
static bool were_killed(const struct muster_hang_comm *comm, const struct first *first)
{
    const struct muster_hang_member *one = NULL;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (!is_first(first, member))
            continue;
        one = one ? one : member;
        if (member->state != MUSTER_PROCESS_KILLED || member->boot_hash != one->boot_hash)
            return false;
    }
    return true;
}

/* In what the others waited: what they called without those, or what they all were in. */
static uint64_t find_number(const struct muster_hang_comm *comm, const struct first *first)
{
    uint64_t number = UINT64_MAX, open = UINT64_MAX;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (is_first(first, member))
            number = member->calls < number ? member->calls : number;
        else if (member->ended == MUSTER_HANG_OPEN && member->open_at < open)
            open = member->open_at;
    }
    return open < number ? open : number;
}

/* Who left after all that was called had ended, did not wait for anybody. */
static uint32_t set_roles(struct muster_hang_case *hang, const struct first *first, uint64_t number)
{
    uint32_t waited = 0;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        const struct muster_hang_member *member = &hang->comm->member[i];
        bool waits = member->calls > number && member->ended != MUSTER_HANG_IDLE;
        if (is_first(first, member)) {
            hang->role[i] = MUSTER_HANG_CULPRIT;
        } else if (waits) {
            hang->role[i] = MUSTER_HANG_VICTIM;
            waited++;
        }
    }
    return waited;
}

static void describe(struct muster_hang_case *hang, const struct first *first, uint32_t waited)
{
    struct muster_finding *finding = &hang->finding;
    const struct muster_hang_comm *comm = hang->comm;
    muster_finding_line(&finding->evidence,
                        "all %" PRIu32 " ranks of its communicator are gone, the others %.1f s "
                        "later or after that; %" PRIu32 " of them waited",
                        comm->members, (double)(first->then_ns - first->until_ns) / 1e9, waited);
    muster_finding_line(&finding->not_observable,
                        "how it ended, and whether the others ended for that: a job that is ended "
                        "as a whole, a host a second before the others, looks the same");
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "read the end of its own log, and `dmesg` there (OOM killer, Xid); then "
                     "restart the job");
}

static bool name_first(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                       const struct first *first)
{
    uint64_t number = find_number(comm, first);
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_DEAD);
    if (!hang)
        return false;
    uint32_t waited = set_roles(hang, first, number);
    if (waited == 0) {
        muster_hang_case_undo(cases);
        return true;
    }
    muster_hang_case_op(hang, number, muster_hang_call_of_any(comm, number));
    hang->finding.went = MUSTER_WENT_KILLED;
    describe(hang, first, waited);
    muster_hang_case_close(hang);
    /* How often that is right is not known: bench/accuracy knows jobs that are there to be asked.
     */
    hang->finding.confidence = muster_confidence_hang(MUSTER_FINDING_HANG_DEAD, MUSTER_PROOF_TIE);
    hang->finding.since_unix_ns = first->from_ns;
    return true;
}

bool muster_hang_evaluate_first(struct muster_hang_cases *cases, struct muster_hang_state *view)
{
    struct muster_hang_comm *largest = NULL;
    for (size_t c = 0; c < view->comms; c++)
        if (!largest || view->comm[c].members > largest->members)
            largest = &view->comm[c];
    if (!largest || !is_over(largest))
        return true;
    struct first first = first_of(largest);
    bool apart = first.then_ns != UINT64_MAX && first.then_ns - first.until_ns >= APART_NS;
    if (!apart || 2 * first.n > largest->members || !were_killed(largest, &first))
        return true;
    return name_first(cases, largest, &first);
}
