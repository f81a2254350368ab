#include "diagnose/finding_op.h"

void muster_finding_set_op(struct muster_finding *finding, const struct muster_view *view,
                           const struct muster_view_comm *comm, const struct muster_view_op *op)
{
    uint8_t dtype = view->class[op->class].dtype;
    finding->has_op = true;
    finding->op.func = op->func;
    finding->op.dtype = dtype;
    finding->op.index = op->number;
    finding->op.bytes = muster_op_size_bytes(op->func, dtype, op->count, comm->nranks);
}
