/* A rank whose process is gone while others of its communicator live on, before anybody has waited
 * for it for as long as makes a hang. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "diagnose/hang/hang_case.h"

#define GONE_NS     (MUSTER_HANG_GONE_S * MUSTER_NS_PER_S)
#define TOGETHER_NS (2 * MUSTER_NS_PER_S)  /* of one host: reported as one */
#define LAUNCHER_NS (10 * MUSTER_NS_PER_S) /* ends the others of its host after one that failed */

/* Who lives on was heard a moment before. */
#define LOOK_NS  (GONE_NS + MUSTER_NS_PER_S)
#define LOOKS_NS (10 * MUSTER_NS_PER_S)
#define AGAIN_NS (MUSTER_NS_PER_S / 2) /* who looks once a second looks at odd moments */

bool muster_hang_gone_due(uint64_t gone_ns, uint64_t evaluated_ns, uint64_t now_ns)
{
    uint64_t first = gone_ns + LOOK_NS;
    bool again = now_ns < first + LOOKS_NS && now_ns - evaluated_ns >= AGAIN_NS;
    return gone_ns && now_ns >= first && (evaluated_ns < first || again);
}

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
    uint64_t done;          /* collectives below are known to have ended on one of them */
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
        living.done = member->done > living.done ? member->done : living.done;
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

/* Who went where a hang has another reason may have gone for that, and who is named is reported. */
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

/* The first that is missed, by time: who went later may have gone for that. NULL: none. */
static const struct muster_hang_member *find_first(const struct living *living,
                                                   const bool *explained)
{
    const struct muster_hang_member *first = NULL;
    for (uint32_t i = 0; i < living->comm->members; i++) {
        const struct muster_hang_member *member = &living->comm->member[i];
        if (!explained[member->who] && is_missed(living, member) &&
            (!first || went_unix_ns(member) < went_unix_ns(first)))
            first = member;
    }
    return first;
}

/* One of the same host that left with its communicator alive shortly before: it raised an error,
 * and its launcher ended the others. `first` where there is none. */
static const struct muster_hang_member *find_left(const struct living *living,
                                                  const struct muster_hang_member *first)
{
    const struct muster_hang_member *left = first;
    for (uint32_t i = 0; i < living->comm->members; i++) {
        const struct muster_hang_member *member = &living->comm->member[i];
        uint64_t at = went_unix_ns(member);
        if (member->state == MUSTER_PROCESS_EXITED && !member->over && !member->from_log &&
            member->boot_hash == first->boot_hash && at < went_unix_ns(left) &&
            at + LAUNCHER_NS >= went_unix_ns(first))
            left = member;
    }
    return left;
}

/* Went in the same way with the first of them. */
static bool went_together(const struct muster_hang_member *member,
                          const struct muster_hang_member *first)
{
    uint64_t at = went_unix_ns(member), went = went_unix_ns(first);
    return member->state == first->state && member->boot_hash == first->boot_hash &&
           !member->over && !member->from_log && at >= went && at - went <= TOGETHER_NS;
}

/* In what the others wait: what they called without those that are gone, or what they are all in.
 */
static uint64_t find_number(const struct living *living, const struct muster_hang_case *hang)
{
    uint64_t number = UINT64_MAX, open = UINT64_MAX;
    bool all_ended = false;
    for (uint32_t i = 0; i < living->comm->members; i++) {
        const struct muster_hang_member *member = &living->comm->member[i];
        if (hang->role[i] == MUSTER_HANG_CULPRIT) {
            number = member->calls < number ? member->calls : number;
            all_ended |= member->ended == MUSTER_HANG_IDLE;
        } else if (lives(member) && member->ended == MUSTER_HANG_OPEN && member->open_at < open) {
            open = member->open_at;
        }
    }
    open = open < living->done ? living->done : open;
    return open < number && !all_ended ? open : number;
}

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

/* Whether it is distinguished from one that left in order, but by _exit(): it had called less, or
 * something of it had not ended. */
static bool is_known_as_killed(const struct muster_hang_cases *cases, const struct living *living,
                               const struct muster_hang_member *member)
{
    return member->calls < living->calls || member->ended != MUSTER_HANG_IDLE ||
           cases->who[member->who].busy;
}

static enum muster_finding_went how_it_went(const struct muster_hang_cases *cases,
                                            const struct living *living,
                                            const struct muster_hang_case *hang,
                                            const struct muster_hang_member *first)
{
    if (first->state == MUSTER_PROCESS_EXITED)
        return MUSTER_WENT_LEFT;
    for (uint32_t i = 0; i < living->comm->members; i++)
        if (hang->role[i] == MUSTER_HANG_CULPRIT &&
            is_known_as_killed(cases, living, &living->comm->member[i]))
            return MUSTER_WENT_KILLED;
    return MUSTER_WENT_UNKNOWN;
}

