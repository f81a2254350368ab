/*
 * Self time: from the latest end of this GPU's earlier operations, in any communicator, to the
 * begin of this one, on that GPU's own clock (docs/diagnosis.md). What came before is known only
 * where the call before was timed too: the first operation of a timed block has no self time, nor
 * has what follows a hole in the numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "diagnose/view_build.h"

struct item {
    uint64_t key;
    uint32_t op;
    uint8_t opens, closes; /* a hole in its stream's numbers begins after, ended before */
};

/* Merges neighbours of ascending runs until one is left: linear for what is in order already, as
 * the operations of one communicator are. `to` has room for n. Returns where the result is. */
static struct item *merge_runs(struct item *from, struct item *to, size_t n)
{
    for (;;) {
        size_t runs = 0;
        for (size_t a = 0, b, end; a < n; a = end) {
            for (b = a + 1; b < n && from[b].key >= from[b - 1].key; b++) {
            }
            for (end = b < n ? b + 1 : n; end < n && from[end].key >= from[end - 1].key; end++) {
            }
            if (b == n && a == 0) {
                return from;
            }
            size_t i = a, j = b;
            for (size_t k = a; k < end; k++) {
                bool left = i < b && (j == end || from[i].key <= from[j].key);
                to[k] = from[left ? i++ : j++];
            }
            runs++;
        }
        struct item *swap = from;
        from = to;
        to = swap;
        if (runs <= 1) {
            return from;
        }
    }
}

static bool same_stream(const struct muster_view_op *a, const struct muster_view_op *b)
{
    bool p2p = muster_func_is_p2p(b->func);
    return ((a->flags ^ b->flags) & MUSTER_OP_GRAPH) == 0 && p2p == muster_func_is_p2p(a->func) &&
           (!p2p || (a->func == b->func && a->peer == b->peer));
}

/* The operations of one GPU, member by member. */
static size_t collect(const struct muster_view *view, const uint32_t *members, size_t n,
                      struct item *item)
{
    size_t items = 0;
    for (size_t m = 0; m < n; m++) {
        const struct muster_view_member *member = &view->member[members[m]];
        for (uint32_t i = member->first_op; i < member->first_op + member->ops; i++) {
            const struct muster_view_op *op = &view->op[i];
            bool first = i == member->first_op || !same_stream(op - 1, op);
            bool hole = first ? op->number > 0 : op->number > op[-1].number + 1;
            if (hole && !first && items) {
                item[items - 1].opens = 1;
            }
            /* Without the one before there is nothing that opened it: only this one suffers. */
            uint8_t closes = !hole ? 0 : first ? 2 : 1;
            item[items++] = (struct item){.key = op->enqueue_ns, .op = i, .closes = closes};
        }
    }
    return items;
}

/* In the order of the calls: whether what ran before is known. Leaves those with GPU times, keyed
 * by begin; `closes` says that it is not known. */
static size_t keep_timed(const struct muster_view *view, struct item *item, size_t n)
{
    size_t kept = 0;
    int32_t holes = 0;
    bool known = false;
    for (size_t i = 0; i < n; i++) {
        struct item own = item[i];
        const struct muster_view_op *op = &view->op[own.op];
        bool unknown = !known || holes > 0 || own.closes;
        holes += own.opens - (own.closes == 1);
        known = op->source == MUSTER_SOURCE_GPU;
        if (known) {
            item[kept++] = (struct item){.key = op->begin_ns, .op = own.op, .closes = unknown};
        }
    }
    return kept;
}

static void set_self(struct muster_view *view, struct muster_view_gpu *gpu, const struct item *item)
{
    uint64_t end = 0;
    uint32_t class = MUSTER_VIEW_NONE;
    for (uint32_t i = 0; i < gpu->ordered; i++) {
        struct muster_view_op *op = &view->op[item[i].op];
        gpu->order[i] = item[i].op;
        op->before = class;
        if (!item[i].closes && class != MUSTER_VIEW_NONE) {
            op->self_ns = op->begin_ns > end ? op->begin_ns - end : 0;
        }
        if (op->end_ns > end) {
            end = op->end_ns;
            class = op->class;
        }
    }
}

static int one_gpu(struct muster_view *view, struct muster_view_gpu *gpu, const uint32_t *members,
                   size_t n)
{
    size_t ops = 0;
    for (size_t m = 0; m < n; m++) {
        ops += view->member[members[m]].ops;
    }
    struct item *memory = calloc(2 * ops + 1, sizeof *memory);
    if (!memory) {
        return -1;
    }
    size_t items = collect(view, members, n, memory);
    struct item *item = merge_runs(memory, memory + ops, items);
    items = keep_timed(view, item, items);
    item = merge_runs(item, item == memory ? memory + ops : memory, items);
    gpu->order = malloc((items + 1) * sizeof *gpu->order);
    gpu->ordered = (uint32_t)items;
    int result = gpu->order ? 0 : -1;
    if (result == 0) {
        set_self(view, gpu, item);
    }
    free(memory);
    return result;
}

int muster_view_self_times(struct muster_view *view)
{
    /* Members by GPU, counted first. */
    size_t *first = calloc(view->gpus + 2, sizeof *first);
    uint32_t *members = malloc((view->members + 1) * sizeof *members);
    int result = first && members ? 0 : -1;
    for (size_t m = 0; m < view->members && result == 0; m++) {
        first[view->member[m].gpu + 2]++;
    }
    for (size_t g = 0; g < view->gpus && result == 0; g++) {
        first[g + 2] += first[g + 1];
    }
    for (size_t m = 0; m < view->members && result == 0; m++) {
        members[first[view->member[m].gpu + 1]++] = (uint32_t)m;
    }
    for (size_t g = 0; g < view->gpus && result == 0; g++) {
        result = one_gpu(view, &view->gpu[g], members + first[g], first[g + 1] - first[g]);
    }
    free(first);
    free(members);
    return result;
}
