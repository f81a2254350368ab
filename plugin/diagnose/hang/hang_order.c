#include "diagnose/hang/hang_order.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { CALLS_MAX = 32 }; /* of each communicator, that may be what stands still */

static const struct muster_hang_member *part_of(const struct muster_hang_comm *comm, uint32_t who)
{
    for (uint32_t i = 0; i < comm->members; i++)
        if (comm->member[i].who == who)
            return &comm->member[i];
    return NULL;
}

/* > 0: the rank made call `a` of one before call `b` of the other; 0: not known. */
static int order_of(const struct muster_hang_member *one, uint64_t a,
                    const struct muster_hang_member *two, uint64_t b)
{
    const struct muster_hang_call *first = muster_hang_call(one, a);
    const struct muster_hang_call *second = muster_hang_call(two, b);
    if (!first || !second || !first->enqueue_ns || !second->enqueue_ns)
        return 0;
    return first->enqueue_ns < second->enqueue_ns ? 1 : -1;
}

/* What stands in `finding`: role CULPRIT becomes those that are named, the rest waits. */
static void describe(struct muster_hang_case *hang, const struct muster_hang_comm *other, bool tie,
                     bool proof)
{
    struct muster_finding *finding = &hang->finding;
    finding->kind = MUSTER_FINDING_HANG_ORDER;
    finding->comms[0] = hang->comm->id;
    finding->comms[1] = other->id;
    finding->confidence = muster_confidence_hang(finding->kind, tie     ? MUSTER_PROOF_TIE
                                                                : proof ? MUSTER_PROOF_ENDED
                                                                        : MUSTER_PROOF_ORDER);
    muster_hang_case_close(hang);
    muster_finding_line(&finding->evidence,
                        "both are outstanding: ranks started %016" PRIx64 " before %016" PRIx64
                        ", and others the reverse",
                        hang->comm->id, other->id);
    if (tie)
        muster_finding_line(&finding->not_observable,
                            "which order is meant: as many ranks have the one as the other");
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "start the two communicators in one order on all ranks, group them, or set "
                     "NCCL_LAUNCH_ORDER_IMPLICIT=1");
}

/* Names the smaller of the two sides: those that are missing, or those that wait for them and are
 * in `other` too. */
static void name_sides(struct muster_hang_case *hang, const struct muster_hang_comm *other,
                       bool proof)
{
    uint32_t missing = 0, waiting = 0;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        missing += hang->role[i] == MUSTER_HANG_CULPRIT;
        waiting += hang->role[i] == MUSTER_HANG_VICTIM;
    }
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        bool side = hang->role[i] == MUSTER_HANG_CULPRIT;
        bool counter = !side && hang->role[i] == MUSTER_HANG_VICTIM &&
                       part_of(other, hang->comm->member[i].who) != NULL;
        if (side)
            hang->role[i] = missing <= waiting ? MUSTER_HANG_BOTH : MUSTER_HANG_VICTIM;
        else if (counter)
            hang->role[i] = waiting <= missing ? MUSTER_HANG_BOTH : MUSTER_HANG_VICTIM;
    }
    describe(hang, other, missing == waiting, proof);
}

/* Whether every missing rank called into `other` what a rank that waits here called there only
 * afterwards. */
static bool went_ahead(const struct muster_hang_case *hang, const struct muster_hang_comm *other,
                       const struct muster_hang_facts *there)
{
    uint32_t missing = 0;
    if (muster_func_is_p2p(hang->finding.op.func))
        return false;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        if (hang->role[i] != MUSTER_HANG_CULPRIT)
            continue;
        const struct muster_hang_member *own = part_of(other, hang->comm->member[i].who);
        if (!own || own->over || own->calls <= there->done || own->ended == MUSTER_HANG_IDLE)
            return false;
        bool ahead = false;
        for (uint32_t v = 0; v < hang->comm->members && !ahead; v++) {
            const struct muster_hang_member *waits = &hang->comm->member[v];
            const struct muster_hang_member *its =
                hang->role[v] == MUSTER_HANG_VICTIM ? part_of(other, waits->who) : NULL;
            ahead = its && order_of(waits, hang->finding.op.index, its, own->calls - 1) > 0;
        }
        if (!ahead)
            return false;
        missing++;
    }
    return missing > 0;
}

bool muster_hang_make_order(const struct muster_hang_cases *cases, struct muster_hang_case *missing,
                            const struct muster_hang_case *other)
{
    bool stuck = other->finding.kind == MUSTER_FINDING_HANG_STUCK;
    (void)cases;
    if (muster_func_is_p2p(missing->finding.op.func) || muster_func_is_p2p(other->finding.op.func))
        return false;
    if (stuck) {
        struct muster_hang_facts there = {.done = 0};
        if (!went_ahead(missing, other->comm, &there))
            return false;
    }
    name_sides(missing, other->comm, stuck || missing->proven);
    return true;
}

/* ---- one that is stuck, and another that may be ---- */

/* Ranks that are in both. */
struct shared {
    uint32_t i; /* in the first */
    const struct muster_hang_member *one, *two;
};

static uint32_t share(const struct muster_hang_comm *one, const struct muster_hang_comm *two,
                      const uint32_t *place, struct shared *shared)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < two->members; i++) {
        uint32_t at = place[two->member[i].who];
        if (at)
            shared[n++] = (struct shared){at - 1, &one->member[at - 1], &two->member[i]};
    }
    return n;
}

