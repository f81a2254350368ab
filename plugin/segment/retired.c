#include "segment/retired.h"

#include <stdint.h>
#include <stdlib.h>

/* An operation waits in the queue between drain thread and log, so it may stand in the log a little
 * before the state that still lists it: the queue holds no more. */
enum { NEAR = 8192 };

struct muster_retired_op {
    const struct muster_op *op;
    size_t last; /* place of its newest entry in the log, + 1; 0: none */
};

static int compare(const struct muster_op *a, const struct muster_op *b)
{
    if (a->comm != b->comm)
        return a->comm < b->comm ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    if (a->enqueue_ns != b->enqueue_ns)
        return a->enqueue_ns < b->enqueue_ns ? -1 : 1;
    if (a->peer != b->peer)
        return a->peer < b->peer ? -1 : 1;
    return (a->func > b->func) - (a->func < b->func);
}

static int by_operation(const void *a, const void *b)
{
    const struct muster_retired_op *one = a, *two = b;
    return compare(one->op, two->op);
}

static struct muster_retired_op *find(const struct muster_retired *retired,
                                      const struct muster_op *op)
{
    struct muster_retired_op key = {.op = op};
    return retired->ops ? bsearch(&key, retired->op, retired->ops, sizeof key, by_operation) : NULL;
}

static size_t near(const struct muster_log_seen *seen)
{
    return seen->ops_before > NEAR ? seen->ops_before - NEAR : 0;
}

/* Each operation once, sorted; returns where in the log the first of them may stand. */
static size_t list(struct muster_retired *retired, const struct muster_log *log)
{
    size_t from = SIZE_MAX, n = 0, kept = 0;
    for (size_t i = 0; i < log->seens; i++) {
        const struct muster_log_seen *seen = &log->seen[i];
        for (uint32_t p = 0; p < seen->state.listed; p++)
            retired->op[n++] = (struct muster_retired_op){.op = &seen->state.pending[p].op};
        if (seen->state.listed > 0 && near(seen) < from)
            from = near(seen);
    }
    qsort(retired->op, n, sizeof *retired->op, by_operation);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || compare(retired->op[i].op, retired->op[kept - 1].op) != 0)
            retired->op[kept++] = retired->op[i];
    retired->ops = kept;
    return from;
}

bool muster_retired_find(struct muster_retired *retired, const struct muster_log *log)
{
    size_t listed = 0;
    for (size_t i = 0; i < log->seens; i++)
        listed += log->seen[i].state.listed;
    *retired = (struct muster_retired){.ops = 0};
    if (listed == 0)
        return true;
    retired->op = calloc(listed, sizeof *retired->op);
    if (!retired->op)
        return false;
    for (size_t i = list(retired, log); i < log->ops; i++) {
        struct muster_retired_op *known = find(retired, &log->op[i]);
        if (known)
            known->last = i + 1;
    }
    return true;
}

bool muster_retired_later(const struct muster_retired *retired, const struct muster_log_seen *seen,
                          const struct muster_op *pending)
{
    const struct muster_retired_op *known = find(retired, pending);
    return known && known->last > near(seen);
}

void muster_retired_free(struct muster_retired *retired)
{
    free(retired->op);
    *retired = (struct muster_retired){.ops = 0};
}
