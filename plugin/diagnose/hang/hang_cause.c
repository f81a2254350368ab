/* What a hang comes from: a rank that is missing here because it waits elsewhere is a victim. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "diagnose/hang/hang_case.h"
#include "diagnose/hang/hang_order.h"

static bool is_stuck(const struct muster_hang_case *hang)
{
    return hang->finding.kind == MUSTER_FINDING_HANG_STUCK;
}

/* Root before tentative, then whoever has waited longest. */
static bool better(const struct muster_hang_case *a, const struct muster_hang_case *b)
{
    if (a->tentative != b->tentative)
        return !a->tentative;
    return a->finding.since_unix_ns < b->finding.since_unix_ns;
}

static void note_waits(struct muster_hang_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++) {
        const struct muster_hang_case *hang = &cases->at[i];
        for (uint32_t m = 0; m < hang->comm->members && !hang->dropped; m++) {
            struct muster_hang_who *who = &cases->who[hang->comm->member[m].who];
            size_t *in = is_stuck(hang) ? &who->stuck_in : &who->waits_in;
            if ((hang->role[m] & MUSTER_HANG_VICTIM) &&
                (*in == MUSTER_HANG_NOWHERE || better(hang, &cases->at[*in])))
                *in = i;
        }
    }
}

/* The case that this one comes from: where the ranks that are missing in it wait. What stands
 * behind a kernel that waits cannot end, so of a stuck one any rank counts. */
static size_t cause_of(const struct muster_hang_cases *cases, size_t i)
{
    const struct muster_hang_case *hang = &cases->at[i];
    size_t found = MUSTER_HANG_NOWHERE, stuck = MUSTER_HANG_NOWHERE;
    if (hang->dropped || (!hang->tentative && !is_stuck(hang)))
        return MUSTER_HANG_NOWHERE;
    for (uint32_t m = 0; m < hang->comm->members; m++) {
        const struct muster_hang_who *who = &cases->who[hang->comm->member[m].who];
        if (!is_stuck(hang) && !(hang->role[m] & MUSTER_HANG_CULPRIT))
            continue;
        if (who->waits_in != MUSTER_HANG_NOWHERE && who->waits_in != i &&
            (found == MUSTER_HANG_NOWHERE || better(&cases->at[who->waits_in], &cases->at[found])))
            found = who->waits_in;
        if (who->stuck_in != MUSTER_HANG_NOWHERE && who->stuck_in != i)
            stuck = who->stuck_in;
    }
    return found != MUSTER_HANG_NOWHERE ? found : is_stuck(hang) ? MUSTER_HANG_NOWHERE : stuck;
}

/* Where the causes of case `i` lead: the case that has none; *cycle: they lead in a circle, and
 * this is one of it. */
static size_t root_of(struct muster_hang_cases *cases, size_t i, bool *cycle)
{
    uint32_t round = (uint32_t)i + 1;
    *cycle = false;
    while (cases->at[i].because_of != MUSTER_HANG_NOWHERE) {
        if (cases->at[i].round_plus == round) {
            *cycle = true;
            return i;
        }
        cases->at[i].round_plus = round;
        i = cases->at[i].because_of;
    }
    return i;
}

static void make_root(struct muster_hang_case *hang)
{
    hang->because_of = MUSTER_HANG_NOWHERE;
    hang->tentative = false;
}

/* Two ranks of one communicator that each wait for a message of the other. */
static void make_both(struct muster_hang_case *hang)
{
    for (uint32_t m = 0; m < hang->comm->members; m++)
        if (hang->role[m] != MUSTER_HANG_BYSTANDER)
            hang->role[m] = MUSTER_HANG_BOTH;
    hang->finding.confidence = muster_confidence_hang(MUSTER_FINDING_HANG_ABSENT, MUSTER_PROOF_TIE);
    muster_finding_line(&hang->finding.not_observable,
                        "which of them is wrong: each waits for the other");
    muster_hang_case_close(hang);
    make_root(hang);
}

static bool is_missing_collective(const struct muster_hang_case *hang)
{
    return !is_stuck(hang) && !muster_func_is_p2p(hang->finding.op.func);
}

/* Of a circle: the case to keep. One that all entered and none ends; else the collective that
 * fewest ranks miss. */
static size_t choose(const struct muster_hang_cases *cases, size_t start)
{
    size_t found = MUSTER_HANG_NOWHERE, i = start;
    do {
        const struct muster_hang_case *hang = &cases->at[i];
        if (is_stuck(hang))
            return i;
        if (is_missing_collective(hang) && hang->finding.ranks < hang->finding.victims &&
            (found == MUSTER_HANG_NOWHERE || hang->finding.ranks < cases->at[found].finding.ranks))
            found = i;
        i = hang->because_of;
    } while (i != start);
    return found;
}

