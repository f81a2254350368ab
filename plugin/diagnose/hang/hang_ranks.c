/* What each communicator shows as a whole, and which ranks wait anywhere: a rank that waits in one
 * communicator is not the reason why others wait for it in another. */
#include <stdlib.h>
#include <string.h>

#include "diagnose/hang/hang_case.h"

/* ---- which members are one rank ---- */

struct identity {
    uint64_t boot;
    uint32_t pid;
    int32_t gpu; /* or rank, where it is not known */
    struct muster_hang_member *member;
};

static int by_identity(const void *left, const void *right)
{
    const struct identity *a = left, *b = right;
    if (a->boot != b->boot)
        return a->boot < b->boot ? -1 : 1;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return (a->gpu > b->gpu) - (a->gpu < b->gpu);
}

static bool number_ranks(struct muster_hang_cases *cases, struct muster_hang_state *view)
{
    size_t n = 0, all = 0;
    for (size_t c = 0; c < view->comms; c++)
        all += view->comm[c].members;
    struct identity *identity = muster_arena_array(cases->arena, all + 1, sizeof *identity);
    cases->who = muster_arena_array(cases->arena, all + 1, sizeof *cases->who);
    if (!identity || !cases->who)
        return false;
    for (size_t c = 0; c < view->comms; c++) {
        for (uint32_t i = 0; i < view->comm[c].members; i++) {
            struct muster_hang_member *member = &view->comm[c].member[i];
            int32_t gpu = member->gpu >= 0 ? member->gpu : -2 - member->rank;
            identity[n++] = (struct identity){member->boot_hash, member->pid, gpu, member};
        }
    }
    if (n)
        qsort(identity, n, sizeof *identity, by_identity);
    for (size_t i = 0; i < n; i++) {
        cases->whos += i == 0 || by_identity(&identity[i - 1], &identity[i]) != 0;
        identity[i].member->who = cases->whos - 1;
    }
    for (uint32_t w = 0; w < cases->whos; w++) {
        cases->who[w].waits_in = cases->who[w].stuck_in = MUSTER_HANG_NOWHERE;
        cases->who[w].proven = true;
    }
    return true;
}

/* ---- a communicator as a whole ---- */

static bool differs_at(const struct muster_hang_comm *comm, uint64_t number)
{
    const struct muster_hang_call *first = NULL;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_call *call = muster_hang_call(&comm->member[i], number);
        if (call && first && !muster_hang_same_call(call, first))
            return true;
        first = first ? first : call;
    }
    return false;
}

/* The first number from n on that any rank may remember: one that is far ahead of the others, or a
 * segment that holds nonsense, leaves a gap that nobody would live to walk through. */
static uint64_t remembered_from(const struct muster_hang_comm *comm, uint64_t n)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < comm->members && first > n; i++) {
        uint64_t calls = comm->member[i].calls;
        uint64_t begin = calls > MUSTER_HANG_HISTORY ? calls - MUSTER_HANG_HISTORY : 0;
        if (calls > n)
            first = begin < first ? (begin > n ? begin : n) : first;
    }
    return first;
}

/* The first place where two ranks are known to have called different things. */
static uint64_t first_difference(const struct muster_hang_comm *comm,
                                 const struct muster_hang_facts *facts)
{
    bool one_hash = facts->least == facts->most;
    for (uint32_t i = 1; i < comm->members && one_hash; i++)
        one_hash = comm->member[i].call_hash == comm->member[0].call_hash;
    if (one_hash)
        return UINT64_MAX;
    uint64_t from = facts->least > MUSTER_HANG_HISTORY ? facts->least - MUSTER_HANG_HISTORY : 0;
    from = facts->done > from ? facts->done : from; /* before it they went on */
    for (uint64_t n = from; n < facts->most; n++) {
        n = n < facts->least ? n : remembered_from(comm, n);
        if (n < facts->most && differs_at(comm, n))
            return n;
    }
    return UINT64_MAX;
}

