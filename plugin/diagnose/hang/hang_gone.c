/* A rank whose process is gone while others of its communicator live on, before anybody has waited
 * for it for as long as makes a hang. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "diagnose/hang/hang_case.h"

#define GONE_NS     (MUSTER_HANG_GONE_S * MUSTER_NS_PER_S)
#define TOGETHER_NS (2 * MUSTER_NS_PER_S) /* of one host: told as one */

static uint64_t went_unix_ns(const struct muster_hang_member *member)
{
    return muster_hang_unix_ns(member, member->seen_ns);
}

static bool lives(const struct muster_hang_member *member)
{
    return !muster_hang_gone(member) && !member->over && !member->from_log;
}

/* What members are held against. */
struct living {
    struct muster_hang_comm *comm;
    uint64_t until_unix_ns; /* the newest moment at which one of them was running */
    uint64_t calls;         /* the most of one of them */
    uint32_t n, gone;
};

static struct living living_of(struct muster_hang_comm *comm)
{
    struct living living = {.comm = comm};
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        uint64_t at = muster_hang_unix_ns(member, member->heartbeat_ns);
        living.gone += muster_hang_gone(member);
        if (!lives(member))
            continue;
        living.n++;
        living.until_unix_ns = at > living.until_unix_ns ? at : living.until_unix_ns;
        living.calls = member->calls > living.calls ? member->calls : living.calls;
    }
    return living;
}

/* A clean exit is how jobs end, unless others called what it never will. */
static bool is_missed(const struct living *living, const struct muster_hang_member *member)
{
    bool left = member->state == MUSTER_PROCESS_EXITED && member->calls < living->calls;
    return !member->over && !member->from_log && (member->state == MUSTER_PROCESS_KILLED || left) &&
           went_unix_ns(member) + GONE_NS <= living->until_unix_ns;
}

/* Who went where a hang has another reason may have gone for that, and who is named is told. */
static bool *find_explained(const struct muster_hang_cases *cases)
{
    bool *explained = muster_arena_array(cases->arena, (size_t)cases->whos + 1, sizeof *explained);
    for (uint32_t w = 0; explained && w < cases->whos; w++)
        explained[w] = cases->who[w].dead;
    for (size_t i = 0; explained && i < cases->n; i++) {
        const struct muster_hang_case *hang = &cases->at[i];
        for (uint32_t m = 0; m < hang->comm->members && !hang->dropped; m++)
            explained[hang->comm->member[m].who] |= hang->role[m] != MUSTER_HANG_CULPRIT;
    }
    return explained;
}

/* In what the others wait already, if they do. */
static void find_op(struct muster_hang_case *hang, uint64_t number)
{
    const struct muster_hang_comm *comm = hang->comm;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (!lives(member) || member->calls <= number || member->ended == MUSTER_HANG_IDLE)
            continue;
        hang->role[i] = MUSTER_HANG_VICTIM;
        waiting++;
    }
    if (waiting)
        muster_hang_case_op(hang, number, muster_hang_call_of_any(comm, number));
}

static void describe(struct muster_hang_case *hang, const struct living *living,
                     const struct muster_hang_member *first)
{
    struct muster_finding *finding = &hang->finding;
    const struct muster_hang_comm *comm = hang->comm;
    for (uint32_t i = 0; i < comm->members; i++) {
        char stop[64] = " never called anything";
        const struct muster_hang_member *member = &comm->member[i];
        if (hang->role[i] != MUSTER_HANG_CULPRIT || finding->evidence.n >= 6)
            continue;
        if (member->calls)
            snprintf(stop, sizeof stop, " called #%" PRIu64 " last", member->calls - 1);
        muster_hang_describe_absent(hang, member, stop, false);
    }
    uint64_t for_ns = living->until_unix_ns - went_unix_ns(first);
    muster_finding_line(&finding->evidence,
                        "%" PRIu32 " of the %" PRIu32 " ranks of its communicator were alive %.0f "
                        "s later",
                        living->n, comm->members, (double)for_ns / 1e9);
    muster_finding_line(&finding->not_observable,
                        "how it ended: only its parent is told; a process that leaves by _exit() "
                        "looks the same");
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "read the end of its own log, and `dmesg` there (OOM killer, Xid); then "
                     "restart the job");
}

/* The first of them, and who went from its host with it. */
static bool name_gone(struct muster_hang_cases *cases, const struct living *living,
                      const struct muster_hang_member *first, bool *explained)
{
    struct muster_hang_comm *comm = living->comm;
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_DEAD);
    if (!hang)
        return false;
    uint64_t went = went_unix_ns(first), number = first->calls;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        uint64_t at = went_unix_ns(member);
        bool together = (at > went ? at - went : went - at) <= TOGETHER_NS &&
                        member->boot_hash == first->boot_hash;
        if (!together || explained[member->who] || !is_missed(living, member))
            continue;
        explained[member->who] = true;
        hang->role[i] = MUSTER_HANG_CULPRIT;
        number = member->calls < number ? member->calls : number;
    }
    find_op(hang, number);
    describe(hang, living, first);
    hang->finding.confidence = muster_confidence_hang(MUSTER_FINDING_HANG_DEAD, MUSTER_PROOF_ORDER);
    muster_hang_case_close(hang);
    hang->finding.since_unix_ns = went;
    return true;
}

static int larger_first(const void *left, const void *right)
{
    const struct muster_hang_comm *a = ((const struct living *)left)->comm,
                                  *b = ((const struct living *)right)->comm;
    if (a->members != b->members)
        return a->members > b->members ? -1 : 1;
    return (a > b) - (a < b);
}

/* Of several communicators that a rank is missed in, the one with most ranks. */
bool muster_hang_evaluate_gone(struct muster_hang_cases *cases, struct muster_hang_state *view)
{
    bool *explained = find_explained(cases);
    struct living *living = muster_arena_array(cases->arena, view->comms + 1, sizeof *living);
    bool whole = explained && living;
    for (size_t c = 0; whole && c < view->comms; c++)
        living[c] = living_of(&view->comm[c]);
    if (whole && view->comms > 1)
        qsort(living, view->comms, sizeof *living, larger_first);
    for (size_t c = 0; whole && c < view->comms; c++) {
        const struct muster_hang_comm *comm = living[c].comm;
        /* Where most are gone the job is ending, in whatever way. */
        bool goes_on = living[c].n > 0 && 2 * living[c].gone <= comm->members;
        for (uint32_t i = 0; whole && goes_on && i < comm->members && !comm->duplicate_rank; i++)
            if (!explained[comm->member[i].who] && is_missed(&living[c], &comm->member[i]))
                whole = name_gone(cases, &living[c], &comm->member[i], explained);
    }
    return whole;
}