/* Makes a root of one case of a circle. */
static void break_cycle(struct muster_hang_cases *cases, size_t start)
{
    size_t i = start;
    do {
        struct muster_hang_case *one = &cases->at[i], *two = &cases->at[one->because_of];
        struct muster_hang_case *missing = is_stuck(one) ? two : one;
        struct muster_hang_case *other = is_stuck(one) ? one : two;
        if (one->comm != two->comm && !is_stuck(missing) &&
            muster_hang_make_order(cases, missing, other)) {
            make_root(missing);
            return;
        }
        i = one->because_of;
    } while (i != start);
    size_t kept = choose(cases, start);
    if (kept != MUSTER_HANG_NOWHERE)
        make_root(&cases->at[kept]);
    else
        make_both(&cases->at[start]);
}

static void add_rank(int32_t *rank, unsigned *n, int32_t value)
{
    for (unsigned i = 0; i < *n; i++)
        if (rank[i] == value)
            return;
    if (*n < MUSTER_FINDING_RANKS)
        rank[(*n)++] = value;
}

static bool is_culprit(const struct muster_finding *finding, int32_t rank)
{
    for (unsigned i = 0; i < finding->ranks; i++)
        if (finding->rank[i] == rank)
            return true;
    return false;
}

/* What `from` cost belongs to `into`. */
static void merge(struct muster_hang_case *into, struct muster_hang_case *from)
{
    struct muster_finding *finding = &into->finding;
    for (unsigned i = 0; i < from->finding.victims; i++)
        if (!is_culprit(finding, from->finding.victim[i]))
            add_rank(finding->victim, &finding->victims, from->finding.victim[i]);
    if (finding->evidence.n < MUSTER_FINDING_LINES - 2)
        muster_finding_line(&finding->evidence,
                            "communicator %016" PRIx64 " waits for it, too, in #%" PRIu64
                            " since it holds a rank of this one",
                            from->comm->id, from->finding.op.index);
    from->dropped = true;
}

static uint32_t first_culprit(const struct muster_hang_case *hang)
{
    for (uint32_t m = 0; m < hang->comm->members; m++)
        if (hang->role[m] == MUSTER_HANG_CULPRIT)
            return hang->comm->member[m].who;
    return UINT32_MAX;
}

static bool same_culprit(const struct muster_hang_case *a, const struct muster_hang_case *b)
{
    if (a->finding.kind != b->finding.kind || a->finding.ranks != b->finding.ranks ||
        a->finding.ranks == 0 || first_culprit(a) != first_culprit(b))
        return false;
    for (unsigned i = 0; i < a->finding.ranks; i++)
        if (!is_culprit(&b->finding, a->finding.rank[i]))
            return false;
    return true;
}

/* One rank that is missing everywhere is one finding, that of the communicator that waits longest.
 */
static void merge_same(struct muster_hang_cases *cases)
{
    for (size_t i = 0; i < cases->n; i++) {
        for (size_t j = 0; j < cases->n && !cases->at[i].dropped; j++) {
            struct muster_hang_case *a = &cases->at[i], *b = &cases->at[j];
            bool later = b->finding.since_unix_ns > a->finding.since_unix_ns ||
                         (b->finding.since_unix_ns == a->finding.since_unix_ns && j > i);
            if (i != j && !b->dropped && later && same_culprit(a, b) &&
                a->finding.kind != MUSTER_FINDING_HANG_MISMATCH)
                merge(a, b);
        }
    }
}

static void report_unexplained(const struct muster_hang_cases *cases,
                               const struct muster_hang_case *hang)
{
    muster_finding_line(cases->not_observable,
                        "communicator %016" PRIx64 ": ranks wait in #%" PRIu64
                        " for ranks that seem to wait themselves; for what is not observable",
                        hang->comm->id, hang->finding.op.index);
}

/* A rank that waits for a known reason holds up whatever else it has entered. */
static void merge_held_up(struct muster_hang_cases *cases, const size_t *root)
{
    for (uint32_t w = 0; w < cases->whos; w++)
        cases->who[w].waits_in = MUSTER_HANG_NOWHERE;
    for (size_t i = 0; i < cases->n; i++) {
        const struct muster_hang_case *hang = &cases->at[i], *cause = &cases->at[root[i]];
        for (uint32_t m = 0; m < hang->comm->members && !cause->tentative && !is_stuck(cause); m++)
            if (hang->role[m] & MUSTER_HANG_VICTIM)
                cases->who[hang->comm->member[m].who].waits_in = root[i];
    }
    for (size_t i = 0; i < cases->n; i++) {
        struct muster_hang_case *hang = &cases->at[i];
        for (uint32_t m = 0; m < hang->comm->members && is_stuck(hang) && !hang->dropped; m++) {
            size_t in = cases->who[hang->comm->member[m].who].waits_in;
            if (in != MUSTER_HANG_NOWHERE)
                merge(&cases->at[in], hang);
        }
    }
}

static void break_cycles(struct muster_hang_cases *cases)
{
    bool cycle;
    for (size_t i = 0; i < cases->n; i++) {
        size_t root = root_of(cases, i, &cycle);
        if (cycle)
            break_cycle(cases, root);
        for (size_t j = 0; j < cases->n && cycle; j++)
            cases->at[j].round_plus = 0;
    }
    for (size_t i = 0; i < cases->n; i++)
        cases->at[i].round_plus = 0;
}

/* ---- doubt ---- */

