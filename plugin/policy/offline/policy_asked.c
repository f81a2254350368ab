#include "policy/offline/policy_asked.h"

enum { NCCL_BROADCAST_AS_GATHER = 22900, API_OF_2_29 = 6 };

static bool asks_gather(const struct muster_seg_identity *who, unsigned func)
{
    return func == MUSTER_FUNC_BROADCAST &&
           (who->nccl >= NCCL_BROADCAST_AS_GATHER || who->api >= API_OF_2_29);
}

enum muster_asked muster_policy_asked(const struct muster_process *process,
                                      const struct muster_op *op,
                                      const struct muster_log_comm *comm, uint64_t nvlink_domains,
                                      struct muster_query *query)
{
    if (!muster_policy_available(op->func) || op->algo == MUSTER_ALGO_CE)
        return MUSTER_ASKED_NEVER;
    if (!comm || comm->nranks == 0 || comm->nnodes == 0)
        return MUSTER_ASKED_UNKNOWN;
    if (comm->nranks == 1)
        return MUSTER_ASKED_NEVER;
    *query = (struct muster_query){
        .func = op->func,
        .bytes = muster_op_size_bytes(op->func, op->dtype, op->count, comm->nranks),
        .pipe_ops = 1,
        .ranks = comm->nranks,
        .nodes = comm->nnodes,
        .nvlink_domains = nvlink_domains,
    };
    if (asks_gather(&process->identity, op->func)) {
        query->func = MUSTER_FUNC_ALL_GATHER;
        if (__builtin_mul_overflow(query->bytes, query->ranks, &query->bytes))
            query->bytes = UINT64_MAX;
    }
    return MUSTER_ASKED;
}
