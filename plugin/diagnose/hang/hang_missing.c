/* A rank that is not there: its process is gone, or it never called what others wait in. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "diagnose/hang/hang_case.h"

bool muster_hang_find_waiting(const struct muster_hang_cases *cases, struct muster_hang_case *hang,
                              uint64_t number, uint64_t *since)
{
    const struct muster_hang_comm *comm = hang->comm;
    uint32_t waiting = 0;
    *since = UINT64_MAX;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (member->calls <= number || member->over || member->ended == MUSTER_HANG_IDLE)
            continue;
        bool long_enough = muster_hang_waited_ns(member) >= cases->threshold_ns;
        if (!long_enough && muster_hang_gone(member))
            continue;
        if (!long_enough)
            return false;
        const struct muster_hang_call *call = muster_hang_call(member, number);
        uint64_t own = call && call->enqueue_ns ? call->enqueue_ns : member->called_ns;
        uint64_t at = muster_hang_unix_ns(member, own);
        *since = at < *since ? at : *since;
        hang->role[i] = MUSTER_HANG_VICTIM;
        waiting++;
    }
    return waiting > 0;
}

/* How long a rank has called nothing while the others were seen. */
static uint64_t missed_ns(const struct muster_hang_comm *comm,
                          const struct muster_hang_member *member)
{
    uint64_t at = muster_hang_called_unix_ns(member), latest = muster_hang_latest_unix_ns(comm);
    return latest > at ? latest - at : 0;
}

/* Whether it is known that those who are named are in no operation: all they called has ended. Of
 * the dead it is enough that something did not end, or that they were expected. */
static bool is_proven(const struct muster_hang_cases *cases, const struct muster_hang_case *hang,
                      const struct muster_hang_facts *facts)
{
    if (hang->finding.kind == MUSTER_FINDING_HANG_DEAD)
        return facts->open > 0 || facts->least < facts->most;
    for (uint32_t i = 0; i < hang->comm->members; i++)
        if (hang->role[i] == MUSTER_HANG_CULPRIT && !cases->who[hang->comm->member[i].who].proven)
            return false;
    return true;
}

/* Where it stopped among its collectives, by their numbers. */
static void put_stop(char *to, size_t size, const struct muster_hang_member *member, bool finished,
                     uint64_t number)
{
    uint64_t last = member->calls - 1;
    if (member->calls == 0)
        snprintf(to, size, " never called #%" PRIu64, number);
    else if (member->calls > number)
        snprintf(to, size, " called #%" PRIu64 " last", last);
    else
        snprintf(to, size,
                 finished ? " finished #%" PRIu64 " and then never called #%" PRIu64
                          : " called #%" PRIu64 " last, and never #%" PRIu64,
                 last, number);
}

static void describe_culprit(struct muster_hang_case *hang, const struct muster_hang_member *member,
                             const struct muster_hang_facts *facts, uint64_t number)
{
    char stop[96];
    bool finished = member->calls <= facts->done;
    put_stop(stop, sizeof stop, member, finished, number);
    muster_hang_describe_absent(hang, member, stop, finished);
}

/* How far those who wait have called beyond it. */
static void describe_queued(struct muster_hang_case *hang, uint64_t number)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        const struct muster_hang_member *member = &hang->comm->member[i];
        if (hang->role[i] == MUSTER_HANG_VICTIM && member->calls > most)
            most = member->calls;
    }
    if (most > number + 1)
        muster_finding_line(&hang->finding.evidence,
                            "the others wait in #%" PRIu64 ", and have queued up to #%" PRIu64,
                            number, most - 1);
}

static void describe(const struct muster_hang_cases *cases, struct muster_hang_case *hang,
                     const struct muster_hang_facts *facts, uint64_t number)
{
    struct muster_finding *finding = &hang->finding;
    muster_hang_case_op(hang, number, muster_hang_call_of_any(hang->comm, number));
    bool ended = facts->done >= number && (facts->done > 0 || number == 0);
    hang->proven = is_proven(cases, hang, facts);
    for (uint32_t i = 0; i < hang->comm->members && finding->evidence.n < 6; i++)
        if (hang->role[i] == MUSTER_HANG_CULPRIT)
            describe_culprit(hang, &hang->comm->member[i], facts, number);
    describe_queued(hang, number);
    if (number > 0 && ended)
        muster_finding_line(&finding->evidence, "all operations before #%" PRIu64 " have ended",
                            number);
    muster_hang_describe_ended(hang, 10);
    finding->confidence =
        muster_confidence_hang(finding->kind, !facts->all_seen ? MUSTER_PROOF_PART
                                              : hang->proven   ? MUSTER_PROOF_ENDED
                                                               : MUSTER_PROOF_ORDER);
    muster_text_copy(
        finding->advice, sizeof finding->advice,
        finding->kind == MUSTER_FINDING_HANG_DEAD
            ? "look for the first error in the log of the rank that is gone (exception, "
              "out of memory, killed); what the others say came later"
            : "look at what the named rank does instead: data loading, a checkpoint, "
              "a branch that it alone took; py-spy or gdb on its pid shows it");
    muster_hang_describe_limits(hang);
    muster_hang_case_close(hang);
}