/* "ranks 1, 2 went 4 s later". They are explained by the first. */
static void describe_later(struct muster_hang_case *hang, const struct muster_hang_member *first,
                           bool *explained)
{
    enum { SHOWN = 8 };
    char ranks[128];
    struct muster_text text = muster_text_begin(ranks, sizeof ranks);
    uint32_t n = 0;
    uint64_t after = UINT64_MAX;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        const struct muster_hang_member *member = &hang->comm->member[i];
        uint64_t at = went_unix_ns(member), went = went_unix_ns(first);
        if (!muster_hang_gone(member) || member->over || member->from_log ||
            member->state == MUSTER_PROCESS_FINALIZED || hang->role[i] == MUSTER_HANG_CULPRIT ||
            at < went)
            continue;
        explained[member->who] = true;
        after = at - went < after ? at - went : after;
        if (n++ < SHOWN)
            muster_text_add(&text, "%s%" PRId32, n > 1 ? ", " : "", member->rank);
    }
    if (n > SHOWN)
        muster_text_add(&text, " and %" PRIu32 " more", n - SHOWN);
    if (n)
        muster_finding_line(
            &hang->finding.evidence, "%s %s went %.*f s later%s", n > 1 ? "ranks" : "rank", ranks,
            after<MUSTER_NS_PER_S, (double)after / 1e9, n> 1 ? ", or after that" : "");
}

static void describe_living(struct muster_hang_case *hang, const struct living *living,
                            const struct muster_hang_member *first)
{
    const struct muster_hang_comm *comm = hang->comm;
    double for_s = (double)(living->until_unix_ns - went_unix_ns(first)) / 1e9;
    if (comm->nranks > comm->members)
        muster_finding_line(&hang->finding.evidence,
                            "%" PRIu32 " of the %" PRIu32 " ranks that are seen here, of %" PRIu32
                            " of its communicator, were alive %.0f s later",
                            living->n, comm->members, comm->nranks, for_s);
    else
        muster_finding_line(&hang->finding.evidence,
                            "%" PRIu32 " of the %" PRIu32
                            " ranks of its communicator were alive %.0f s later",
                            living->n, comm->members, for_s);
}

static void describe(struct muster_hang_case *hang, const struct living *living,
                     const struct muster_hang_member *first, bool *explained)
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
    describe_living(hang, living, first);
    describe_later(hang, first, explained);
    if (finding->went != MUSTER_WENT_LEFT)
        muster_finding_line(&finding->not_observable,
                            "how it ended: only its parent is told; a process that leaves by "
                            "_exit() looks the same");
    muster_hang_describe_limits(hang);
    muster_text_copy(finding->advice, sizeof finding->advice,
                     finding->went == MUSTER_WENT_LEFT
                         ? "read the end of its own log: the exception or error that it left for; "
                           "then restart the job"
                         : "read the end of its own log, and `dmesg` there (OOM killer, Xid); then "
                           "restart the job");
}

static bool name_gone(struct muster_hang_cases *cases, const struct living *living,
                      const struct muster_hang_member *first, bool *explained)
{
    struct muster_hang_comm *comm = living->comm;
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_DEAD);
    if (!hang)
        return false;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (explained[member->who] || !went_together(member, first))
            continue;
        explained[member->who] = true;
        hang->role[i] = MUSTER_HANG_CULPRIT;
    }
    find_op(hang, find_number(living, hang));
    hang->finding.went = how_it_went(cases, living, hang, first);
    describe(hang, living, first, explained);
    hang->finding.confidence = muster_confidence_hang(
        MUSTER_FINDING_HANG_DEAD, hang->finding.went == MUSTER_WENT_UNKNOWN ? MUSTER_PROOF_TIE
                                  : comm->nranks > comm->members            ? MUSTER_PROOF_PART
                                                                            : MUSTER_PROOF_ORDER);
    muster_hang_case_close(hang);
    hang->finding.since_unix_ns = went_unix_ns(first);
    return true;
}

static void explain_all(const struct muster_hang_comm *comm, bool *explained)
{
    for (uint32_t i = 0; i < comm->members; i++)
        explained[comm->member[i].who] |= muster_hang_gone(&comm->member[i]);
}

/* Where most are gone the job is ending, in whatever way, and smaller ones of it, too. */
static bool evaluate(struct muster_hang_cases *cases, const struct living *living, bool *explained)
{
    const struct muster_hang_comm *comm = living->comm;
    if (comm->duplicate_rank)
        return true;
    if (2 * living->gone > comm->members) {
        if (living->gone < comm->members) /* what all left was given up, or is seen elsewhere */
            explain_all(comm, explained);
        return true;
    }
    const struct muster_hang_member *first = living->n ? find_first(living, explained) : NULL;
    if (!first)
        return true;
    first = find_left(living, first);
    if (!explained[first->who])
        return name_gone(cases, living, first, explained);
    explain_all(comm, explained);
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
    for (size_t c = 0; whole && c < view->comms; c++)
        whole = evaluate(cases, &living[c], explained);
    return whole;
}
