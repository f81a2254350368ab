#include "diagnose/hang.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "diagnose/hang_case.h"

/* ---- getting a communicator ready ---- */

static int by_rank(const void *a, const void *b)
{
    const struct muster_hang_member *one = a, *two = b;
    if (one->comm_rank != two->comm_rank)
        return one->comm_rank < two->comm_rank ? -1 : 1;
    if (one->over != two->over)
        return one->over ? 1 : -1;
    return (one->begin_ns < two->begin_ns) - (one->begin_ns > two->begin_ns);
}

static void forget_member(struct muster_hang_member *member)
{
    free(member->history);
    free(member->pair);
    memset(member, 0, sizeof *member);
}

/* A hash that was used again leaves finalized remains, which are not this communicator. */
static void drop_remains(struct muster_hang_comm *comm)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        struct muster_hang_member *member = &comm->member[i];
        bool again = kept > 0 && comm->member[kept - 1].comm_rank == member->comm_rank;
        if (again && member->over) {
            forget_member(member);
            continue;
        }
        comm->twice |= again;
        if (kept != i) {
            comm->member[kept] = *member;
            memset(member, 0, sizeof *member);
        }
        kept++;
    }
    comm->members = kept;
}

/* One clock of the day for all ranks of a boot: it may have been set between their starts. */
static void align_clocks(struct muster_hang_comm *comm)
{
    for (uint32_t i = 1; i < comm->members; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (comm->member[j].boot_hash == comm->member[i].boot_hash) {
                comm->member[i].to_unix_ns = comm->member[j].to_unix_ns;
                break;
            }
        }
    }
}

static void prepare(struct muster_hang_comm *comm)
{
    if (comm->members > 1)
        qsort(comm->member, comm->members, sizeof *comm->member, by_rank);
    drop_remains(comm);
    align_clocks(comm);
}

/* ---- what the communicator shows as a whole ---- */

struct facts {
    uint64_t least, most; /* calls */
    uint64_t done;        /* collectives below ended: on one rank, so all ranks entered them */
    bool all_seen;
    uint32_t open, idle, over;
};

static struct facts look(const struct muster_hang_comm *comm)
{
    struct facts facts = {.least = UINT64_MAX,
                          .all_seen = comm->nranks != 0 && comm->members == comm->nranks};
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        facts.least = member->calls < facts.least ? member->calls : facts.least;
        facts.most = member->calls > facts.most ? member->calls : facts.most;
        facts.done = member->done > facts.done ? member->done : facts.done;
        facts.open += member->ended == MUSTER_HANG_OPEN;
        facts.idle += member->ended == MUSTER_HANG_IDLE;
        facts.over += member->over;
    }
    return facts;
}

/* ---- another operation at the same place ---- */

static bool rooted(unsigned func)
{
    return func == MUSTER_FUNC_BROADCAST || func == MUSTER_FUNC_REDUCE ||
           func == MUSTER_FUNC_GATHER || func == MUSTER_FUNC_SCATTER;
}

static bool same_call(const struct muster_hang_call *a, const struct muster_hang_call *b)
{
    return a->func == b->func && a->count == b->count && a->dtype == b->dtype &&
           (!rooted(a->func) || a->root == b->root);
}

static bool differs_at(const struct muster_hang_comm *comm, uint64_t number)
{
    const struct muster_hang_call *first = NULL;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_call *call = muster_hang_call(&comm->member[i], number);
        if (call && first && !same_call(call, first))
            return true;
        first = first ? first : call;
    }
    return false;
}

/* The first place where two ranks are known to have called different things; UINT64_MAX: none. */
static uint64_t first_difference(const struct muster_hang_comm *comm, const struct facts *facts)
{
    bool one_hash = facts->least == facts->most;
    for (uint32_t i = 1; i < comm->members && one_hash; i++)
        one_hash = comm->member[i].call_hash == comm->member[0].call_hash;
    if (one_hash)
        return UINT64_MAX;
    uint64_t from = facts->least > MUSTER_HANG_HISTORY ? facts->least - MUSTER_HANG_HISTORY : 0;
    for (uint64_t n = from; n < facts->most; n++) {
        if (differs_at(comm, n))
            return n;
    }
    return UINT64_MAX;
}

