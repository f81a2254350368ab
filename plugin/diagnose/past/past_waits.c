#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "diagnose/confidence.h"
#include "diagnose/past/past.h"
#include "view/aligned.h"

/* One operation that a single rank came to long after the others. */
struct wait {
    const struct muster_view_op *op;   /* the late rank's */
    uint32_t comm, gpu;                /* of the late rank */
    uint64_t from_unix_ns, to_unix_ns; /* when the last other one called it, and when it did */
    bool excused;
};

struct waits {
    struct muster_arena memory;
    const struct muster_view *view;
    struct wait *at;
    size_t n;
    uint64_t long_ns;
    /* Of each GPU its calls, ns since 1970, in order: those of g from first[g] to first[g + 1]. */
    uint64_t *call;
    size_t *first;
};

static const struct muster_view_gpu *gpu_of(const struct muster_view *view,
                                            const struct muster_view_op *op)
{
    return &view->gpu[view->member[op->member].gpu];
}

static uint64_t called_unix_ns(const struct muster_view *view, const struct muster_view_op *op)
{
    return op->enqueue_ns + (uint64_t)gpu_of(view, op)->unix_ns;
}

/* Whose call shows when its rank came: not replayed by a graph, nor by muster as fast as it can.
 * The first operation is as early as the slowest process starts. */
static bool shows_when(const struct muster_view *view, const struct muster_view_op *op)
{
    return op->enqueue_ns > 0 && !(op->flags & MUSTER_OP_GRAPH) && op->number > 0 &&
           gpu_of(view, op)->host_times;
}

/* ---- who came last, and how long after the others ---- */

static void note(struct waits *waits, const struct muster_joint *joint)
{
    const struct muster_view_op *last = NULL;
    uint64_t latest = 0, before = 0;
    for (uint32_t i = 0; i < joint->comm->members; i++) {
        uint64_t at = called_unix_ns(joint->view, joint->op[i]);
        if (at > latest) {
            before = latest;
            latest = at;
            last = joint->op[i];
        } else if (at > before) {
            before = at;
        }
    }
    if (!last || latest - before < waits->long_ns)
        return;
    struct wait *wait = muster_arena_add(&waits->memory, &waits->at, &waits->n, sizeof *wait);
    *wait = (struct wait){.op = last,
                          .comm = (uint32_t)(joint->comm - joint->view->comm),
                          .gpu = joint->view->member[last->member].gpu,
                          .from_unix_ns = before,
                          .to_unix_ns = latest};
}

static void note_all(struct waits *waits)
{
    const struct muster_joint_rule rule = {.takes = shows_when, .least = 2};
    for (uint32_t c = 0; c < waits->view->comms; c++) {
        struct muster_joint joint;
        if (!muster_joint_possible(&waits->view->comm[c]))
            continue;
        muster_joint_begin(&joint, waits->view, c, &rule, &waits->memory);
        while (muster_joint_next(&joint))
            if (joint.present == joint.comm->members)
                note(waits, &joint);
    }
}

/* ---- what the GPUs' hosts called meanwhile ---- */

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void index_calls(struct waits *waits)
{
    const struct muster_view *view = waits->view;
    waits->call = muster_arena_array(&waits->memory, view->ops + 1, sizeof *waits->call);
    waits->first = muster_arena_array(&waits->memory, view->gpus + 2, sizeof *waits->first);
    if (waits->memory.failed)
        return;
    for (size_t i = 0; i < view->ops; i++)
        waits->first[view->member[view->op[i].member].gpu + 2]++;
    for (size_t g = 2; g < view->gpus + 2; g++)
        waits->first[g] += waits->first[g - 1];
    for (size_t i = 0; i < view->ops; i++) {
        const struct muster_view_op *op = &view->op[i];
        bool replayed = op->flags & MUSTER_OP_GRAPH;
        waits->call[waits->first[view->member[op->member].gpu + 1]++] =
            replayed ? 0 : called_unix_ns(view, op);
    }
    for (size_t g = 0; g < view->gpus; g++)
        qsort(waits->call + waits->first[g], waits->first[g + 1] - waits->first[g],
              sizeof *waits->call, by_value);
}

