/* What is looked up in a finished view: by the order of its operations and members, by host. */
#include <stdlib.h>
#include <string.h>

#include "view/view.h"

/* Whether an operation stands before those of this function and peer, as views sort them. */
static bool stands_before(const struct muster_view_op *op, unsigned func, int32_t peer)
{
    if (op->flags & MUSTER_OP_GRAPH)
        return false;
    if (!muster_func_is_p2p(op->func) || op->func != func)
        return !muster_func_is_p2p(op->func) || op->func < func;
    return op->peer < peer;
}

struct muster_view_stream muster_view_stream(const struct muster_view *view,
                                             const struct muster_view_member *member, unsigned func,
                                             int32_t peer)
{
    uint32_t low = member->first_op, end = member->first_op + member->ops, high = end;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (stands_before(&view->op[middle], func, peer))
            low = middle + 1;
        else
            high = middle;
    }
    struct muster_view_stream found = {low, low};
    for (; found.end < end; found.end++) {
        const struct muster_view_op *op = &view->op[found.end];
        if (op->func != func || op->peer != peer || (op->flags & MUSTER_OP_GRAPH))
            break;
    }
    return found;
}

const struct muster_view_op *muster_view_collective(const struct muster_view *view,
                                                    const struct muster_view_member *member,
                                                    int64_t number)
{
    uint32_t low = 0, high = member->ops;
    const struct muster_view_op *op = &view->op[member->first_op];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool before = !(op[middle].flags & MUSTER_OP_GRAPH) &&
                      !muster_func_is_p2p(op[middle].func) && (int64_t)op[middle].number < number;
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    bool found = low < member->ops && (int64_t)op[low].number == number &&
                 !(op[low].flags & MUSTER_OP_GRAPH) && !muster_func_is_p2p(op[low].func);
    return found ? &op[low] : NULL;
}

uint64_t muster_view_first_call_unix_ns(const struct muster_view *view,
                                        const struct muster_view_comm *comm)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t m = comm->first_member; m < comm->first_member + comm->members; m++) {
        const struct muster_view_member *member = &view->member[m];
        const struct muster_view_gpu *gpu = &view->gpu[member->gpu];
        for (uint32_t i = 0; i < member->ops && gpu->host_times; i++) {
            uint64_t at = view->op[member->first_op + i].enqueue_ns + (uint64_t)gpu->unix_ns;
            first = at < first ? at : first;
        }
    }
    return first == UINT64_MAX ? 0 : first;
}

const struct muster_view_member *muster_view_member_of(const struct muster_view *view,
                                                       uint32_t process, uint32_t uid)
{
    size_t low = 0, high = view->members;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct muster_view_member *own = &view->member[view->by_uid[middle]];
        uint32_t its = view->gpu[own->gpu].process;
        if (its < process || (its == process && own->uid < uid))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == view->members)
        return NULL;
    const struct muster_view_member *own = &view->member[view->by_uid[low]];
    return view->gpu[own->gpu].process == process && own->uid == uid ? own : NULL;
}

/* ---- hosts ---- */

struct named {
    const char *host;
    uint32_t gpu;
};

static int by_name(const void *left, const void *right)
{
    const struct named *a = left, *b = right;
    int order = strcmp(a->host, b->host);
    return order ? order : (a->gpu > b->gpu) - (a->gpu < b->gpu);
}

/* Of each GPU the first one of its host. */
static void find_first(struct named *named, size_t gpus, uint32_t *first)
{
    if (gpus)
        qsort(named, gpus, sizeof *named, by_name);
    for (size_t i = 0; i < gpus; i++) {
        bool same = i > 0 && strcmp(named[i - 1].host, named[i].host) == 0;
        first[named[i].gpu] = same ? first[named[i - 1].gpu] : named[i].gpu;
    }
}

uint32_t *muster_view_hosts(const struct muster_view *view, struct muster_arena *memory)
{
    struct named *named = muster_arena_array(memory, view->gpus + 1, sizeof *named);
    uint32_t *host = muster_arena_array(memory, view->gpus + 1, sizeof *host);
    uint32_t hosts = 0;
    if (memory->failed)
        return NULL;
    for (uint32_t g = 0; g < view->gpus; g++)
        named[g] = (struct named){view->gpu[g].host, g};
    find_first(named, view->gpus, host);
    for (uint32_t g = 0; g < view->gpus; g++)
        host[g] = host[g] == g ? hosts++ : host[host[g]];
    return host;
}
