#include "diagnose/divergence.h"

#include <stdlib.h>
#include <string.h>

#include "diagnose/divergence_word.h"
#include "diagnose/joint.h"

struct search {
    const struct muster_view *view;
    struct muster_policy_sides policies;
    struct muster_findings *findings;
    struct muster_sides sides;                 /* of the communicator at hand */
    uint32_t *cursor;                          /* of each of its members: within its operations */
    const struct muster_view_op **op, **worst; /* likewise: of one number; of the one to be told */
    size_t *covered_by; /* of each GPU: finding + 1 that names what its policy differs from */
};

/* ---- policies ---- */

/* The finding that names the difference of all these ranks already; 0: none. */
static size_t covering(const struct search *search, const struct muster_view_comm *comm)
{
    size_t by = search->covered_by[search->view->member[comm->first_member].gpu];
    for (uint32_t i = 1; i < comm->members; i++) {
        if (search->covered_by[search->view->member[comm->first_member + i].gpu] != by)
            return 0;
    }
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

/* What a tuner decides about, as far as NCCL told it. Copy engines are nobody's choice. */
static bool is_comparable(const struct muster_view *view, const struct muster_view_op *op)
{
    const struct muster_view_class *class = &view->class[op->class];
    return !muster_func_is_p2p(op->func) && !(op->flags & (MUSTER_OP_GRAPH | MUSTER_OP_API_ONLY)) &&
           class->algo != MUSTER_ALGO_UNKNOWN && class->algo != MUSTER_ALGO_CE &&
           class->proto != MUSTER_PROTO_UNKNOWN && op->channels;
}

static const struct muster_view_op *next_op(const struct search *search,
                                            const struct muster_view_comm *comm, uint32_t i)
{
    const struct muster_view *view = search->view;
    const struct muster_view_member *member = &view->member[comm->first_member + i];
    while (search->cursor[i] < member->ops) {
        const struct muster_view_op *op = &view->op[member->first_op + search->cursor[i]];
        if (is_comparable(view, op))
            return op;
        search->cursor[i]++;
    }
    return NULL;
}

static bool same_call(const struct muster_view *view, const struct muster_view_op *a,
                      const struct muster_view_op *b)
{
    return a->func == b->func && a->count == b->count &&
           view->class[a->class].dtype == view->class[b->class].dtype;
}

enum outcome { ALIKE, DIFFERENT, OTHER_CALLS };

/* Lines up the lowest number that any member has next, and passes it. op[i]: the member's, NULL
 * where it has none of this number. */
static uint32_t line_up(const struct search *search, const struct muster_view_comm *comm,
                        const struct muster_view_op **op)
{
    uint64_t lowest = UINT64_MAX;
    uint32_t present = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        op[i] = next_op(search, comm, i);
        if (op[i] && op[i]->number < lowest)
            lowest = op[i]->number;
    }
    for (uint32_t i = 0; i < comm->members; i++) {
        if (op[i] && op[i]->number != lowest)
            op[i] = NULL;
        search->cursor[i] += op[i] != NULL;
        present += op[i] != NULL;
    }
    return present;
}

static enum outcome compare(const struct search *search, const struct muster_view_comm *comm,
                            const struct muster_view_op *const *op)
{
    const struct muster_view_op *first = NULL;
    enum outcome outcome = ALIKE;
    for (uint32_t i = 0; i < comm->members; i++) {
        if (!op[i])
            continue;
        first = first ? first : op[i];
        if (!same_call(search->view, first, op[i]))
            return OTHER_CALLS;
        if (!muster_same_choice(search->view, first, op[i]))
            outcome = DIFFERENT;
    }
    return outcome;
}

/* Of those that differ the first that most ranks show. `by`: the finding about the policies of
 * these ranks + 1; 0: none. -1: no memory. */
static int tell_operations(struct search *search, const struct muster_view_comm *comm, size_t by,
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
    uint32_t shown;                      /* ranks that show the operation to be told */
};

/* Where one rank skipped a call, or made one too many, others stand beside each of its calls, until
 * something else is called. So a difference counts once all went on to something else alike. */
static void count_row(struct search *search, const struct muster_view_comm *comm,
                      struct tally *tally, uint32_t present, enum outcome outcome)
{
    const struct muster_view_op *any = NULL;
    for (uint32_t i = 0; !any; i++)
        any = search->op[i];
    tally->compared++;
    if (tally->doubtful && !same_call(search->view, tally->likely, any)) {
        tally->different += tally->doubtful;
        tally->doubtful = 0;
    }
    if (outcome == ALIKE)
        return;
    if (!tally->doubtful++)
        tally->likely = any;
    if (present > tally->shown) {
        memcpy(search->worst, search->op, comm->members * sizeof(*search->op));
        tally->shown = present;
    }
}

static int find_operations(struct search *search, const struct muster_view_comm *comm, size_t by)
{
    struct tally tally = {0};
    memset(search->cursor, 0, comm->members * sizeof(*search->cursor));
    for (uint32_t present; (present = line_up(search, comm, search->op)) > 0;) {
        enum outcome outcome = present > 1 ? compare(search, comm, search->op) : ALIKE;
        if (outcome == OTHER_CALLS) {
            muster_divergence_not_compared(search->findings, comm, search->op, tally.doubtful);
            tally.doubtful = 0;
            break;
        }
        if (present > 1)
            count_row(search, comm, &tally, present, outcome);
    }
    tally.different += tally.doubtful;
    return tally.different ? tell_operations(search, comm, by, tally.different, tally.compared) : 0;
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

/* The larger ones first: what is said of the ranks of one holds for all within it. */
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
        if (find_policies(search, comm, &by) != 0 || find_operations(search, comm, by) != 0)
            return -1;
    }
    return 0;
}

static bool begin(struct search *search, bool waited)
{
    const struct muster_view *view = search->view;
    search->op = calloc(view->members + 1, sizeof(*search->op));
    search->worst = calloc(view->members + 1, sizeof(*search->worst));
    search->sides.side = calloc(view->members + 1, sizeof(*search->sides.side));
    search->sides.count = calloc(view->members + 1, sizeof(*search->sides.count));
    search->cursor = calloc(view->members + 1, sizeof(*search->cursor));
    search->covered_by = calloc(view->gpus + 1, sizeof(*search->covered_by));
    return muster_policy_sides_begin(&search->policies, view, waited) == 0 && search->op &&
           search->worst && search->sides.side && search->sides.count && search->cursor &&
           search->covered_by;
}

static void end(struct search *search)
{
    muster_policy_sides_free(&search->policies);
    free(search->op);
    free(search->worst);
    free(search->sides.side);
    free(search->sides.count);
    free(search->cursor);
    free(search->covered_by);
}

int muster_diagnose_divergence(const struct muster_view *view, bool waited,
                               struct muster_findings *findings, struct muster_err *err)
{
    struct search search = {.view = view, .findings = findings};
    struct place *place = calloc(view->comms + 1, sizeof(*place));
    int rc = begin(&search, waited) && place ? find_all(&search, place) : -1;
    end(&search);
    free(place);
    return rc == 0 ? 0 : muster_fail(err, "out of memory for the comparison of policies");
}
