#include "diagnose/divergence/divergence.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "diagnose/divergence/divergence_describe.h"
#include "view/aligned.h"

struct search {
    const struct muster_view *view;
    struct muster_policy_sides policies;
    struct muster_findings *findings;
    struct muster_partition sides;       /* of the communicator at hand */
    const struct muster_view_op **worst; /* of each of its members: the operation to be reported */
    struct muster_arena arena;
    size_t *covered_by; /* of each GPU: finding + 1 that names what its policy differs from */
};

/* ---- policies ---- */

/* The finding that names the difference of all these ranks already; 0: none. */
static size_t covering(const struct search *search, const struct muster_view_comm *comm)
{
    size_t by = search->covered_by[search->view->member[comm->first_member].gpu];
    for (uint32_t i = 1; i < comm->members; i++)
        if (search->covered_by[search->view->member[comm->first_member + i].gpu] != by)
            return 0;
    return by;
}

static int find_policies(struct search *search, const struct muster_view_comm *comm, size_t *by)
{
    *by = covering(search, comm);
    if (*by)
        return 0;
    muster_policy_sides(&search->policies, comm, &search->sides);
    if (search->sides.n < 2)
        return 0;
    struct muster_finding *finding = muster_findings_add(search->findings);
    if (!finding)
        return -1;
    *by = search->findings->n;
    muster_divergence_begin(finding, search->view, comm, &search->sides,
                            MUSTER_DIVERGENCE_POLICIES);
    muster_divergence_of_policies(finding, search->view, comm, search->sides.side);
    for (uint32_t i = 0; i < comm->members; i++)
        search->covered_by[search->view->member[comm->first_member + i].gpu] = *by;
    return 0;
}

/* ---- operations ---- */

/* What a tuner decides about, as far as NCCL shows it. Copy engines are nobody's choice. */
static bool is_comparable(const struct muster_view *view, const struct muster_view_op *op)
{
    const struct muster_view_class *class = &view->class[op->class];
    return !muster_func_is_p2p(op->func) && !(op->flags & (MUSTER_OP_GRAPH | MUSTER_OP_API_ONLY)) &&
           class->algo != MUSTER_ALGO_UNKNOWN && class->algo != MUSTER_ALGO_CE &&
           class->proto != MUSTER_PROTO_UNKNOWN && op->channels;
}

static bool same_call(const struct muster_view *view, const struct muster_view_op *a,
                      const struct muster_view_op *b)
{
    return a->func == b->func && a->count == b->count &&
           view->class[a->class].dtype == view->class[b->class].dtype;
}

enum outcome { ALIKE, DIFFERENT, OTHER_CALLS };

static enum outcome compare(const struct muster_joint *joint)
{
    enum outcome outcome = ALIKE;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        if (!joint->op[i])
            continue;
        if (!same_call(joint->view, joint->any, joint->op[i]))
            return OTHER_CALLS;
        if (!muster_same_choice(joint->view, joint->any, joint->op[i]))
            outcome = DIFFERENT;
    }
    return outcome;
}

/* Of those that differ the first that most ranks show. `by`: the finding about the policies of
 * these ranks + 1; 0: none. -1: no memory. */
static int emit_operations(struct search *search, const struct muster_view_comm *comm, size_t by,
                           uint64_t different, uint64_t compared)
{
    struct muster_finding *finding =
        by ? &search->findings->finding[by - 1] : muster_findings_add(search->findings);
    if (!finding)
        return -1;
    muster_choice_sides(&search->policies, comm, search->worst, &search->sides);
    if (!by)
        muster_divergence_begin(finding, search->view, comm, &search->sides,
                                MUSTER_DIVERGENCE_CHOICES);
    muster_divergence_of_operation(finding, search->view, comm, search->worst, search->sides.side);
    muster_divergence_count(finding, comm, different, compared);
    return 0;
}