/* Whoever was waiting with a dead rank is not missed elsewhere for a reason of its own. */
static void note_dead(struct muster_hang_cases *cases, const struct muster_hang_case *hang)
{
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        struct muster_hang_who *who = &cases->who[hang->comm->member[i].who];
        who->busy |= hang->role[i] == MUSTER_HANG_VICTIM;
        who->dead |= hang->role[i] == MUSTER_HANG_CULPRIT;
    }
}

/* The dead among those that did not call operation `number`, or, with `all`, among all. */
static uint32_t name_dead(const struct muster_hang_cases *cases, struct muster_hang_case *hang,
                          uint64_t number, uint64_t since, bool all, bool proof)
{
    uint32_t dead = 0;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        const struct muster_hang_member *member = &hang->comm->member[i];
        /* A clean exit after the last operation is how jobs end: without proof no hang. */
        bool known =
            member->state == MUSTER_PROCESS_KILLED || proof || cases->who[member->who].dead;
        bool counts = member->calls <= number || (all && !member->over && known);
        if (counts && muster_hang_died_first(hang->comm, member, since, cases->threshold_ns)) {
            hang->role[i] = MUSTER_HANG_CULPRIT;
            dead++;
        }
    }
    return dead;
}

/* Without proof, processes that left one after another are how jobs end. */
static bool known_to_wait(const struct muster_hang_cases *cases,
                          const struct muster_hang_case *hang,
                          const struct muster_hang_facts *facts)
{
    if (facts->open > 0)
        return true;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        const struct muster_hang_member *member = &hang->comm->member[i];
        bool waits = hang->role[i] == MUSTER_HANG_VICTIM && !muster_hang_gone(member);
        if (waits || (hang->role[i] == MUSTER_HANG_CULPRIT && cases->who[member->who].dead))
            return true;
    }
    return false;
}

/* One is gone that had called what the others called, and these go nowhere. */
static bool died_inside(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                        const struct muster_hang_facts *facts)
{
    uint64_t number = facts->least > 0 ? facts->least - 1 : 0, since;
    if (facts->least == 0 || facts->done >= facts->least || facts->idle > 0)
        return true;
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_DEAD);
    if (!hang)
        return false;
    bool stalled = muster_hang_find_waiting(cases, hang, number, &since);
    uint32_t dead = stalled ? name_dead(cases, hang, number, since, true, facts->open > 0) : 0;
    if (dead == 0 || dead == comm->members || !known_to_wait(cases, hang, facts)) {
        muster_hang_case_undo(cases);
        return true;
    }
    if (facts->done > 0 && facts->done < number)
        number = facts->done;
    describe(cases, hang, facts, number);
    note_dead(cases, hang);
    return true;
}

/* A rank that lives, waits nowhere and did not come. Whoever died then had waited for it, too. */
static bool any_free_missing(const struct muster_hang_cases *cases,
                             const struct muster_hang_comm *comm, uint64_t number)
{
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (member->calls <= number && !muster_hang_gone(member) && !cases->who[member->who].busy)
            return true;
    }
    return false;
}

bool muster_hang_evaluate_dead(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                               const struct muster_hang_facts *facts)
{
    uint64_t number = facts->least, since;
    if (facts->least == facts->most)
        return died_inside(cases, comm, facts);
    bool free = any_free_missing(cases, comm, number);
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_DEAD);
    if (!hang)
        return false;
    if (!muster_hang_find_waiting(cases, hang, number, &since) ||
        name_dead(cases, hang, number, since, facts->done <= number && !free, facts->open > 0) ==
            0) {
        muster_hang_case_undo(cases);
        return free || died_inside(cases, comm, facts);
    }
    describe(cases, hang, facts, number);
    note_dead(cases, hang);
    return true;
}

/* Names those that did not come and wait nowhere else; if all of them wait, all of them, until it
 * is known what they wait for. */
