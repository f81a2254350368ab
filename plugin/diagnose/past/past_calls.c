#include <inttypes.h>

#include "base/text.h"
#include "diagnose/confidence.h"
#include "diagnose/past/past.h"
#include "view/aligned.h"

/* The operations of one communicator that did not match. */
struct mismatch {
    const struct muster_view *view;
    const struct muster_view_comm *comm;
    uint64_t differing, compared;
    uint64_t number;                  /* of the first */
    const struct muster_view_op **op; /* of each member there; NULL: not recorded */
};

static bool is_called(const struct muster_view *view, const struct muster_view_op *op)
{
    (void)view;
    return !(op->flags & MUSTER_OP_GRAPH);
}

/* What is reduced has to have one type; what is only moved has to have one size. */
static bool match(const struct mismatch *in, const struct muster_view_op *a,
                  const struct muster_view_op *b)
{
    const struct muster_view_class *one = &in->view->class[a->class];
    const struct muster_view_class *two = &in->view->class[b->class];
    if (a->func != b->func || (muster_func_is_rooted(a->func) && one->root != two->root))
        return false;
    if (muster_func_reduces(a->func))
        return one->dtype == two->dtype && a->count == b->count;
    return muster_op_size_bytes(a->func, one->dtype, a->count, in->comm->nranks) ==
           muster_op_size_bytes(b->func, two->dtype, b->count, in->comm->nranks);
}

static uint32_t side_of(const struct mismatch *in, const struct muster_view_op *op)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->comm->members; i++)
        n += in->op[i] && match(in, op, in->op[i]);
    return n;
}

static bool all_match(const struct mismatch *in, const struct muster_joint *joint)
{
    for (uint32_t i = 0; i < in->comm->members; i++)
        if (joint->op[i] && !match(in, joint->any, joint->op[i]))
            return false;
    return true;
}

static void look(struct mismatch *in, struct muster_arena *memory)
{
    const struct muster_joint_rule rule = {.takes = is_called, .least = 2, .unlike = true};
    struct muster_joint joint;
    muster_joint_begin(&joint, in->view, (uint32_t)(in->comm - in->view->comm), &rule, memory);
    while (muster_joint_next(&joint)) {
        in->compared++;
        if (all_match(in, &joint))
            continue;
        for (uint32_t i = 0; i < in->comm->members && in->differing == 0; i++)
            in->op[i] = joint.op[i];
        in->number = in->differing == 0 ? joint.any->number : in->number;
        in->differing++;
    }
}

static void put_call(const struct mismatch *in, uint32_t i, struct muster_finding_lines *to)
{
    const struct muster_view_op *op = in->op[i];
    const struct muster_view_class *class = &in->view->class[op->class];
    int32_t rank = in->view->gpu[in->view->member[in->comm->first_member + i].gpu].rank;
    char root[32] = "";
    if (muster_func_is_rooted(op->func))
        snprintf(root, sizeof root, ", root %" PRId32, class->root);
    muster_finding_line(to, "rank %" PRId32 " called #%" PRIu64 " %s %" PRIu64 " %s%s", rank,
                        (uint64_t)op->number, muster_func_name(op->func), (uint64_t)op->count,
                        muster_dtype_name(class->dtype), root);
}

/* Names who is not of the largest side; at a tie everybody. Returns whether it is a tie. */
static bool name_ranks(const struct mismatch *in, uint32_t best, struct muster_finding *finding)
{
    uint32_t size = side_of(in, in->op[best]);
    bool tie = false;
    for (uint32_t i = 0; i < in->comm->members; i++)
        tie |= in->op[i] && !match(in, in->op[best], in->op[i]) && side_of(in, in->op[i]) == size;
    for (uint32_t i = 0; i < in->comm->members && finding->ranks < MUSTER_FINDING_RANKS; i++) {
        const struct muster_view_gpu *gpu =
            &in->view->gpu[in->view->member[in->comm->first_member + i].gpu];
        if (!in->op[i] || (!tie && match(in, in->op[best], in->op[i])))
            continue;
        if (finding->ranks == 0) {
            muster_text_copy(finding->host, sizeof finding->host, gpu->host);
            finding->gpu = gpu->gpu_index;
        }
        finding->rank[finding->ranks++] = gpu->rank;
        if (i != best && finding->evidence.n < 5)
            put_call(in, i, &finding->evidence);
    }
    return tie;
}

static void fill(const struct mismatch *in, struct muster_finding *finding)
{
    const struct muster_view_op *usual = NULL;
    uint32_t best = 0;
    for (uint32_t i = 0; i < in->comm->members; i++) {
        if (in->op[i] && (!usual || side_of(in, in->op[i]) > side_of(in, usual))) {
            usual = in->op[i];
            best = i;
        }
    }
    if (!usual)
        return; /* no rank has it: nothing was called, so nothing differs */
    finding->kind = MUSTER_FINDING_MISMATCH;
    finding->comm = in->comm->id;
    muster_finding_set_op(finding, in->view, in->comm, usual);
    finding->op.root = in->view->class[usual->class].root;
    finding->since_unix_ns =
        usual->enqueue_ns + (uint64_t)in->view->gpu[in->view->member[usual->member].gpu].unix_ns;
    put_call(in, best, &finding->evidence);
    bool tie = name_ranks(in, best, finding);
    muster_finding_line(&finding->evidence,
                        "%" PRIu64 " of %" PRIu64 " operations compared do not match; #%" PRIu64
                        " is the first",
                        in->differing, in->compared, in->number);
    if (tie)
        muster_finding_line(&finding->not_observable,
                            "which side is wrong: as many ranks called the one as the other");
    enum muster_proof proof = tie                                    ? MUSTER_PROOF_TIE
                              : in->comm->members < in->comm->nranks ? MUSTER_PROOF_PART
                                                                     : MUSTER_PROOF_ENDED;
    finding->confidence = muster_confidence_hang(MUSTER_FINDING_HANG_MISMATCH, proof);
    muster_text_copy(finding->advice, sizeof finding->advice,
                     "compare the code path that led the named ranks to this call: a branch, a "
                     "type or a size that they alone had; what it computed is not to be trusted");
}

static bool is_known(const struct muster_findings *findings, uint64_t comm)
{
    for (size_t i = 0; i < findings->n; i++)
        if (findings->finding[i].comm == comm &&
            findings->finding[i].kind == MUSTER_FINDING_HANG_MISMATCH)
            return true;
    return false;
}

int muster_past_mismatches(const struct muster_view *view, struct muster_findings *findings,
                           struct muster_err *err)
{
    struct muster_arena memory = {0};
    for (size_t c = 0; c < view->comms && !memory.failed; c++) {
        struct mismatch in = {.view = view, .comm = &view->comm[c]};
        if (!muster_joint_possible(in.comm) || is_known(findings, in.comm->id))
            continue;
        in.op =
            muster_arena_array(&memory, in.comm->members, sizeof(const struct muster_view_op *));
        look(&in, &memory);
        struct muster_finding *finding = in.differing > 0 ? muster_findings_add(findings) : NULL;
        memory.failed |= in.differing > 0 && !finding;
        if (finding)
            fill(&in, finding);
    }
    int result = muster_arena_check(&memory, err, "comparing what ranks called");
    muster_arena_free(&memory);
    return result;
}