/* The first call of a GPU's host after `after`; UINT64_MAX: there is none. */
static uint64_t next_call(const struct waits *waits, uint32_t gpu, uint64_t after)
{
    size_t low = waits->first[gpu], high = waits->first[gpu + 1], end = high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (waits->call[middle] > after)
            high = middle;
        else
            low = middle + 1;
    }
    return low < end ? waits->call[low] : UINT64_MAX;
}

/* Whether it is known what was called from then on: of a run that is watched less and less is kept.
 */
static bool is_known_from(const struct muster_view_gpu *gpu, uint64_t unix_ns)
{
    return gpu->whole_from_ns == 0 || (gpu->whole_from_ns != UINT64_MAX &&
                                       gpu->whole_from_ns + (uint64_t)gpu->unix_ns <= unix_ns);
}

/* Whether all of the communicator were quiet until the late rank came: who goes on calling does
 * not wait. And half of the others went on as soon as it had. */
static bool all_waited(const struct waits *waits, const struct wait *wait)
{
    const struct muster_view_comm *comm = &waits->view->comm[wait->comm];
    uint64_t soon = wait->to_unix_ns + (wait->to_unix_ns - wait->from_unix_ns) / 2;
    uint32_t went_on = 0, others = 0;
    for (uint32_t i = 0; i < comm->members; i++) {
        uint32_t gpu = waits->view->member[comm->first_member + i].gpu;
        uint64_t quiet_from = wait->to_unix_ns - waits->long_ns;
        if (!is_known_from(&waits->view->gpu[gpu], quiet_from) ||
            next_call(waits, gpu, quiet_from) < wait->to_unix_ns)
            return false;
        if (gpu == wait->gpu)
            continue;
        others++;
        went_on += next_call(waits, gpu, wait->to_unix_ns) <= soon;
    }
    return 2 * went_on >= others;
}

static bool takes_part(const struct muster_view *view, uint32_t comm, uint32_t gpu)
{
    for (uint32_t i = 0; i < view->comm[comm].members; i++)
        if (view->member[view->comm[comm].first_member + i].gpu == gpu)
            return true;
    return false;
}

/* Who waited itself for another one until just before did not come late by itself. */
static void excuse(struct waits *waits)
{
    for (size_t i = 0; i < waits->n; i++) {
        struct wait *wait = &waits->at[i];
        wait->excused = !all_waited(waits, wait);
        for (size_t k = 0; k < waits->n && !wait->excused; k++) {
            const struct wait *other = &waits->at[k];
            wait->excused = other->gpu != wait->gpu && other->to_unix_ns <= wait->to_unix_ns &&
                            wait->to_unix_ns - other->to_unix_ns < waits->long_ns &&
                            takes_part(waits->view, other->comm, wait->gpu);
        }
    }
}

/* ---- findings ---- */

static double seconds(const struct wait *wait)
{
    return (double)(wait->to_unix_ns - wait->from_unix_ns) / 1e9;
}

static struct muster_finding *known(struct muster_findings *findings, int32_t rank)
{
    for (size_t i = 0; i < findings->n; i++) {
        struct muster_finding *finding = &findings->finding[i];
        for (unsigned r = 0; muster_finding_is_late(finding) && r < finding->ranks; r++)
            if (finding->rank[r] == rank)
                return finding;
    }
    return NULL;
}

static double run_s(const struct waits *waits)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (size_t g = 0; g < waits->view->gpus; g++) {
        uint64_t begin = next_call(waits, (uint32_t)g, 0);
        first = begin < first ? begin : first;
        if (waits->first[g + 1] > waits->first[g] && waits->call[waits->first[g + 1] - 1] > last)
            last = waits->call[waits->first[g + 1] - 1];
    }
    return last > first ? (double)(last - first) / 1e9 : 0;
}

