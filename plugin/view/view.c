/* From what is fed to what is read: members by communicator and rank. */
#include "view/view.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/pages.h"
#include "base/text.h"
#include "segment/totals.h"
#include "view/view_internal.h"

/* ---- what is fed ---- */

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
    if (!own)
        return MUSTER_VIEW_NONE;
    *own = *gpu;
    own->order = NULL;
    own->ordered = 0;
    own->length_ns = own->covered_ns = 0;
    own->in_step = false;
    return (uint32_t)view->gpus - 1;
}

uint32_t muster_view_add_member(struct muster_view *view, uint32_t gpu, uint64_t comm_id,
                                int32_t rank, uint32_t nranks, uint32_t nnodes, const char *name)
{
    struct muster_view_index *index = gpu < view->gpus ? index_of(view) : NULL;
    struct muster_view_feed *feed =
        index ? add(view, &index->feed, &index->feeds, sizeof *feed) : NULL;
    if (!feed)
        return MUSTER_VIEW_NONE;
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
        while (slot[at])
            at = (at + 1) & (slots - 1);
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
    if (2 * view->classes >= index->slots && !rehash(view, index))
        return MUSTER_VIEW_NONE;
    size_t at = hash_class(class) & (index->slots - 1);
    while (index->slot[at]) {
        if (same_class(&view->class[index->slot[at] - 1], class))
            return index->slot[at] - 1;
        at = (at + 1) & (index->slots - 1);
    }
    struct muster_view_class *own = add(view, &view->class, &view->classes, sizeof *own);
    if (!own)
        return MUSTER_VIEW_NONE;
    *own = *class;
    index->slot[at] = (uint32_t)view->classes;
    return index->slot[at] - 1;
}

/* The class of an operation whose like was not met just before. */
static __attribute__((noinline)) uint32_t class_anew(struct muster_view *view, uint32_t nranks,
                                                     const struct muster_op *op)
{
    const struct muster_view_class class = {
        .func = op->func,
        .dtype = op->dtype,
        .algo = op->algo,
        .proto = op->proto,
        .size_log2 = muster_size_log2(muster_op_size_bytes(op->func, op->dtype, op->count, nranks)),
        .root = muster_func_is_rooted(op->func) ? op->peer : -1,
        .graph = (op->flags & MUSTER_OP_GRAPH) != 0,
    };
    return class_of(view, &class);
}

_Static_assert(offsetof(struct muster_op, proto) == offsetof(struct muster_op, func) + 3,
               "four bytes that are read at once");

/* The class of an operation. Steps are alike: most are of a class that was met with the same count
 * just before. */
static uint32_t class_met(struct muster_view *view, uint32_t nranks, const struct muster_op *op)
{
    uint32_t kind; /* function, type, algorithm and protocol, which stand side by side */
    memcpy(&kind, (const char *)op + offsetof(struct muster_op, func), sizeof kind);
    uint64_t what = kind | (uint64_t)(op->flags & MUSTER_OP_GRAPH) << 32 | 1ull << 63;
    uint64_t whose = (uint64_t)(uint32_t)op->peer << 32 | nranks;
    uint64_t mixed = (op->count ^ what << 20 ^ whose << 7) * 0x9e3779b97f4a7c15ull;
    struct muster_view_class_met *met =
        &view->index->met[mixed >> (64 - MUSTER_VIEW_CLASSES_MET_LOG2)];
    if (met->what == what && met->count == op->count && met->whose == whose)
        return met->class;
    uint32_t at = class_anew(view, nranks, op);
    if (at < MUSTER_VIEW_CLASSES)
        *met = (struct muster_view_class_met){what, whose, op->count, at};
    return at;
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

/* *ops and *funcs: what is counted of its member. */
static inline void put(struct muster_view *view, uint32_t member, uint32_t nranks,
                       const struct muster_op *op, uint32_t *ops, uint32_t *funcs)
{
    uint32_t at = class_met(view, nranks, op);
    if (at >= MUSTER_VIEW_CLASSES) {
        view->unattributed++; /* or out of memory, which shows in finish */
        return;
    }
    if (!muster_grow(&view->op, view->ops, sizeof *view->op)) {
        view->failed = true;
        return;
    }
    uint32_t func = op->func < MUSTER_FUNCS ? op->func : MUSTER_FUNC_UNKNOWN;
    *funcs |= 1u << func;
    ++*ops;
    struct muster_view_op *own = &view->op[view->ops++];
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
        .func = func & 31u,
        .channels = op->channels,
    };
    set_peer(own, op->peer);
}

/* The operations that come next are another GPU's. */
static void begin_piece(struct muster_view *view, uint32_t gpu)
{
    struct muster_view_index *index = view->index;
    index->gpu = gpu;
    index->mixed |= index->pieces == view->gpus;
    struct muster_view_piece *piece =
        index->mixed ? NULL : add(view, &index->piece, &index->pieces, sizeof *piece);
    if (piece)
        *piece = (struct muster_view_piece){view->ops, gpu};
}

