#include "diagnose/hang/hang.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/hang/hang_case.h"

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

/* A hash that was used again leaves finalized remains, which are not this communicator. */
static void drop_remains(struct muster_hang_comm *comm)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        struct muster_hang_member *member = &comm->member[i];
        bool again = kept > 0 && comm->member[kept - 1].comm_rank == member->comm_rank;
        if (again && member->over)
            continue;
        comm->duplicate_rank |= again;
        comm->member[kept++] = *member;
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

/* ---- all of it ---- */

static void report_twice(const struct muster_hang_cases *cases, const struct muster_hang_comm *comm)
{
    muster_finding_line(cases->not_observable,
                        "communicator %016" PRIx64 ": a rank is in it twice (a restarted "
                        "process, or an id used again): its ranks are not compared",
                        comm->id);
}

static bool readable(const struct muster_hang_comm *comm, const struct muster_hang_facts *facts)
{
    return !comm->duplicate_rank && comm->members > 0 && facts->over < comm->members;
}

/* A process that is gone outranks all. Looked for twice: who is known to be gone from one
 * communicator is so in the others. */
static bool evaluate_dead(struct muster_hang_cases *cases, struct muster_hang_state *view,
                          bool *dead)
{
    for (size_t i = 0; i < 2 * view->comms; i++) {
        size_t c = i % view->comms, before = cases->n;
        struct muster_hang_comm *comm = &view->comm[c];
        if (comm->duplicate_rank && i == c)
            report_twice(cases, comm);
        if (dead[c] || !readable(comm, &cases->facts[c]))
            continue;
        if (!muster_hang_evaluate_dead(cases, comm, &cases->facts[c]) ||
            !muster_hang_evaluate_pairs(cases, comm, true))
            return false;
        dead[c] = cases->n > before;
    }
    return true;
}

/* Then content before length, and length before what all entered. */
static bool evaluate_rest(struct muster_hang_cases *cases, struct muster_hang_comm *comm,
                          const struct muster_hang_facts *facts)
{
    size_t before = cases->n;
    if (!muster_hang_evaluate_mismatch(cases, comm, facts) ||
        (cases->n == before && !muster_hang_evaluate_missing(cases, comm, facts)))
        return false;
    size_t known = cases->n;
    bool named = known > before && !cases->at[before].tentative;
    if (!named && !muster_hang_evaluate_stuck(cases, comm, facts))
        return false;
    /* Ranks that ran ahead of others are no reason where all are stuck in the same. */
    if (cases->n > known && known > before)
        cases->at[before].dropped = true;
    return muster_hang_evaluate_pairs(cases, comm, false) &&
           (named || muster_hang_evaluate_stuck_pairs(cases, comm, facts));
}

static bool evaluate(struct muster_hang_cases *cases, struct muster_hang_state *view)
{
    bool *dead = muster_arena_array(view->arena, view->comms + 1, sizeof *dead);
    bool whole = dead && muster_hang_scan(cases, view) && evaluate_dead(cases, view, dead);
    for (size_t c = 0; c < view->comms && whole; c++)
        if (!dead[c] && readable(&view->comm[c], &cases->facts[c]))
            whole = evaluate_rest(cases, &view->comm[c], &cases->facts[c]);
    return whole;
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

/* Why it stands still; or, of a job that is over and hung in nothing, who went first. */
static bool find(struct muster_hang_cases *cases, struct muster_hang_state *state, bool first)
{
    for (size_t c = 0; c < state->comms; c++)
        prepare(&state->comm[c]);
    bool whole = evaluate(cases, state) && muster_hang_causes(cases, state) &&
                 muster_hang_evaluate_gone(cases, state);
    whole = whole && (cases->n > 0 || muster_hang_evaluate_given_up(cases, state));
    return whole && (!first || cases->n > 0 || muster_hang_evaluate_first(cases, state));
}

bool muster_hang_find(const struct muster_view *view, uint64_t threshold_ns, bool first,
                      struct muster_findings *findings)
{
    struct muster_arena arena = {0};
    struct muster_hang_cases cases = {
        .arena = &arena, .threshold_ns = threshold_ns, .not_observable = &findings->not_observable};
    struct muster_hang_state state;
    muster_hang_state_of(view, &arena, &state);
    bool whole = !arena.failed && find(&cases, &state, first) && emit(&cases, findings);
    muster_findings_name(findings, view);
    muster_arena_free(&arena);
    free(cases.at);
    return whole;
}