static uint32_t name_missing(const struct muster_hang_cases *cases, struct muster_hang_case *hang,
                             uint64_t number)
{
    const struct muster_hang_comm *comm = hang->comm;
    uint32_t named = 0;
    for (int pass = 0; pass < 2 && named == 0; pass++) {
        hang->tentative = pass == 1;
        for (uint32_t i = 0; i < comm->members; i++) {
            const struct muster_hang_member *member = &comm->member[i];
            bool waits = cases->who[member->who].busy && !member->over;
            if (member->calls <= number && (hang->tentative || !waits)) {
                hang->role[i] = MUSTER_HANG_CULPRIT;
                named++;
            }
        }
    }
    return named;
}

/* Nobody is named who may only be held up by a rank that nobody sees. */
static bool sure_of_missing(const struct muster_hang_cases *cases,
                            const struct muster_hang_case *hang)
{
    const struct muster_hang_comm *comm = hang->comm;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (hang->role[i] != MUSTER_HANG_CULPRIT)
            continue;
        if (!muster_hang_gone(member) && missed_ns(comm, member) < cases->threshold_ns)
            return false;
        if (!hang->tentative && cases->who[member->who].unsure) {
            muster_finding_line(cases->not_observable,
                                "communicator %016" PRIx64 ": ranks wait in it, perhaps for one "
                                "that is not visible here, or whose GPU has not come to it",
                                comm->id);
            return false;
        }
    }
    return true;
}

/* Of the members that have the role. */
static uint32_t count(const struct muster_hang_case *hang, enum muster_hang_role role)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hang->comm->members; i++)
        n += hang->role[i] == role;
    return n;
}

/* One waits and several did not come: it may have gone ahead as well as they may be held up, and
 * the many are not named for the one. */
static void name_who_went_ahead(struct muster_hang_case *hang, uint64_t number, uint32_t missing,
                                bool proven)
{
    struct muster_finding *finding = &hang->finding;
    finding->kind = MUSTER_FINDING_HANG_MISMATCH;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        bool ahead = hang->role[i] == MUSTER_HANG_VICTIM;
        hang->role[i] = ahead ? MUSTER_HANG_BOTH : MUSTER_HANG_BYSTANDER;
        if (ahead)
            muster_hang_describe_calls(hang, &hang->comm->member[i], number);
    }
    muster_hang_case_op(hang, number, muster_hang_call_of_any(hang->comm, number));
    muster_finding_line(&finding->evidence, "none of the %" PRIu32 " other ranks called it%s",
                        missing, proven ? ", and they wait nowhere" : "");
    muster_finding_line(&finding->not_observable,
                        "whether it went ahead, or the others are all held up by the same");
    finding->confidence = muster_confidence_hang(finding->kind, MUSTER_PROOF_TIE);
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "see whether this rank makes a call that the others do not: a loop that is "
                     "one step longer, a branch; else what all the others read or wait for");
    muster_hang_describe_limits(hang);
    muster_hang_case_close(hang);
}

/* Whether those that are missing may wait in another communicator. */
static bool are_elsewhere(const struct muster_hang_cases *cases,
                          const struct muster_hang_case *hang)
{
    for (uint32_t i = 0; i < hang->comm->members; i++)
        if (hang->role[i] == MUSTER_HANG_CULPRIT && cases->who[hang->comm->member[i].who].comms > 1)
            return true;
    return false;
}

bool muster_hang_evaluate_missing(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                                  const struct muster_hang_facts *facts)
{
    uint64_t number = facts->least, since;
    if (facts->least == facts->most)
        return true;
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_ABSENT);
    if (!hang)
        return false;
    if (!muster_hang_find_waiting(cases, hang, number, &since) ||
        name_missing(cases, hang, number) == 0 || !sure_of_missing(cases, hang)) {
        muster_hang_case_undo(cases);
        return true;
    }
    uint32_t missing = count(hang, MUSTER_HANG_CULPRIT);
    bool proven = is_proven(cases, hang, facts);
    /* Of two that are missing one may have kept the other. Who may wait elsewhere is left to
     * muster_hang_causes, which names no suspects that outnumber those who wait. */
    if (!hang->tentative && missing > 2 && count(hang, MUSTER_HANG_VICTIM) == 1 &&
        facts->all_seen && (proven || !are_elsewhere(cases, hang)))
        name_who_went_ahead(hang, number, missing, proven);
    else
        describe(cases, hang, facts, number);
    return true;
}