static bool opposite_at(const struct shared *shared, uint32_t n, uint64_t a, uint64_t b)
{
    bool before = false, after = false;
    for (uint32_t i = 0; i < n && !(before && after); i++) {
        int order = order_of(shared[i].one, a, shared[i].two, b);
        before |= order > 0;
        after |= order < 0;
    }
    return before && after;
}

/* Of the calls that all entered: those from the first that is not known to have ended on, or, if
 * nothing is known, the last. */
static uint64_t first_of(const struct muster_hang_facts *facts)
{
    uint64_t last = facts->least > CALLS_MAX ? facts->least - CALLS_MAX : 0;
    return facts->done > 0 ? facts->done : last;
}

static uint64_t end_of(const struct muster_hang_facts *facts)
{
    uint64_t end = first_of(facts) + CALLS_MAX;
    return end < facts->least ? end : facts->least;
}

/* Calls that all entered and that are not known to have ended, made in opposite order. */
static bool find_opposite(const struct shared *shared, uint32_t n,
                          const struct muster_hang_facts *one, const struct muster_hang_facts *two,
                          uint64_t *a, uint64_t *b)
{
    for (*a = first_of(one); *a < end_of(one); ++*a) {
        for (*b = first_of(two); *b < end_of(two); ++*b)
            if (opposite_at(shared, n, *a, *b))
                return true;
    }
    return false;
}

static void name_opposite(struct muster_hang_case *hang, const struct muster_hang_comm *other,
                          const struct shared *shared, uint32_t n, uint64_t a, uint64_t b)
{
    for (uint32_t i = 0; i < hang->comm->members; i++)
        hang->role[i] = MUSTER_HANG_BYSTANDER;
    for (uint32_t i = 0; i < n; i++) {
        int order = order_of(shared[i].one, a, shared[i].two, b);
        hang->role[shared[i].i] = order < 0   ? MUSTER_HANG_CULPRIT
                                  : order > 0 ? MUSTER_HANG_VICTIM
                                              : MUSTER_HANG_BYSTANDER;
    }
    name_sides(hang, other, true);
}

static void drop_stuck(struct muster_hang_cases *cases, const struct muster_hang_comm *comm)
{
    for (size_t i = 0; i < cases->n; i++)
        cases->at[i].dropped |=
            cases->at[i].comm == comm && cases->at[i].finding.kind == MUSTER_FINDING_HANG_STUCK;
}

/* False: no memory. */
static bool try_others(struct muster_hang_cases *cases, struct muster_hang_state *view,
                       struct muster_hang_case *hang)
{
    const struct muster_hang_facts *facts = &cases->facts[hang->comm - view->comm];
    uint32_t *place = muster_arena_array(cases->arena, (size_t)cases->whos + 1, sizeof *place);
    struct shared *shared =
        muster_arena_array(cases->arena, hang->comm->members + 1, sizeof *shared);
    bool found = false;
    uint64_t a, b;
    for (uint32_t i = 0; place && i < hang->comm->members; i++)
        place[hang->comm->member[i].who] = i + 1;
    for (size_t c = 0; place && shared && c < view->comms && !found; c++) {
        struct muster_hang_comm *other = &view->comm[c];
        const struct muster_hang_facts *there = &cases->facts[c];
        if (other == hang->comm || other->duplicate_rank || other->members > hang->comm->members ||
            there->idle || there->over)
            continue;
        uint32_t n = share(hang->comm, other, place, shared);
        found = n > 1 && find_opposite(shared, n, facts, there, &a, &b);
        if (found) {
            drop_stuck(cases, other);
            name_opposite(hang, other, shared, n, a, b);
        }
    }
    return place && shared;
}

static bool is_live(const struct muster_hang_case *hang, enum muster_finding_kind kind)
{
    return !hang->dropped && hang->finding.kind == kind;
}

/* What else the same ranks are missing in needs no other reason. */
static void drop_same(struct muster_hang_cases *cases, size_t kept)
{
    const struct muster_finding *finding = &cases->at[kept].finding;
    for (size_t i = 0; i < cases->n; i++) {
        const struct muster_finding *other = &cases->at[i].finding;
        if (i != kept && is_live(&cases->at[i], MUSTER_FINDING_HANG_ABSENT) &&
            other->ranks == finding->ranks &&
            memcmp(other->rank, finding->rank, finding->ranks * sizeof other->rank[0]) == 0)
            cases->at[i].dropped = true;
    }
}

bool muster_hang_find_orders(struct muster_hang_cases *cases, struct muster_hang_state *view)
{
    for (size_t i = 0; i < cases->n; i++)
        if (is_live(&cases->at[i], MUSTER_FINDING_HANG_STUCK) &&
            !try_others(cases, view, &cases->at[i]))
            return false;
    for (size_t i = 0; i < cases->n; i++) {
        struct muster_hang_case *hang = &cases->at[i];
        for (size_t c = 0; c < view->comms && is_live(hang, MUSTER_FINDING_HANG_ABSENT); c++) {
            if (&view->comm[c] == hang->comm || view->comm[c].duplicate_rank ||
                !went_ahead(hang, &view->comm[c], &cases->facts[c]))
                continue;
            drop_same(cases, i);
            name_sides(hang, &view->comm[c], hang->proven);
        }
    }
    return true;
}
