/* Who was killed, after which the others gave the communicator up: an error of the network ends
 * what they wait in, and their program aborts it (PyTorch's watchdog) before anybody has waited for
 * as long as makes a hang. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/text.h"
#include "diagnose/hang/hang_case.h"

/* Two heartbeats, by which it is known when a process went: who is killed because the others gave
 * up goes after that. */
#define APART_NS (MUSTER_NS_PER_S / 5)
/* After that whoever is gone was reported while the others lived on. */
#define SOON_NS ((MUSTER_HANG_GONE_S + 1) * MUSTER_NS_PER_S)

static bool was_killed(const struct muster_hang_member *member)
{
    return member->state == MUSTER_PROCESS_KILLED && !member->over && !member->from_log;
}

/* The first that was killed. NULL: nobody was, somebody goes on, or so many were that the job was
 * ended as a whole. */
static const struct muster_hang_member *find_killed(const struct muster_hang_comm *comm)
{
    const struct muster_hang_member *first = NULL;
    uint32_t killed = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (!was_killed(member) && !member->over && !muster_hang_gone(member))
            return NULL;
        if (!was_killed(member))
            continue;
        killed++;
        first = first && muster_hang_last_unix_ns(first) <= muster_hang_last_unix_ns(member)
                    ? first
                    : member;
    }
    return 2 * killed <= comm->members && !comm->duplicate_rank ? first : NULL;
}

/* What it never called cannot have ended on those who had called it: they did not leave in order.
 * When the first of them gave up, since 1970; 0: nobody did soon, and for this. */
static uint64_t given_up_unix_ns(const struct muster_hang_comm *comm,
                                 const struct muster_hang_member *killed)
{
    uint64_t from_ns = UINT64_MAX;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        uint64_t at = muster_hang_unix_ns(member, member->over_ns);
        if (!member->over)
            continue;
        if (at < muster_hang_last_unix_ns(killed) + APART_NS)
            return 0;
        if (member->calls > killed->calls && at < from_ns)
            from_ns = at;
    }
    return from_ns > muster_hang_last_unix_ns(killed) + SOON_NS ? 0 : from_ns;
}

static uint32_t set_roles(struct muster_hang_case *hang, const struct muster_hang_member *killed)
{
    uint32_t gave_up = 0;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        const struct muster_hang_member *member = &hang->comm->member[i];
        bool waited = member->over && member->calls > killed->calls;
        hang->role[i] = member == killed ? MUSTER_HANG_CULPRIT
                        : waited         ? MUSTER_HANG_VICTIM
                                         : MUSTER_HANG_BYSTANDER;
        gave_up += waited;
    }
    return gave_up;
}

static void describe(struct muster_hang_case *hang, const struct muster_hang_member *killed,
                     uint64_t from_ns, uint32_t gave_up)
{
    struct muster_finding *finding = &hang->finding;
    char stop[64] = " never called anything";
    if (killed->calls)
        snprintf(stop, sizeof stop, " called #%" PRIu64 " last", killed->calls - 1);
    muster_hang_describe_absent(hang, killed, stop, false);
    muster_finding_line(&finding->evidence,
                        "%" PRIu32 " of the %" PRIu32 " ranks that are seen of its communicator "
                        "had called more, and gave it up from %.1f s later on",
                        gave_up, hang->comm->members,
                        (double)(from_ns - muster_hang_last_unix_ns(killed)) / 1e9);
    muster_finding_line(&finding->not_observable, "how it ended: only its parent is told; a "
                                                  "process that leaves by _exit() looks the same");
    muster_hang_describe_limits(hang);
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "read the end of its own log, and `dmesg` there (OOM killer, Xid); then "
                     "restart the job");
}

static bool name_killed(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                        const struct muster_hang_member *killed, uint64_t from_ns)
{
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_DEAD);
    if (!hang)
        return false;
    uint32_t gave_up = set_roles(hang, killed);
    muster_hang_case_op(hang, killed->calls, muster_hang_call_of_any(comm, killed->calls));
    hang->finding.went = MUSTER_WENT_KILLED;
    describe(hang, killed, from_ns, gave_up);
    /* As of who was killed first: how often that is right is not known. */
    hang->finding.confidence = muster_confidence_hang(MUSTER_FINDING_HANG_DEAD, MUSTER_PROOF_TIE);
    muster_hang_case_close(hang);
    hang->finding.since_unix_ns = muster_hang_last_unix_ns(killed);
    return true;
}

bool muster_hang_evaluate_given_up(struct muster_hang_cases *cases, struct muster_hang_state *view)
{
    struct muster_hang_comm *largest = NULL;
    const struct muster_hang_member *killed = NULL;
    uint64_t from_ns = 0;
    for (size_t c = 0; c < view->comms; c++) {
        struct muster_hang_comm *comm = &view->comm[c];
        const struct muster_hang_member *one = find_killed(comm);
        uint64_t at = one ? given_up_unix_ns(comm, one) : 0;
        if (at == 0 || (largest && largest->members >= comm->members))
            continue;
        largest = comm;
        killed = one;
        from_ns = at;
    }
    return !largest || name_killed(cases, largest, killed, from_ns);
}
