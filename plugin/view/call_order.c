#include "view/call_order.h"

#include "view/view_internal.h"

/* Of struct muster_keyed: how many numbers are missing in its row after it, and before it; that it
 * is the first of its row, before which nobody opened anything; and that it is a send or receive.
 */
enum { AFTER, BEFORE, FIRST, SENDS };

/* Numbers that are missing before an operation that is not the first of its row. */
static uint64_t left_out(const struct muster_view_op *op)
{
    uint64_t next = (uint64_t)op[-1].number + 1, number = op->number;
    return number == MUSTER_VIEW_NO_NUMBER ? UINT8_MAX : number > next ? number - next : 0;
}

size_t muster_calls_collect(const struct muster_view *view, const uint32_t *members, size_t n,
                            struct muster_keyed *call)
{
    size_t calls = 0;
    for (size_t m = 0; m < n; m++) {
        const struct muster_view_member *member = &view->member[members[m]];
        for (uint32_t i = member->first_op; i < member->first_op + member->ops; i++) {
            const struct muster_view_op *op = &view->op[i];
            bool first = i == member->first_op || !muster_view_same_stream(op - 1, op);
            uint64_t missing = muster_view_to_itself(view, op) ? 0
                               : first                         ? op->number
                                                               : left_out(op);
            uint8_t most = (uint8_t)(missing < UINT8_MAX ? missing : UINT8_MAX);
            if (!first && calls)
                call[calls - 1].mark[AFTER] = most;
            call[calls++] = (struct muster_keyed){
                op->enqueue_ns,
                i,
                {[BEFORE] = most, [FIRST] = first, [SENDS] = muster_func_is_p2p(op->func)}};
        }
    }
    return calls;
}

bool muster_calls_missing(struct muster_call_holes *holes, const struct muster_keyed *call)
{
    uint8_t fewest = call->mark[SENDS] ? holes->fewest_sends : 1;
    bool opens = call->mark[AFTER] >= fewest, closes = call->mark[BEFORE] >= fewest;
    bool missing = holes->open > 0 || closes;
    holes->open += opens - (closes && !call->mark[FIRST]);
    return missing;
}

bool muster_view_follows_timed(const struct muster_view *view, const struct muster_view_op *op)
{
    const struct muster_view_member *member = &view->member[op->member];
    return op > &view->op[member->first_op] && muster_view_same_stream(op - 1, op) &&
           left_out(op) == 0 && muster_source_is_gpu(op[-1].source);
}
