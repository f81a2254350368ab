/* What a hang comes from: a rank that is missing here because it waits elsewhere is a victim. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "diagnose/hang_case.h"

static bool same_rank(const struct muster_hang_member *a, const struct muster_hang_member *b)
{
    return a->pid == b->pid && a->boot_hash == b->boot_hash && a->rank == b->rank;
}

/* Its role in the case; MUSTER_HANG_BYSTANDER where it is no member. */
static unsigned role_in(const struct muster_hang_case *hang,
                        const struct muster_hang_member *member)
{
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        if (same_rank(&hang->comm->member[i], member))
            return hang->role[i];
    }
    return MUSTER_HANG_BYSTANDER;
}

static bool is_stuck(const struct muster_hang_case *hang)
{
    return hang->finding.kind == MUSTER_FINDING_HANG_STUCK;
}

/* Every guilty rank of `hang` waits in `other`; of a stuck one any rank does, since what stands
 * behind a kernel that waits cannot end. */
static bool explained_by(const struct muster_hang_case *hang, const struct muster_hang_case *other)
{
    bool any = false;
    if (hang->finding.kind == MUSTER_FINDING_HANG_DEAD ||
        hang->finding.kind == MUSTER_FINDING_HANG_MISMATCH || (is_stuck(hang) && is_stuck(other)))
        return false;
    for (uint32_t i = 0; i < hang->comm->members; i++) {
        bool asks = is_stuck(hang) || (hang->role[i] & MUSTER_HANG_GUILTY);
        if (!asks)
            continue;
        bool waits = role_in(other, &hang->comm->member[i]) & MUSTER_HANG_VICTIM;
        any |= waits;
        if (!waits && !is_stuck(hang))
            return false;
    }
    return any;
}

static void find_causes(struct muster_hang_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++) {
        for (size_t j = 0; j < cases->n && cases->at[i].because_of == SIZE_MAX; j++) {
            if (i != j && explained_by(&cases->at[i], &cases->at[j]))
                cases->at[i].because_of = j;
        }
    }
}

/* The case that nothing explains, or SIZE_MAX and *cycle: one of those that explain each other. */
static size_t root_of(const struct muster_hang_cases *cases, size_t i, size_t *cycle)
{
    for (size_t steps = 0; steps <= cases->n; steps++) {
        if (cases->at[i].because_of == SIZE_MAX)
            return i;
        i = cases->at[i].because_of;
    }
    *cycle = i;
    return SIZE_MAX;
}

static void add_rank(int32_t *rank, unsigned *n, int32_t value)
{
    for (unsigned i = 0; i < *n; i++) {
        if (rank[i] == value)
            return;
    }
    if (*n < MUSTER_FINDING_RANKS)
        rank[(*n)++] = value;
}

static bool is_guilty(const struct muster_finding *finding, int32_t rank)
{
    for (unsigned i = 0; i < finding->ranks; i++) {
        if (finding->rank[i] == rank)
            return true;
    }
    return false;
}

/* What `from` cost belongs to `into`. */
static void fold(struct muster_hang_case *into, struct muster_hang_case *from)
{
    struct muster_finding *finding = &into->finding;
    for (unsigned i = 0; i < from->finding.victims; i++) {
        if (!is_guilty(finding, from->finding.victim[i]))
            add_rank(finding->victim, &finding->victims, from->finding.victim[i]);
    }
    if (finding->evidence.n < MUSTER_FINDING_LINES - 2)
        muster_finding_say(&finding->evidence,
                           "communicator %016" PRIx64 " waits for it, too, in #%" PRIu64
                           " since it holds a rank of this one",
                           from->comm->id, from->finding.op.index);
    from->dropped = true;
}

/* Two communicators that wait for each other's ranks were started in opposite order. */
static void make_order(struct muster_hang_case *one, struct muster_hang_case *two)
{
    struct muster_finding *finding = &one->finding;
    finding->kind = MUSTER_FINDING_HANG_ORDER;
    finding->comms[0] = one->comm->id;
    finding->comms[1] = two->comm->id;
    for (unsigned i = 0; i < two->finding.ranks; i++)
        add_rank(finding->rank, &finding->ranks, two->finding.rank[i]);
    unsigned kept = 0;
    for (unsigned i = 0; i < finding->victims; i++) {
        if (!is_guilty(finding, finding->victim[i]))
            finding->victim[kept++] = finding->victim[i];
    }
    finding->victims = kept;
    finding->confidence = 0.5;
    muster_finding_say(&finding->evidence,
                       "both are outstanding: the ranks that wait in %016" PRIx64
                       " are missing in %016" PRIx64 ", and the reverse",
                       one->comm->id, two->comm->id);
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "start the two communicators in one order on all ranks, group them, or set "
                     "NCCL_LAUNCH_ORDER_IMPLICIT=1");
    two->dropped = true;
}

