#include "view/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "view/view_internal.h"
#include "segment/rows.h"
#include "base/array.h"

static struct muster_view_index *index_of(struct muster_view *view)
{
    if (!view->index) {
        view->index = calloc(1, sizeof *view->index);
        view->failed |= !view->index;
    }
    return view->index;
}

/* A new, zeroed element of an array; NULL: no memory. */
static void *add(struct muster_view *view, void *array, size_t *n, size_t size)
{
    char *first;
    if (!muster_grow(array, *n, size)) {
        view->failed = true;
        return NULL;
    }
    memcpy(&first, array, sizeof first);
    return memset(first + (*n)++ * size, 0, size);
}

uint32_t muster_view_add_gpu(struct muster_view *view, const struct muster_view_gpu *gpu)
{
    struct muster_view_gpu *own = add(view, &view->gpu, &view->gpus, sizeof *own);
    if (!own) {
        return MUSTER_VIEW_NONE;
    }
    *own = *gpu;
    own->order = NULL;
    own->ordered = 0;
    return (uint32_t)view->gpus - 1;
}

uint32_t muster_view_add_member(struct muster_view *view, uint32_t gpu, uint64_t comm_id,
                                int32_t rank, uint32_t nranks, uint32_t nnodes, const char *name)
{
    struct muster_view_index *index = gpu < view->gpus ? index_of(view) : NULL;
    struct muster_view_feed *feed =
        index ? add(view, &index->feed, &index->feeds, sizeof *feed) : NULL;
    if (!feed) {
        return MUSTER_VIEW_NONE;
    }
    feed->id = comm_id;
    feed->rank = rank;
    feed->nranks = nranks;
    feed->nnodes = nnodes;
    feed->gpu = gpu;
    feed->handle = (uint32_t)index->feeds - 1;
    muster_text_copy(feed->name, sizeof feed->name, name);
    return feed->handle;
}

static bool same_class(const struct muster_view_class *a, const struct muster_view_class *b)
{
    return a->func == b->func && a->dtype == b->dtype && a->algo == b->algo &&
           a->proto == b->proto && a->size_log2 == b->size_log2 && a->root == b->root &&
           a->graph == b->graph;
}