struct tally {
    uint64_t compared, different;
    uint64_t doubtful;                   /* differences since */
    const struct muster_view_op *likely; /* this one, after which only such calls came */
    uint32_t shown;                      /* ranks that show the operation to be reported */
};

/* Where one rank skipped a call, or made one too many, others stand beside each of its calls, until
 * something else is called. So a difference counts once all went on to something else alike. */
static void count_op(struct search *search, const struct muster_joint *joint, struct tally *tally,
                     enum outcome outcome)
{
    tally->compared++;
    if (tally->doubtful && !same_call(search->view, tally->likely, joint->any)) {
        tally->different += tally->doubtful;
        tally->doubtful = 0;
    }
    if (outcome == ALIKE)
        return;
    if (!tally->doubtful++)
        tally->likely = joint->any;
    if (joint->present > tally->shown) {
        memcpy(search->worst, joint->op, joint->comm->members * sizeof(*joint->op));
        tally->shown = joint->present;
    }
}

static int find_operations(struct search *search, uint32_t at, size_t by)
{
    const struct muster_view_comm *comm = &search->view->comm[at];
    const struct muster_joint_rule rule = {.takes = is_comparable, .least = 2, .unlike = true};
    struct tally tally = {0};
    struct muster_joint joint;
    muster_joint_begin(&joint, search->view, at, &rule, &search->arena);
    while (muster_joint_next(&joint)) {
        enum outcome outcome = compare(&joint);
        if (outcome == OTHER_CALLS) {
            muster_divergence_not_compared(search->findings, comm, joint.op, tally.doubtful);
            tally.doubtful = 0;
            break;
        }
        count_op(search, &joint, &tally, outcome);
    }
    tally.different += tally.doubtful;
    return tally.different ? emit_operations(search, comm, by, tally.different, tally.compared) : 0;
}

/* ---- communicators ---- */

struct place {
    uint32_t comm, members;
};

static int larger_first(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->members != b->members)
        return a->members > b->members ? -1 : 1;
    return a->comm < b->comm ? -1 : a->comm > b->comm;
}

/* The larger ones first: what is reported of the ranks of one holds for all within it. */
static int find_all(struct search *search, struct place *place)
{
    const struct muster_view *view = search->view;
    for (uint32_t i = 0; i < view->comms; i++)
        place[i] = (struct place){i, view->comm[i].members};
    qsort(place, view->comms, sizeof(*place), larger_first);
    for (size_t i = 0; i < view->comms; i++) {
        const struct muster_view_comm *comm = &view->comm[place[i].comm];
        size_t by = 0;
        if (!muster_joint_possible(comm))
            continue;
        if (find_policies(search, comm, &by) != 0 ||
            find_operations(search, place[i].comm, by) != 0)
            return -1;
    }
    return 0;
}

static struct place *begin(struct search *search, bool waited)
{
    const struct muster_view *view = search->view;
    struct muster_arena *arena = &search->arena;
    size_t members = view->members + 1;
    search->worst = muster_arena_array(arena, members, sizeof(*search->worst));
    search->sides.side = muster_arena_array(arena, members, sizeof(*search->sides.side));
    search->sides.count = muster_arena_array(arena, members, sizeof(*search->sides.count));
    search->covered_by = muster_arena_array(arena, view->gpus + 1, sizeof(*search->covered_by));
    muster_policy_sides_begin(&search->policies, view, waited, arena);
    return muster_arena_array(arena, view->comms + 1, sizeof(struct place));
}

int muster_diagnose_divergence(const struct muster_view *view, bool waited,
                               struct muster_findings *findings, struct muster_err *err)
{
    struct search search = {.view = view, .findings = findings};
    struct place *place = begin(&search, waited);
    if (!search.arena.failed && find_all(&search, place) != 0)
        search.arena.failed = true;
    muster_findings_name(findings, view);
    int result = muster_arena_check(&search.arena, err, "the comparison of policies");
    muster_arena_free(&search.arena);
    return result;
}