static struct muster_hang_facts scan(const struct muster_hang_comm *comm)
{
    struct muster_hang_facts facts = {
        .least = UINT64_MAX, .all_seen = comm->nranks != 0 && comm->members == comm->nranks};
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_hang_member *member = &comm->member[i];
        facts.least = member->calls < facts.least ? member->calls : facts.least;
        facts.most = member->calls > facts.most ? member->calls : facts.most;
        facts.done = member->done > facts.done ? member->done : facts.done;
        facts.open += member->ended == MUSTER_HANG_OPEN;
        facts.idle += member->ended == MUSTER_HANG_IDLE;
        facts.over += member->over;
    }
    for (uint32_t i = 0; i < comm->members && facts.idle == 0; i++) {
        uint64_t at = comm->member[i].open_at;
        facts.stuck |= at >= facts.done && at < facts.least;
    }
    facts.differs = first_difference(comm, &facts);
    return facts;
}

/* ---- who waits ---- */

struct muster_hang_member *muster_hang_by_rank(const struct muster_hang_comm *comm, int32_t rank)
{
    uint32_t low = 0, high = comm->members;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (comm->member[middle].comm_rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < comm->members && comm->member[low].comm_rank == rank;
    return found ? &comm->member[low] : NULL;
}

static const struct muster_hang_pair *pair_of(const struct muster_hang_member *member, int32_t peer,
                                              bool send)
{
    for (uint32_t i = 0; i < member->pairs; i++)
        if (member->pair[i].peer == peer && member->pair[i].send == send)
            return &member->pair[i];
    return NULL;
}

bool muster_hang_waits_for_peer(const struct muster_hang_comm *comm,
                                const struct muster_hang_member *member,
                                const struct muster_hang_pair *pair, uint64_t *posted_there)
{
    const struct muster_hang_member *there = muster_hang_by_rank(comm, pair->peer);
    if (!there || there == member || member->over || member->ended == MUSTER_HANG_IDLE)
        return false;
    const struct muster_hang_pair *answer = pair_of(there, member->comm_rank, !pair->send);
    *posted_there = answer ? answer->posted : 0;
    return pair->posted > *posted_there &&
           (!pair->send || pair->open || member->ended == MUSTER_HANG_OPEN);
}

static bool in_pair(const struct muster_hang_comm *comm, const struct muster_hang_member *member)
{
    uint64_t posted_there;
    /* A mark does not distinguish a collective from a send or receive of the same communicator. */
    if (member->pairs > 0 && member->ended == MUSTER_HANG_OPEN)
        return true;
    for (uint32_t i = 0; i < member->pairs; i++)
        if (member->pair[i].open ||
            muster_hang_waits_for_peer(comm, member, &member->pair[i], &posted_there))
            return true;
    return false;
}

static bool all_ended(const struct muster_hang_facts *facts,
                      const struct muster_hang_member *member)
{
    bool ended = member->calls <= facts->done;
    for (uint32_t i = 0; i < member->pairs; i++)
        ended &= member->pair[i].posted <= member->pair[i].done;
    return ended;
}

static void mark(struct muster_hang_cases *cases, const struct muster_hang_comm *comm,
                 const struct muster_hang_facts *facts, const struct muster_hang_member *member)
{
    struct muster_hang_who *who = &cases->who[member->who];
    who->comms++;
    if (member->over || member->ended == MUSTER_HANG_IDLE)
        return;
    bool in_call =
        member->in_call_ns != 0 && member->in_call_ns + cases->threshold_ns <= member->seen_ns;
    who->busy |=
        in_call || member->calls > facts->least || (facts->stuck && member->calls > facts->done) ||
        (facts->differs != UINT64_MAX && member->calls > facts->differs) || in_pair(comm, member);
    who->proven &= all_ended(facts, member);
    who->unsure |= member->queued;
    who->unsure |= !facts->all_seen && (member->calls > facts->done || member->pairs > 0);
}

bool muster_hang_scan(struct muster_hang_cases *cases, struct muster_hang_state *view)
{
    cases->facts = muster_arena_array(cases->arena, view->comms + 1, sizeof *cases->facts);
    if (!cases->facts || !number_ranks(cases, view))
        return false;
    for (size_t c = 0; c < view->comms; c++) {
        const struct muster_hang_comm *comm = &view->comm[c];
        if (comm->duplicate_rank || comm->members == 0)
            continue;
        cases->facts[c] = scan(comm);
        for (uint32_t i = 0; i < comm->members; i++)
            mark(cases, comm, &cases->facts[c], &comm->member[i]);
    }
    return true;
}
