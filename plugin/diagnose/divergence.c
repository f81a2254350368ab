#include "diagnose/divergence.h"

#include <stdlib.h>
#include <string.h>

#include "diagnose/divergence_word.h"
#include "diagnose/joint.h"

struct search {
    const struct muster_view *view;
    bool waited;
    struct muster_findings *findings;
    uint32_t *side;     /* of each member of the communicator at hand; MUSTER_VIEW_NONE: not seen */
    uint32_t *cursor;   /* likewise, within its operations */
    size_t *covered_by; /* of each GPU: finding + 1 that names what its policy differs from */
};

/* ---- policies ---- */

static bool steers(const struct muster_seg_policy *policy)
{
    return atomic_load_explicit(&policy->state, memory_order_relaxed) == MUSTER_POLICY_ACTIVE;
}

static bool is_settled(const struct search *search, const struct muster_view_gpu *gpu)
{
    return gpu->policy &&
           (search->waited || gpu->called || gpu->policy->tuner_api ||
            atomic_load_explicit(&gpu->policy->state, memory_order_relaxed) != MUSTER_POLICY_NONE);
}

/* Tuners that are off are alike, whatever the reason. */
static bool same_policy(const struct muster_seg_policy *a, const struct muster_seg_policy *b)
{
    if (!steers(a) || !steers(b))
        return steers(a) == steers(b);
    return memcmp(a->sha256, b->sha256, sizeof(a->sha256)) == 0;
}

static const struct muster_view_gpu *gpu_of(const struct search *search,
                                            const struct muster_view_comm *comm, uint32_t i)
{
    return &search->view->gpu[search->view->member[comm->first_member + i].gpu];
}

/* Gives every member a side, numbered by its first member; returns how many sides there are. */
static unsigned policy_sides(const struct search *search, const struct muster_view_comm *comm)
{
    unsigned sides = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        const struct muster_view_gpu *gpu = gpu_of(search, comm, i);
        search->side[i] = MUSTER_VIEW_NONE;
        if (!is_settled(search, gpu))
            continue;
        search->side[i] = i;
        for (uint32_t j = 0; j < i && search->side[i] == i; j++) {
            if (search->side[j] == j && same_policy(gpu->policy, gpu_of(search, comm, j)->policy))
                search->side[i] = j;
        }
        sides += search->side[i] == i;
    }
    return sides;
}

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
    if (*by || policy_sides(search, comm) < 2)
        return 0;
    struct muster_finding *finding = muster_findings_add(search->findings);
    if (!finding)
        return -1;
    *by = search->findings->n;
    muster_divergence_begin(finding, search->view, comm, search->side);
    muster_divergence_of_policies(finding, search->view, comm, search->side);
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

static bool same_choice(const struct muster_view *view, const struct muster_view_op *a,
                        const struct muster_view_op *b)
{
    const struct muster_view_class *one = &view->class[a->class], *two = &view->class[b->class];
    return one->algo == two->algo && one->proto == two->proto && a->channels == b->channels;
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
        if (!same_choice(search->view, first, op[i]))
            outcome = DIFFERENT;
    }
    return outcome;
}

static void choice_sides(const struct search *search, const struct muster_view_comm *comm,
                         const struct muster_view_op *const *op)
{
    for (uint32_t i = 0; i < comm->members; i++) {
        search->side[i] = op[i] ? i : MUSTER_VIEW_NONE;
        for (uint32_t j = 0; op[i] && j < i && search->side[i] == i; j++) {
            if (search->side[j] == j && same_choice(search->view, op[i], op[j]))
                search->side[i] = j;
        }
    }
}

static struct muster_finding *finding_for(struct search *search,
                                          const struct muster_view_comm *comm, size_t by)
{
    if (by)
        return &search->findings->finding[by - 1];
    struct muster_finding *finding = muster_findings_add(search->findings);
    if (finding)
        muster_divergence_begin(finding, search->view, comm, search->side);
    return finding;
}

/* `by`: the finding about the policies of these ranks + 1; 0: none. */
static int find_operations(struct search *search, const struct muster_view_comm *comm, size_t by,
                           const struct muster_view_op **op)
{
    uint64_t compared = 0, different = 0;
    struct muster_finding *finding = NULL;
    memset(search->cursor, 0, comm->members * sizeof(*search->cursor));
    for (uint32_t present; (present = line_up(search, comm, op)) > 0;) {
        enum outcome outcome = present > 1 ? compare(search, comm, op) : ALIKE;
        compared += present > 1;
        if (outcome == OTHER_CALLS) {
            muster_divergence_not_compared(search->findings, comm, op);
            break;
        }
        if (outcome == ALIKE || different++ > 0)
            continue;
        choice_sides(search, comm, op);
        finding = finding_for(search, comm, by);
        if (!finding)
            return -1;
        muster_divergence_of_operation(finding, search->view, comm, op, search->side);
    }
    if (finding)
        muster_divergence_count(finding, comm, different, compared);
    return 0;
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
static int find_all(struct search *search, struct place *place, const struct muster_view_op **op)
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
        if (find_policies(search, comm, &by) != 0 || find_operations(search, comm, by, op) != 0)
            return -1;
    }
    return 0;
}

int muster_diagnose_divergence(const struct muster_view *view, bool waited,
                               struct muster_findings *findings, struct muster_err *err)
{
    struct search search = {.view = view, .waited = waited, .findings = findings};
    struct place *place = calloc(view->comms + 1, sizeof(*place));
    const struct muster_view_op **op = calloc(view->members + 1, sizeof(*op));
    search.side = calloc(view->members + 1, sizeof(*search.side));
    search.cursor = calloc(view->members + 1, sizeof(*search.cursor));
    search.covered_by = calloc(view->gpus + 1, sizeof(*search.covered_by));
    int rc = -1;
    if (place && op && search.side && search.cursor && search.covered_by)
        rc = find_all(&search, place, op);
    free(place);
    free(op);
    free(search.side);
    free(search.cursor);
    free(search.covered_by);
    return rc == 0 ? 0 : muster_fail(err, "out of memory for the comparison of policies");
}