/* How many ranks called what member `i` called at this place. */
static uint32_t side_size(const struct muster_hang_comm *comm, uint32_t i, uint64_t number)
{
    const struct muster_hang_call *mine = muster_hang_call(&comm->member[i], number);
    uint32_t n = 0;
    for (uint32_t j = 0; mine && j < comm->members; j++) {
        const struct muster_hang_call *call = muster_hang_call(&comm->member[j], number);
        n += call && same_call(call, mine);
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
        bool other = call && of_best && !same_call(call, of_best);
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

/* Nobody who entered the place goes on, for as long as the threshold. */
static bool stands_still(const struct muster_hang_comm *comm, uint64_t number, uint64_t threshold)
{
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (member->calls <= number || member->over || member->ended == MUSTER_HANG_IDLE)
            continue;
        bool long_enough = muster_hang_waited_ns(member) >= threshold;
        if (!long_enough && !muster_hang_gone(member))
            return false;
        waiting += long_enough;
    }
    return waiting > 0;
}

static void say_sides(struct muster_hang_case *hang, uint64_t number, uint32_t best)
{
    const struct muster_hang_comm *comm = hang->comm;
    muster_hang_say_calls(hang, &comm->member[best], number);
    for (uint32_t i = 0; i < comm->members && hang->finding.evidence.n < 8; i++) {
        if (i != best && (hang->role[i] & MUSTER_HANG_GUILTY))
            muster_hang_say_calls(hang, &comm->member[i], number);
    }
    muster_finding_say(&hang->finding.evidence,
                       "all calls before #%" PRIu64 " that are remembered agree", number);
}

static int judge_mismatch(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                          const struct facts *facts)
{
    uint64_t number = first_difference(comm, facts);
    bool tie;
    if (number == UINT64_MAX || number < facts->done ||
        !stands_still(comm, number, cases->threshold_ns))
        return 0;
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_MISMATCH);
    if (!hang)
        return -1;
    uint32_t best = largest_side(comm, number, &tie);
    const struct muster_hang_call *right = muster_hang_call(&comm->member[best], number);
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_call *call = muster_hang_call(&comm->member[i], number);
        bool odd = call && (tie || !same_call(call, right));
        hang->role[i] = odd                              ? MUSTER_HANG_BOTH
                        : comm->member[i].calls > number ? MUSTER_HANG_VICTIM
                                                         : MUSTER_HANG_BYSTANDER;
    }
    muster_hang_case_op(hang, number, right);
    hang->finding.confidence = tie ? 0.5 : facts->all_seen ? 0.97 : 0.8;
    say_sides(hang, number, best);
    if (tie)
        muster_finding_say(&hang->finding.not_observable,
                           "which side is wrong: as many ranks called the one as the other");
    muster_hang_say_limits(hang);
    muster_hang_case_close(hang);
    muster_text_copy(hang->finding.advice, sizeof hang->finding.advice,
                     "compare the code path that led the named ranks to this call: a branch, a "
                     "batch or a size that differs between ranks");
    return 1;
}

/* ---- a rank that is not there ---- */

/* Whether the rank, which called least, is inside NCCL with something that did not end: it waits
 * like the others. Call order outranks a kernel of an operation that others saw end. */
static bool blocked(const struct muster_hang_member *member, const struct facts *facts,
                    uint64_t threshold)
{
    if (muster_hang_gone(member) || member->over)
        return false;
    bool in_call = member->in_call_ns != 0 && member->in_call_ns + threshold <= member->seen_ns;
    return in_call || (member->ended == MUSTER_HANG_OPEN && facts->done < member->calls);
}

/* Marks who waits for operation `number`; false if nobody waits for as long as the threshold, or
 * somebody only since a moment ago. *since: when the first began. */
static bool find_waiting(const struct muster_hang_cases *cases, struct muster_hang_case *hang,
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
    uint64_t own = member->called_ns ? member->called_ns : member->begin_ns;
    uint64_t at = muster_hang_unix_ns(member, own), latest = muster_hang_latest_unix_ns(comm);
    return latest > at ? latest - at : 0;
}

/* Names the missing ones: those that died if any did. Returns how many. */
static uint32_t name_missing(const struct muster_hang_cases *cases, struct muster_hang_case *hang,
                             const struct facts *facts, uint64_t number, uint64_t since)
{
    struct muster_hang_comm *comm = hang->comm;
    uint32_t dead = 0, absent = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < comm->members; i++) {
            const struct muster_hang_member *member = &comm->member[i];
            bool missing = member->calls <= number && !blocked(member, facts, cases->threshold_ns);
            bool died = muster_hang_died_first(comm, member, since, cases->threshold_ns);
            if (pass == 0)
                dead += missing && died;
            else if (missing && (died || dead == 0)) {
                hang->role[i] = MUSTER_HANG_GUILTY;
                absent++;
            }
        }
    }
    if (dead)
        hang->finding.kind = MUSTER_FINDING_HANG_DEAD;
    return absent;
}