void muster_view_add_op(struct muster_view *view, uint32_t member, const struct muster_op *op)
{
    struct muster_view_index *index = view->index;
    if (!index || member >= index->feeds || view->ops >= MUSTER_VIEW_NONE) {
        view->unattributed++;
        return;
    }
    struct muster_view_feed *feed = &index->feed[member];
    if (feed->gpu != index->gpu || !index->pieces)
        begin_piece(view, feed->gpu);
    put(view, member, feed->nranks, op, &feed->ops, &feed->funcs);
}

void muster_view_put_op(struct muster_view *view, uint32_t member, const struct muster_op *op)
{
    if (member >= view->members || view->ops >= MUSTER_VIEW_NONE) {
        view->unattributed++;
        return;
    }
    struct muster_view_member *own = &view->member[member];
    put(view, member, own->nranks, op, &own->ops, &own->funcs);
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
        free(view->index->piece);
        free(view->index);
        view->index = NULL;
    }
}

void muster_view_drop_ops(struct muster_view *view)
{
    for (size_t i = 0; i < view->gpus; i++) {
        view->gpu[i].order = NULL;
        view->gpu[i].ordered = 0;
        view->gpu[i].length_ns = view->gpu[i].covered_ns = 0;
        view->gpu[i].in_step = false;
    }
    for (size_t i = 0; i < view->members; i++)
        view->member[i].first_op = view->member[i].ops = view->member[i].funcs = 0;
    free(view->op);
    free(view->order);
    view->op = NULL;
    view->order = NULL;
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

/* ---- members by communicator and rank ---- */

static int by_comm(const void *left, const void *right)
{
    const struct muster_view_feed *a = left;
    const struct muster_view_feed *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->id && a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->handle < b->handle ? -1 : a->handle > b->handle;
}

static void join(struct muster_view_comm *comm, const struct muster_view_feed *feed,
                 const struct muster_view_feed *before)
{
    comm->duplicate_rank |= before && before->rank == feed->rank;
    comm->members++;
    comm->nranks = comm->nranks ? comm->nranks : feed->nranks;
    comm->nnodes = comm->nnodes ? comm->nnodes : feed->nnodes;
    if (!comm->name[0])
        memcpy(comm->name, feed->name, sizeof comm->name);
}

static int by_uid(const void *left, const void *right, void *arg)
{
    const struct muster_view *view = arg;
    const struct muster_view_member *a = &view->member[*(const uint32_t *)left];
    const struct muster_view_member *b = &view->member[*(const uint32_t *)right];
    uint32_t p = view->gpu[a->gpu].process, q = view->gpu[b->gpu].process;
    if (p != q)
        return p < q ? -1 : 1;
    return (a->uid > b->uid) - (a->uid < b->uid);
}

int muster_view_group_members(struct muster_view *view, uint32_t *to)
{
    struct muster_view_index *index = view->index;
    size_t n = index ? index->feeds : 0;
    view->comm = calloc(n + 1, sizeof *view->comm);
    view->member = calloc(n + 1, sizeof *view->member);
    view->by_uid = calloc(n + 1, sizeof *view->by_uid);
    if (!view->comm || !view->member || !view->by_uid || n >= MUSTER_VIEW_MEMBERS)
        return -1;
    if (n)
        qsort(index->feed, n, sizeof *index->feed, by_comm);
    for (size_t i = 0; i < n; i++) {
        const struct muster_view_feed *feed = &index->feed[i];
        bool same = i && feed->id && feed[-1].id == feed->id;
        if (!same) {
            view->comm[view->comms++] =
                (struct muster_view_comm){.id = feed->id, .first_member = (uint32_t)i};
        }
        join(&view->comm[view->comms - 1], feed, same ? feed - 1 : NULL);
        view->member[i] = (struct muster_view_member){.comm = (uint32_t)view->comms - 1,
                                                      .gpu = feed->gpu,
                                                      .rank = feed->rank,
                                                      .nranks = feed->nranks,
                                                      .uid = feed->uid,
                                                      .entry = feed->entry,
                                                      .ops = feed->ops,
                                                      .funcs = feed->funcs};
        view->by_uid[i] = (uint32_t)i;
        if (to)
            to[feed->handle] = (uint32_t)i;
    }
    view->members = n;
    if (n)
        qsort_r(view->by_uid, n, sizeof *view->by_uid, by_uid, view);
    return 0;
}

static int no_memory(struct muster_view *view, struct muster_err *err)
{
    muster_view_free(view);
    return muster_fail_memory(err, "the operations of all ranks");
}

int muster_view_find_times(struct muster_view *view, struct muster_err *err)
{
    return muster_view_self_times(view) || muster_view_queue_times(view) ? no_memory(view, err) : 0;
}

int muster_view_finish(struct muster_view *view, struct muster_err *err)
{
    if (view->failed || muster_view_group_fed(view))
        return no_memory(view, err);
    muster_view_index_free(view);
    return muster_view_find_times(view, err);
}