/* Suspects by the order of calls alone: ranks that called least, and of which it is not known that
 * what they called has ended. Two of them that are in one more communicator may wait there for each
 * other, in an operation that both entered. */
static bool is_suspicion(const struct muster_hang_case *hang)
{
    return !hang->dropped && !hang->tentative && !hang->proven &&
           hang->finding.kind == MUSTER_FINDING_HANG_ABSENT;
}

static bool may_be_inside(const struct muster_hang_facts *facts,
                          const struct muster_hang_member *member)
{
    bool inside = member->calls > facts->done;
    for (uint32_t i = 0; i < member->pairs; i++)
        inside |= member->pair[i].posted > member->pair[i].done;
    return inside && !member->over && member->ended != MUSTER_HANG_IDLE;
}

/* Marks suspects that share the communicator, unless it is the one that they are missed in. */
static void doubt(const struct muster_hang_comm *comm, const struct muster_hang_facts *facts,
                  const size_t *suspect, const struct muster_hang_cases *cases, bool *doubted)
{
    uint32_t inside = 0;
    for (int pass = 0; pass < 2 && (pass == 0 || inside > 1); pass++) {
        for (uint32_t i = 0; i < comm->members; i++) {
            const struct muster_hang_member *member = &comm->member[i];
            size_t in = suspect[member->who];
            if (!in || !may_be_inside(facts, member) ||
                (cases->at[in - 1].comm == comm && member->pairs == 0))
                continue;
            inside += pass == 0;
            doubted[member->who] |= pass == 1;
        }
    }
}

/* Most are missing, and they are in more communicators than this one. */
static bool is_lopsided(const struct muster_hang_state *view, const struct muster_hang_case *hang)
{
    for (size_t c = 0; c < view->comms && hang->finding.ranks > hang->finding.victims; c++) {
        const struct muster_hang_comm *comm = &view->comm[c];
        for (uint32_t i = 0; i < comm->members && comm != hang->comm; i++) {
            for (uint32_t m = 0; m < hang->comm->members; m++)
                if ((hang->role[m] & MUSTER_HANG_CULPRIT) &&
                    hang->comm->member[m].who == comm->member[i].who)
                    return true;
        }
    }
    return false;
}

static void drop(struct muster_hang_cases *cases, struct muster_hang_case *hang)
{
    hang->dropped = true;
    muster_finding_line(cases->not_observable,
                        "communicator %016" PRIx64 ": rank %" PRId32 " is missing in #%" PRIu64
                        ", or waits for others that are; completion not observable",
                        hang->comm->id, hang->finding.rank[0], hang->finding.op.index);
}

static bool drop_doubtful(struct muster_hang_cases *cases, struct muster_hang_state *view)
{
    size_t whos = (size_t)cases->whos + 1;
    size_t *suspect = muster_arena_array(cases->arena, whos, sizeof *suspect);
    bool *doubted = muster_arena_array(cases->arena, whos, sizeof *doubted);
    bool whole = suspect && doubted;
    for (size_t i = 0; i < cases->n && whole; i++) {
        const struct muster_hang_case *hang = &cases->at[i];
        for (uint32_t m = 0; m < hang->comm->members && is_suspicion(hang); m++)
            if (hang->role[m] & MUSTER_HANG_CULPRIT)
                suspect[hang->comm->member[m].who] = i + 1;
    }
    for (size_t c = 0; c < view->comms && whole; c++)
        if (!view->comm[c].duplicate_rank)
            doubt(&view->comm[c], &cases->facts[c], suspect, cases, doubted);
    for (size_t i = 0; i < cases->n && whole; i++) {
        struct muster_hang_case *hang = &cases->at[i];
        if (is_suspicion(hang) && is_lopsided(view, hang))
            drop(cases, hang);
        for (uint32_t m = 0; m < hang->comm->members && is_suspicion(hang); m++)
            if ((hang->role[m] & MUSTER_HANG_CULPRIT) && doubted[hang->comm->member[m].who])
                drop(cases, hang);
    }
    return whole;
}

bool muster_hang_causes(struct muster_hang_cases *cases, struct muster_hang_state *view)
{
    bool cycle;
    size_t *root = muster_arena_array(cases->arena, cases->n + 1, sizeof *root);
    if (!root)
        return false;
    note_waits(cases);
    for (size_t i = 0; i < cases->n; i++)
        cases->at[i].because_of = cause_of(cases, i);
    break_cycles(cases);
    for (size_t i = 0; i < cases->n; i++) {
        root[i] = root_of(cases, i, &cycle);
        if (root[i] != i && !cases->at[root[i]].tentative && !cases->at[i].dropped)
            merge(&cases->at[root[i]], &cases->at[i]);
    }
    merge_held_up(cases, root);
    for (size_t i = 0; i < cases->n; i++) {
        struct muster_hang_case *hang = &cases->at[i];
        if (hang->tentative && !hang->dropped && hang->because_of == MUSTER_HANG_NOWHERE)
            report_unexplained(cases, hang);
        hang->dropped |= hang->tentative;
    }
    if (!muster_hang_find_orders(cases, view) || !drop_doubtful(cases, view))
        return false;
    merge_same(cases);
    return true;
}
