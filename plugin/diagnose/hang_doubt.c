/* Suspects by the order of calls alone: ranks that called least, and of which it is not known that
 * what they called has ended. Two of them that are in one more communicator may wait there for each
 * other, in an operation that both entered. */
#include <inttypes.h>
#include <stdlib.h>

#include "diagnose/hang_case.h"

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
static bool is_lopsided(const struct muster_hang_view *view, const struct muster_hang_case *hang)
{
    for (size_t c = 0; c < view->comms && hang->finding.ranks > hang->finding.victims; c++) {
        const struct muster_hang_comm *comm = &view->comm[c];
        for (uint32_t i = 0; i < comm->members && comm != hang->comm; i++) {
            for (uint32_t m = 0; m < hang->comm->members; m++) {
                if ((hang->role[m] & MUSTER_HANG_GUILTY) &&
                    hang->comm->member[m].who == comm->member[i].who)
                    return true;
            }
        }
    }
    return false;
}

static void drop(struct muster_hang_cases *cases, struct muster_hang_case *hang)
{
    hang->dropped = true;
    muster_finding_say(cases->not_observable,
                       "communicator %016" PRIx64 ": rank %" PRId32 " is missing in #%" PRIu64
                       ", or waits for others that are; completion not observable",
                       hang->comm->id, hang->finding.rank[0], hang->finding.op.index);
}

bool muster_hang_drop_doubtful(struct muster_hang_cases *cases, struct muster_hang_view *view)
{
    size_t *suspect = calloc((size_t)cases->whos + 1, sizeof *suspect);
    bool *doubted = calloc((size_t)cases->whos + 1, sizeof *doubted);
    bool whole = suspect && doubted;
    for (size_t i = 0; i < cases->n && whole; i++) {
        const struct muster_hang_case *hang = &cases->at[i];
        for (uint32_t m = 0; m < hang->comm->members && is_suspicion(hang); m++) {
            if (hang->role[m] & MUSTER_HANG_GUILTY)
                suspect[hang->comm->member[m].who] = i + 1;
        }
    }
    for (size_t c = 0; c < view->comms && whole; c++) {
        if (!view->comm[c].twice)
            doubt(&view->comm[c], &cases->facts[c], suspect, cases, doubted);
    }
    for (size_t i = 0; i < cases->n && whole; i++) {
        struct muster_hang_case *hang = &cases->at[i];
        if (is_suspicion(hang) && is_lopsided(view, hang))
            drop(cases, hang);
        for (uint32_t m = 0; m < hang->comm->members && is_suspicion(hang); m++) {
            if ((hang->role[m] & MUSTER_HANG_GUILTY) && doubted[hang->comm->member[m].who])
                drop(cases, hang);
        }
    }
    free(suspect);
    free(doubted);
    return whole;
}