static void fill(const struct waits *waits, const struct wait *wait, struct muster_finding *finding)
{
    const struct muster_view *view = waits->view;
    const struct muster_view_gpu *gpu = &view->gpu[wait->gpu];
    const struct muster_view_comm *comm = &view->comm[wait->comm];
    finding->kind = MUSTER_FINDING_LATE_RANK;
    finding->comm = comm->id;
    finding->rank[finding->ranks++] = gpu->rank;
    for (uint32_t i = 0; i < comm->members && finding->victims < MUSTER_FINDING_RANKS; i++) {
        uint32_t other = view->member[comm->first_member + i].gpu;
        if (other != wait->gpu)
            finding->victim[finding->victims++] = view->gpu[other].rank;
    }
    muster_text_copy(finding->host, sizeof finding->host, gpu->host);
    finding->gpu = gpu->gpu_index;
    finding->mode = MUSTER_MODE_ONCE;
    finding->cause = MUSTER_CAUSE_HOST;
    muster_finding_set_op(finding, view, comm, wait->op);
    finding->op.root = view->class[wait->op->class].root;
    finding->since_unix_ns = wait->from_unix_ns;
    finding->confidence = muster_confidence_hang(MUSTER_FINDING_HANG_ABSENT,
                                                 comm->members >= comm->nranks ? MUSTER_PROOF_ENDED
                                                                               : MUSTER_PROOF_PART);
    muster_finding_line(&finding->not_observable,
                        "what its host did meanwhile: nothing of it was recorded");
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "look at what this rank alone did then: a checkpoint, an evaluation, a data "
                     "loader that stalled, a host that was stopped; its own log has the time");
}

static void report(struct waits *waits, const struct wait *wait, double lasted_s,
                   struct muster_findings *findings)
{
    const struct muster_view *view = waits->view;
    struct muster_finding *finding = known(findings, view->gpu[wait->gpu].rank);
    bool is_new = !finding;
    if (is_new && !(finding = muster_findings_add(findings))) {
        waits->memory.failed = true;
        return;
    }
    if (is_new)
        fill(waits, wait, finding);
    else if (finding->mode == MUSTER_MODE_ONCE)
        finding->mode = MUSTER_MODE_INTERMITTENT;
    finding->cost_s += seconds(wait);
    if (lasted_s > 0)
        finding->cost_share += seconds(wait) / lasted_s;
    finding->cost_share = finding->cost_share < 1 ? finding->cost_share : 1;
    if (finding->evidence.n < 6)
        muster_finding_line(&finding->evidence,
                            "the others had all called %s #%" PRIu64
                            " and it called nothing for %.1f s, then it came",
                            muster_func_name(wait->op->func), (uint64_t)wait->op->number,
                            seconds(wait));
}

static int in_time(const void *left, const void *right)
{
    const struct wait *a = left, *b = right;
    return (a->to_unix_ns > b->to_unix_ns) - (a->to_unix_ns < b->to_unix_ns);
}

int muster_past_waits(const struct muster_view *view, uint64_t long_ns,
                      struct muster_findings *findings, struct muster_err *err)
{
    struct waits waits = {.view = view, .long_ns = long_ns};
    note_all(&waits);
    if (waits.n > 0)
        index_calls(&waits);
    if (!waits.memory.failed && waits.n > 0) {
        double lasted_s = run_s(&waits);
        excuse(&waits);
        qsort(waits.at, waits.n, sizeof *waits.at, in_time);
        for (size_t i = 0; i < waits.n && !waits.memory.failed; i++)
            if (!waits.at[i].excused)
                report(&waits, &waits.at[i], lasted_s, findings);
    }
    int result = muster_arena_check(&waits.memory, err, "looking for long waits");
    muster_arena_free(&waits.memory);
    return result;
}