/* Of two communicators that all ranks entered, which a rank called first. 0: not known. */
static int order_on(const struct muster_hang_case *a, const struct muster_hang_case *b,
                    const struct muster_hang_member *on_a)
{
    for (uint32_t i = 0; i < b->comm->members; i++) {
        const struct muster_hang_member *on_b = &b->comm->member[i];
        if (!same_rank(on_a, on_b))
            continue;
        const struct muster_hang_call *one = muster_hang_call(on_a, a->finding.op.index);
        const struct muster_hang_call *two = muster_hang_call(on_b, b->finding.op.index);
        if (!one || !two || !one->enqueue_ns || !two->enqueue_ns)
            return 0;
        return one->enqueue_ns < two->enqueue_ns ? 1 : -1;
    }
    return 0;
}

static bool opposite(struct muster_hang_case *a, struct muster_hang_case *b)
{
    uint32_t first = 0, second = 0;
    for (uint32_t i = 0; i < a->comm->members; i++) {
        int order = order_on(a, b, &a->comm->member[i]);
        first += order > 0;
        second += order < 0;
    }
    if (first == 0 || second == 0)
        return false;
    a->finding.ranks = 0;
    for (uint32_t i = 0; i < a->comm->members; i++) {
        int order = order_on(a, b, &a->comm->member[i]);
        bool minority = first == second || (first < second ? order > 0 : order < 0);
        if (order != 0 && minority)
            add_rank(a->finding.rank, &a->finding.ranks, a->comm->member[i].rank);
    }
    b->finding.ranks = 0;
    make_order(a, b);
    if (first != second)
        a->finding.confidence = 0.8;
    return true;
}

static void pair_stuck(struct muster_hang_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++) {
        for (size_t j = i + 1; j < cases->n; j++) {
            struct muster_hang_case *a = &cases->at[i], *b = &cases->at[j];
            if (!a->dropped && !b->dropped && is_stuck(a) && is_stuck(b))
                opposite(a, b);
        }
    }
}

static bool same_guilt(const struct muster_hang_case *a, const struct muster_hang_case *b)
{
    if (a->finding.kind != b->finding.kind || a->finding.ranks != b->finding.ranks ||
        a->finding.ranks == 0)
        return false;
    for (uint32_t i = 0; i < a->comm->members; i++) {
        if (a->role[i] == MUSTER_HANG_GUILTY &&
            role_in(b, &a->comm->member[i]) != MUSTER_HANG_GUILTY)
            return false;
    }
    return true;
}

/* One rank that is missing everywhere is one finding, that of the communicator that waits longest.
 */
static void merge_same(struct muster_hang_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++) {
        for (size_t j = 0; j < cases->n; j++) {
            struct muster_hang_case *a = &cases->at[i], *b = &cases->at[j];
            bool later = b->finding.since_unix_ns > a->finding.since_unix_ns ||
                         (b->finding.since_unix_ns == a->finding.since_unix_ns && j > i);
            if (i != j && !a->dropped && !b->dropped && later && same_guilt(a, b) &&
                a->finding.kind != MUSTER_FINDING_HANG_MISMATCH)
                fold(a, b);
        }
    }
}

void muster_hang_causes(struct muster_hang_cases *cases)
{
    find_causes(cases);
    for (size_t i = 0; i < cases->n; i++) {
        size_t cycle = 0, root = root_of(cases, i, &cycle);
        struct muster_hang_case *hang = &cases->at[i];
        if (root == i || hang->dropped)
            continue;
        if (root != SIZE_MAX) {
            fold(&cases->at[root], hang);
            continue;
        }
        struct muster_hang_case *one = &cases->at[cycle], *two = &cases->at[one->because_of];
        if (!one->dropped && !two->dropped && one->comm != two->comm &&
            one->finding.kind != MUSTER_FINDING_HANG_ORDER)
            make_order(one, two);
        else if (hang != one && hang->finding.kind != MUSTER_FINDING_HANG_ORDER)
            hang->dropped = true;
        else if (one->comm == two->comm)
            one->finding.confidence = 0.5; /* each waits for the other */
    }
    pair_stuck(cases);
    merge_same(cases);
}