/* Nobody is named who may only be held up by a rank that nobody sees. */
static bool sure_of_missing(const struct muster_hang_cases *cases,
                            const struct muster_hang_case *hang, const struct facts *facts)
{
    const struct muster_hang_comm *comm = hang->comm;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        if (hang->role[i] != MUSTER_HANG_GUILTY)
            continue;
        if (!muster_hang_gone(member) && missed_ns(comm, member) < cases->threshold_ns)
            return false;
        if (!facts->all_seen && facts->done < member->calls && member->ended != MUSTER_HANG_IDLE) {
            muster_finding_say(cases->not_observable,
                               "communicator %016" PRIx64 ": ranks wait in it, perhaps for one of "
                               "the %u that are not visible here",
                               comm->id, comm->nranks - comm->members);
            return false;
        }
    }
    return true;
}

static void say_missing(struct muster_hang_case *hang, const struct facts *facts, uint64_t number)
{
    struct muster_finding *finding = &hang->finding;
    bool proven = facts->done >= number;
    for (uint32_t i = 0; i < hang->comm->members && finding->evidence.n < 6; i++) {
        if (hang->role[i] == MUSTER_HANG_GUILTY)
            muster_hang_say_absent(hang, &hang->comm->member[i]);
    }
    if (number > 0 && proven)
        muster_finding_say(&finding->evidence, "all operations before #%" PRIu64 " have ended",
                           number);
    for (uint32_t i = 0; i < hang->comm->members && finding->evidence.n < 10; i++) {
        const struct muster_hang_member *member = &hang->comm->member[i];
        if (hang->role[i] == MUSTER_HANG_VICTIM && member->ended_by[0])
            muster_finding_say(&finding->evidence, "rank %" PRId32 ": %s", member->rank,
                               member->ended_by);
    }
    finding->confidence = !facts->all_seen ? 0.8 : proven ? 0.98 : 0.9;
    muster_text_copy(
        finding->advice, sizeof finding->advice,
        finding->kind == MUSTER_FINDING_HANG_DEAD
            ? "look for the first error in the log of the rank that is gone (exception, "
              "out of memory, killed); what the others say came later"
            : "look at what the named rank does instead: data loading, a checkpoint, "
              "a branch that it alone took; py-spy or gdb on its pid shows it");
}

static const struct muster_hang_call *call_of_any(const struct muster_hang_comm *comm,
                                                  uint64_t number)
{
    const struct muster_hang_call *call = NULL;
    for (uint32_t i = 0; i < comm->members && !call; i++)
        call = muster_hang_call(&comm->member[i], number);
    return call;
}

static void undo_case(struct muster_hang_cases *cases)
{
    free(cases->at[--cases->n].role);
}

static int judge_missing(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                         const struct facts *facts, bool dead_only)
{
    uint64_t number = facts->least, since;
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_ABSENT);
    if (!hang)
        return -1;
    if (facts->least == facts->most || !find_waiting(cases, hang, number, &since) ||
        name_missing(cases, hang, facts, number, since) == 0 ||
        (dead_only && hang->finding.kind != MUSTER_FINDING_HANG_DEAD) ||
        !sure_of_missing(cases, hang, facts)) {
        undo_case(cases);
        return 0;
    }
    muster_hang_case_op(hang, number, call_of_any(comm, number));
    say_missing(hang, facts, number);
    muster_hang_say_limits(hang);
    muster_hang_case_close(hang);
    return 1;
}

/* All called the same, one is gone, and the others go nowhere. */
static int judge_dead(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                      const struct facts *facts)
{
    uint64_t number = facts->most - 1, since;
    uint32_t dead = 0, waiting = 0;
    if (facts->most == 0 || facts->done >= facts->most)
        return 0;
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_DEAD);
    if (!hang)
        return -1;
    bool stalled = find_waiting(cases, hang, number, &since);
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        /* A clean exit after the last operation is how jobs end: without proof no hang. */
        bool counts = member->state == MUSTER_PROCESS_KILLED || facts->open > 0;
        if (!member->over && counts &&
            muster_hang_died_first(comm, member, since, cases->threshold_ns)) {
            hang->role[i] = MUSTER_HANG_GUILTY;
            dead++;
        }
        waiting += hang->role[i] == MUSTER_HANG_VICTIM && !muster_hang_gone(member);
    }
    bool live_wait = waiting > 0 || facts->open > 0;
    if (!stalled || dead == 0 || dead == comm->members || !live_wait || facts->idle > 0) {
        undo_case(cases);
        return 0;
    }
    if (facts->done > 0 && facts->done < number)
        number = facts->done;
    muster_hang_case_op(hang, number, call_of_any(comm, number));
    say_missing(hang, facts, number);
    muster_hang_say_limits(hang);
    muster_hang_case_close(hang);
    return 1;
}

/* ---- all entered, none ends ---- */