static size_t hash_class(const struct muster_view_class *class)
{
    uint64_t x = (uint64_t) class->func | (uint64_t) class->dtype << 8 |
                 (uint64_t) class->algo << 16 | (uint64_t) class->proto << 24 |
                 (uint64_t) class->size_log2 << 32 | (uint64_t) class->graph << 40;
    x = (x + (uint32_t) class->root * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
    return (size_t)(x >> 32 ^ x);
}

static bool rehash(struct muster_view *view, struct muster_view_index *index)
{
    size_t slots = index->slots ? 2 * index->slots : 64;
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (!slot) {
        view->failed = true;
        return false;
    }
    for (size_t i = 0; i < view->classes; i++) {
        size_t at = hash_class(&view->class[i]) & (slots - 1);
        while (slot[at]) {
            at = (at + 1) & (slots - 1);
        }
        slot[at] = (uint32_t)i + 1;
    }
    free(index->slot);
    index->slot = slot;
    index->slots = slots;
    return true;
}

static uint32_t class_of(struct muster_view *view, const struct muster_view_class *class)
{
    struct muster_view_index *index = view->index;
    if (2 * view->classes >= index->slots && !rehash(view, index)) {
        return MUSTER_VIEW_NONE;
    }
    size_t at = hash_class(class) & (index->slots - 1);
    while (index->slot[at]) {
        if (same_class(&view->class[index->slot[at] - 1], class)) {
            return index->slot[at] - 1;
        }
        at = (at + 1) & (index->slots - 1);
    }
    struct muster_view_class *own = add(view, &view->class, &view->classes, sizeof *own);
    if (!own) {
        return MUSTER_VIEW_NONE;
    }
    *own = *class;
    index->slot[at] = (uint32_t)view->classes;
    return index->slot[at] - 1;
}

static uint64_t most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

static void set_peer(struct muster_view_op *own, int32_t peer)
{
    const int32_t limit = MUSTER_VIEW_PEERS - 1;
    int32_t clamped = peer > limit ? limit : peer < -1 ? -1 : peer;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion" /* gcc does not see that it fits */
    own->peer = clamped;
#pragma GCC diagnostic pop
}

static void put(struct muster_view *view, uint32_t member, uint32_t nranks,
                const struct muster_op *op)
{
    struct muster_view_class class = {
        .func = op->func,
        .dtype = op->dtype,
        .algo = op->algo,
        .proto = op->proto,
        .size_log2 = muster_size_log2(muster_op_size_bytes(op->func, op->dtype, op->count, nranks)),
        .root = muster_func_is_rooted(op->func) ? op->peer : -1,
        .graph = (op->flags & MUSTER_OP_GRAPH) != 0,
    };
    uint32_t at = class_of(view, &class);
    if (at >= MUSTER_VIEW_CLASSES) {
        view->strays++; /* or out of memory, which shows in finish */
        return;
    }
    struct muster_view_op *own = add(view, &view->op, &view->ops, sizeof *own);
    if (!own) {
        return;
    }
    bool timed = op->source < MUSTER_SOURCES && op->end_ns > op->begin_ns &&
                 op->end_ns < MUSTER_VIEW_LATEST_NS && !(op->flags & MUSTER_OP_INCOMPLETE);
    *own = (struct muster_view_op){
        .number = most(op->number, MUSTER_VIEW_NO_NUMBER) & MUSTER_VIEW_NO_NUMBER,
        .enqueue_ns = op->enqueue_ns < MUSTER_VIEW_LATEST_NS ? op->enqueue_ns : 0,
        .begin_ns = timed ? op->begin_ns : 0,
        .end_ns = timed ? op->end_ns : 0,
        .count = most(op->count, MUSTER_VIEW_COUNTS) & MUSTER_VIEW_COUNTS,
        .class = at & (MUSTER_VIEW_CLASSES - 1),
        .member = member & (MUSTER_VIEW_MEMBERS - 1),
        .flags = op->flags,
        .queued = MUSTER_QUEUED_UNKNOWN,
        .source = (timed ? op->source : MUSTER_SOURCE_NONE) & 7u,
        .func = (op->func < MUSTER_FUNCS ? op->func : MUSTER_FUNC_UNKNOWN) & 31u,
        .channels = op->channels,
    };
    set_peer(own, op->peer);
}

void muster_view_add_op(struct muster_view *view, uint32_t member, const struct muster_op *op)
{
    const struct muster_view_index *index = view->index;
    if (!index || member >= index->feeds || view->ops >= MUSTER_VIEW_NONE) {
        view->strays++;
        return;
    }
    put(view, member, index->feed[member].nranks, op);
}

void muster_view_put_op(struct muster_view *view, uint32_t member, const struct muster_op *op)
{
    if (member >= view->members || view->ops >= MUSTER_VIEW_NONE) {
        view->strays++;
        return;
    }
    put(view, member, view->member[member].nranks, op);
}

void muster_view_add_net(struct muster_view *view, uint32_t member,
                         const struct muster_seg_net *net)
{
    struct muster_view_net *own = add(view, &view->net, &view->nets, sizeof *own);
    if (own) {
        *own = (struct muster_view_net){
            .member = member,
            .peer = net->peer,
            .send = net->send != 0,
            .count = net->count,
            .bytes = net->bytes,
            .steps = net->steps,
            .gpu_wait_ns = net->gpu_wait_ns,
            .credit_wait_ns = net->credit_wait_ns,
            .net_wait_ns = net->net_wait_ns,
            .flush_ns = net->flush_ns,
        };
    }
}

void muster_view_index_free(struct muster_view *view)
{
    if (view->index) {
        free(view->index->feed);
        free(view->index->slot);
        free(view->index);
        view->index = NULL;
    }
}

void muster_view_drop_ops(struct muster_view *view)
{
    for (size_t i = 0; i < view->gpus; i++) {
        free(view->gpu[i].order);
        view->gpu[i].order = NULL;
        view->gpu[i].ordered = 0;
    }
    for (size_t i = 0; i < view->members; i++) {
        view->member[i].first_op = view->member[i].ops = 0;
    }
    free(view->op);
    view->op = NULL;
    view->ops = 0;
}

void muster_view_free(struct muster_view *view)
{
    muster_view_drop_ops(view);
    free(view->gpu);
    free(view->comm);
    free(view->member);
    free(view->class);
    free(view->net);
    free(view->by_uid);
    muster_view_index_free(view);
    memset(view, 0, sizeof *view);
}

/* ---- what is looked up in a finished view by the order of its operations ---- */

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
