#include "diagnose/divergence/divergence_describe.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"

enum { LISTED = 8 };

static const struct muster_view_member *member_of(const struct muster_view *view,
                                                  const struct muster_view_comm *comm, uint32_t i)
{
    return &view->member[comm->first_member + i];
}

/* The global rank, where it is known. */
static int32_t rank_of(const struct muster_view *view, const struct muster_view_comm *comm,
                       uint32_t i)
{
    const struct muster_view_member *member = member_of(view, comm, i);
    int32_t rank = view->gpu[member->gpu].rank;
    return rank >= 0 ? rank : member->rank;
}

static unsigned size_of(const struct muster_view_comm *comm, const uint32_t *side, uint32_t of)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < comm->members; i++)
        n += side[i] == of;
    return n;
}

static void name_rank(struct muster_finding *finding, const struct muster_view *view,
                      const struct muster_view_comm *comm, uint32_t i)
{
    const struct muster_view_gpu *gpu = &view->gpu[member_of(view, comm, i)->gpu];
    if (finding->ranks == 0) {
        snprintf(finding->host, sizeof(finding->host), "%s", gpu->host);
        finding->gpu = gpu->gpu_index;
    }
    if (finding->ranks < MUSTER_FINDING_RANKS)
        finding->rank[finding->ranks++] = rank_of(view, comm, i);
}

void muster_divergence_begin(struct muster_finding *finding, const struct muster_view *view,
                             const struct muster_view_comm *comm,
                             const struct muster_partition *sides, enum muster_divergence of)
{
    bool tie = sides->most == MUSTER_VIEW_NONE;
    finding->kind = MUSTER_FINDING_POLICY_DIVERGENCE;
    finding->comm = comm->id;
    finding->since_unix_ns = muster_view_first_call_unix_ns(view, comm);
    finding->confidence = muster_confidence_divergence(of, tie, sides->open);
    for (uint32_t i = 0; i < comm->members; i++)
        if (sides->side[i] != MUSTER_VIEW_NONE && (tie || sides->side[i] != sides->most))
            name_rank(finding, view, comm, i);
    if (sides->open && !tie)
        muster_finding_line(&finding->not_observable, "%s",
                            "ranks of the job that were not compared could make these the most");
    snprintf(finding->advice, sizeof(finding->advice), "%s",
             "compare NCCL_ALGO, NCCL_PROTO, NCCL_MIN_NCHANNELS, NCCL_MAX_NCHANNELS and NCCL's "
             "version on these ranks: NCCL does not, and where ranks disagree operations hang or "
             "give wrong results");
}

/* "rank 1", "ranks 0, 2 and 5 more" of one side. */
static void list_side(char *to, size_t size, const struct muster_view *view,
                      const struct muster_view_comm *comm, const uint32_t *side, uint32_t of)
{
    unsigned n = size_of(comm, side, of), listed = 0;
    struct muster_text text = muster_text_begin(to, size);
    muster_text_add(&text, n == 1 ? "rank" : "ranks");
    for (uint32_t i = 0; i < comm->members && listed < LISTED; i++)
        if (side[i] == of)
            muster_text_add(&text, "%s%" PRId32, listed++ ? ", " : " ", rank_of(view, comm, i));
    if (n > LISTED)
        muster_text_add(&text, " and %u more", n - LISTED);
}

static void describe_policy(char *to, size_t size, const struct muster_seg_policy *policy)
{
    uint32_t state = atomic_load_explicit(&policy->state, memory_order_relaxed);
    const uint8_t *hash = policy->sha256;
    if (state == MUSTER_POLICY_ACTIVE)
        snprintf(to, size, "policy %02x%02x%02x%02x", hash[0], hash[1], hash[2], hash[3]);
    else if (state == MUSTER_POLICY_NONE)
        snprintf(to, size, "%s", policy->tuner_api ? "no policy" : "no tuner loaded");
    else
        snprintf(to, size, "tuner off, its policy is %s", muster_policy_state_name(state));
}

static void advise_one_policy(struct muster_finding *finding)
{
    snprintf(
        finding->advice, sizeof(finding->advice), "%s",
        "start all ranks with one policy: `muster run --policy FILE`, or the same MUSTER_CONFIG "
        "and MUSTER_POLICY_SHA256 on every host; until then operations that ranks choose "
        "differently hang or give wrong results");
}

void muster_divergence_of_policies(struct muster_finding *finding, const struct muster_view *view,
                                   const struct muster_view_comm *comm, const uint32_t *side)
{
    for (uint32_t i = 0; i < comm->members; i++) {
        char ranks[96], policy[64];
        if (side[i] != i)
            continue;
        list_side(ranks, sizeof(ranks), view, comm, side, i);
        describe_policy(policy, sizeof(policy), view->gpu[member_of(view, comm, i)->gpu].policy);
        muster_finding_line(&finding->evidence, "%s: %s", ranks, policy);
    }
    advise_one_policy(finding);
}

static uint64_t bytes_of(const struct muster_view *view, const struct muster_view_comm *comm,
                         const struct muster_view_op *op)
{
    return muster_op_size_bytes(op->func, view->class[op->class].dtype, op->count, comm->nranks);
}

void muster_divergence_of_operation(struct muster_finding *finding, const struct muster_view *view,
                                    const struct muster_view_comm *comm,
                                    const struct muster_view_op *const *op, const uint32_t *side)
{
    for (uint32_t i = 0; i < comm->members; i++) {
        char ranks[96], bytes[32];
        if (side[i] != i)
            continue;
        const struct muster_view_class *class = &view->class[op[i]->class];
        list_side(ranks, sizeof(ranks), view, comm, side, i);
        muster_text_bytes(bytes, sizeof(bytes), bytes_of(view, comm, op[i]));
        muster_finding_line(&finding->evidence, "%s #%" PRIu64 " (%s): %s/%s on %u channels on %s",
                            muster_func_name(op[i]->func), (uint64_t)op[i]->number, bytes,
                            muster_algo_name(class->algo), muster_proto_name(class->proto),
                            op[i]->channels, ranks);
        if (finding->has_op)
            continue;
        finding->has_op = true;
        finding->op.func = op[i]->func;
        finding->op.dtype = class->dtype;
        finding->op.index = op[i]->number;
        finding->op.bytes = bytes_of(view, comm, op[i]);
        finding->op.root = class->root;
    }
}

void muster_divergence_count(struct muster_finding *finding, const struct muster_view_comm *comm,
                             uint64_t different, uint64_t compared)
{
    muster_finding_line(&finding->evidence,
                        "%" PRIu64 " of %" PRIu64 " operations compared differ in communicator "
                        "%016" PRIx64,
                        different, compared, comm->id);
}

void muster_divergence_not_compared(struct muster_findings *findings,
                                    const struct muster_view_comm *comm,
                                    const struct muster_view_op *const *op, uint64_t doubtful)
{
    char before[96] = "";
    uint32_t i = 0;
    while (!op[i])
        i++;
    if (doubtful)
        snprintf(before, sizeof(before),
                 "; the %" PRIu64 " before it that differ may do so by that", doubtful);
    muster_finding_line(
        &findings->not_observable,
        "communicator %016" PRIx64 ": ranks called different things as #%" PRIu64
        ": from there on their algorithms, protocols and channels are not compared%s",
        comm->id, (uint64_t)op[i]->number, before);
}