static void say_not_observable(const struct muster_hang_cases *cases,
                               const struct muster_hang_comm *comm, const struct facts *facts)
{
    if (facts->idle > 0 || facts->most == 0)
        return;
    for (uint32_t i = 0; i < comm->members; i++) {
        if (muster_hang_gone(&comm->member[i]) || comm->member[i].over)
            return;
    }
    muster_finding_say(cases->not_observable,
                       "communicator %016" PRIx64 ": all ranks called %" PRIu64
                       " collectives and none since; waiting or idle, completion not observable",
                       comm->id, facts->most);
}

static int judge_stuck(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                       const struct facts *facts)
{
    uint64_t number = facts->done, since;
    if (facts->least == 0 || facts->done >= facts->most || facts->over > 0 || facts->idle > 0)
        return 0;
    if (number >= facts->least)
        number = facts->least - 1;
    if (!stands_still(comm, number, cases->threshold_ns))
        return 0;
    if (facts->open == 0) {
        say_not_observable(cases, comm, facts);
        return 0;
    }
    if (!facts->all_seen) {
        muster_finding_say(cases->not_observable,
                           "communicator %016" PRIx64 ": ranks wait in #%" PRIu64
                           ", perhaps for one of the %u that are not visible here",
                           comm->id, number, comm->nranks - comm->members);
        return 0;
    }
    struct muster_hang_case *hang = muster_hang_case_add(cases, comm, MUSTER_FINDING_HANG_STUCK);
    if (!hang)
        return -1;
    find_waiting(cases, hang, number, &since);
    muster_hang_case_op(hang, number, call_of_any(comm, number));
    uint32_t proxies = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        proxies += member->proxies_open;
        if (member->ended_by[0] && hang->finding.evidence.n < 8)
            muster_finding_say(&hang->finding.evidence, "rank %" PRId32 ": %s", member->rank,
                               member->ended_by);
    }
    if (proxies)
        muster_finding_say(&hang->finding.evidence, "the network is in it on %u of %u ranks",
                           proxies, comm->members);
    muster_finding_say(&hang->finding.evidence,
                       number == 0 ? "it is the communicator's first operation"
                                   : "%" PRIu64 " operations before it ended",
                       number);
    hang->finding.confidence = facts->open == comm->members ? 0.95 : 0.85;
    muster_text_copy(hang->finding.advice, sizeof hang->finding.advice,
                     number == 0 ? "a first operation makes the connections: look at interfaces, "
                                   "peer access, /dev/shm and firewalls"
                     : proxies ? "look at the network between the ranks: link state, errors, drops"
                               : "look at the GPUs and their links: Xid messages, NVLink errors");
    muster_hang_say_limits(hang);
    muster_hang_case_close(hang);
    return 1;
}

/* ---- all of it ---- */

static bool judge(struct muster_hang_cases *cases, struct muster_hang_comm *comm)
{
    struct facts facts = look(comm);
    if (facts.over == comm->members)
        return true;
    /* A process that is gone outranks all; then content before length. */
    int found = judge_missing(cases, comm, &facts, true);
    if (found == 0)
        found = judge_mismatch(cases, comm, &facts);
    if (found == 0)
        found = judge_missing(cases, comm, &facts, false);
    if (found == 0)
        found = judge_dead(cases, comm, &facts);
    if (found == 0)
        found = judge_stuck(cases, comm, &facts);
    return found >= 0 && muster_hang_judge_pairs(cases, comm);
}

static bool emit(const struct muster_hang_cases *cases, struct muster_findings *findings)
{
    for (size_t i = 0; i < cases->n; i++) {
        if (cases->at[i].dropped)
            continue;
        struct muster_finding *finding = muster_findings_add(findings);
        if (!finding)
            return false;
        *finding = cases->at[i].finding;
    }
    return true;
}

bool muster_hang_find(struct muster_hang_view *view, uint64_t threshold_ns,
                      struct muster_findings *findings)
{
    struct muster_hang_cases cases = {.threshold_ns = threshold_ns,
                                      .not_observable = &findings->not_observable};
    bool whole = true;
    for (size_t i = 0; i < view->comms && whole; i++) {
        struct muster_hang_comm *comm = &view->comm[i];
        prepare(comm);
        if (comm->twice)
            muster_finding_say(cases.not_observable,
                               "communicator %016" PRIx64 ": a rank is in it twice (a restarted "
                               "process, or an id used again): its ranks are not compared",
                               comm->id);
        else if (comm->members > 0)
            whole = judge(&cases, comm);
    }
    if (whole) {
        muster_hang_causes(&cases);
        whole = emit(&cases, findings);
    }
    for (size_t i = 0; i < cases.n; i++)
        free(cases.at[i].role);
    free(cases.at);
    return whole;
}
