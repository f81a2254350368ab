/*
 * The seven tables that NCCL looks up. Each entry turns its version's descriptor into a struct
 * muster_event and makes one call into plugin.h. `api` is a constant wherever translate() and what
 * it calls are compiled, so that every version gets code for itself from one source.
 */
#include "nccl/descriptor_downgrade.h"
#include "nccl/nccl_names.h"
#include "nccl/profiler_abi.h"
#include "nccl/profiler_hooks.h"

#include <stdatomic.h>

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define EXPORTED      __attribute__((visibility("default")))
#define UNLIKELY(x)   __builtin_expect((x), 0)

/* Another profiler beside muster, from the first init on. Relaxed: what NCCL calls with came out of
 * an init, and NCCL hands it from thread to thread. */
static _Atomic(const struct nccl_profiler_beside *) beside;

static ALWAYS_INLINE const struct nccl_profiler_beside *others(void)
{
    return atomic_load_explicit(&beside, memory_order_relaxed);
}

/* ---- Collectives, sends and receives ---- */

static ALWAYS_INLINE struct muster_event_op coll_v1(const struct nccl_coll_v1 *c)
{
    struct muster_event_op op = {
        .comm_hash = c->comm_hash,
        .comm_name = c->name,
        .count = c->count,
        .seq = c->seq,
        .traffic_bytes = c->traffic_bytes,
        .root_or_peer = c->root,
        .func = muster_names_of_number(MUSTER_NAMES_FUNC, c->func),
        .dtype = muster_names_of_number(MUSTER_NAMES_DTYPE, c->datatype),
        .algo = muster_names_of_number(MUSTER_NAMES_ALGO, c->algo),
        .proto = muster_names_of_number(MUSTER_NAMES_PROTO, c->proto),
        .channels = c->max_channels,
        .warps = c->warps,
    };
    return op;
}

static ALWAYS_INLINE struct muster_event_op coll_text(const struct nccl_coll_what *what,
                                                      const struct nccl_coll_how *how)
{
    struct muster_event_op op = {
        .count = what->count,
        .seq = what->seq,
        .func_text = what->func,
        .dtype_text = what->datatype,
        .algo_text = how->algo,
        .proto_text = how->proto,
        .root_or_peer = what->root,
        .func = muster_names_value(MUSTER_NAMES_FUNC, what->func),
        .dtype = muster_names_value(MUSTER_NAMES_DTYPE, what->datatype),
        .algo = muster_names_value(MUSTER_NAMES_ALGO, how->algo),
        .proto = muster_names_value(MUSTER_NAMES_PROTO, how->proto),
        .channels = how->channels,
        .warps = how->warps,
    };
    return op;
}

static ALWAYS_INLINE struct muster_event_op coll_v2(const struct nccl_coll_v2 *c)
{
    struct muster_event_op op = coll_text(&c->what, &c->how);
    op.comm_hash = c->comm_hash;
    op.comm_name = c->name;
    op.traffic_bytes = c->traffic_bytes;
    return op;
}

static ALWAYS_INLINE struct muster_event_op coll_v3(const struct nccl_coll_v3 *c)
{
    struct muster_event_op op = coll_text(&c->what, &c->how);
    op.comm_hash = c->comm_hash;
    op.comm_name = c->name;
    return op;
}

static ALWAYS_INLINE struct muster_event_op coll_v5(const struct nccl_coll_v5 *c)
{
    struct muster_event_op op = coll_text(&c->v4.what, &c->v4.how);
    op.parent_group = c->parent_group;
    return op;
}

static ALWAYS_INLINE struct muster_event_op coll(unsigned api, const void *d)
{
    if (api == 1)
        return coll_v1(&((const struct nccl_descr_v1 *)d)->coll);
    if (api == 2)
        return coll_v2(&((const struct nccl_descr_v2 *)d)->coll);
    if (api == 3)
        return coll_v3(&((const struct nccl_descr_v3 *)d)->coll);
    if (api == 4) {
        const struct nccl_coll_v4 *c = &((const struct nccl_descr_v4 *)d)->coll;
        return coll_text(&c->what, &c->how);
    }
    struct muster_event_op op = coll_v5(&((const struct nccl_descr_v5 *)d)->coll);
    if (api >= 7)
        op.user_tag = ((const struct nccl_descr_v7 *)d)->coll.user_tag;
    return op;
}

static ALWAYS_INLINE struct muster_event_op p2p_v1(const struct nccl_p2p_v1 *p)
{
    struct muster_event_op op = {
        .comm_hash = p->comm_hash,
        .comm_name = p->name,
        .count = p->count,
        .root_or_peer = p->peer,
        .func = muster_names_of_number(MUSTER_NAMES_FUNC, p->func),
        .dtype = muster_names_of_number(MUSTER_NAMES_DTYPE, p->datatype),
    };
    return op;
}

/* What p2p descriptors, API events and copy-engine collectives have in common. */
static ALWAYS_INLINE struct muster_event_op call_text(const char *func, const char *datatype,
                                                      size_t count, int32_t root_or_peer)
{
    struct muster_event_op op = {
        .count = count,
        .func_text = func,
        .dtype_text = datatype,
        .root_or_peer = root_or_peer,
        .func = muster_names_value(MUSTER_NAMES_FUNC, func),
        .dtype = muster_names_value(MUSTER_NAMES_DTYPE, datatype),
    };
    return op;
}

static ALWAYS_INLINE struct muster_event_op p2p_v2(const struct nccl_p2p_v2 *p)
{
    struct muster_event_op op = call_text(p->func, p->datatype, p->count, p->peer);
    op.comm_hash = p->comm_hash;
    op.comm_name = p->name;
    return op;
}

static ALWAYS_INLINE struct muster_event_op p2p_v4(const struct nccl_p2p_v4 *p)
{
    struct muster_event_op op = call_text(p->func, p->datatype, p->count, p->peer);
    op.channels = p->channels;
    return op;
}

static ALWAYS_INLINE struct muster_event_op p2p(unsigned api, const void *d)
{
    if (api == 1)
        return p2p_v1(&((const struct nccl_descr_v1 *)d)->p2p);
    if (api <= 3)
        return p2p_v2(&((const struct nccl_descr_v2 *)d)->p2p);
    if (api == 4)
        return p2p_v4(&((const struct nccl_descr_v4 *)d)->p2p);
    const struct nccl_p2p_v5 *p = &((const struct nccl_descr_v5 *)d)->p2p;
    struct muster_event_op op = p2p_v4(&p->v4);
    op.parent_group = p->parent_group;
    if (api >= 7)
        op.user_tag = ((const struct nccl_descr_v7 *)d)->p2p.user_tag;
    return op;
}

static ALWAYS_INLINE struct muster_event_op coll_api(unsigned api, const void *d)
{
    const struct nccl_coll_api_v5 *c = &((const struct nccl_descr_v5 *)d)->coll_api;
    struct muster_event_op op = call_text(c->func, c->datatype, c->count, c->root);
    op.stream = c->stream;
    op.graph = c->graph != 0;
    if (api >= 7)
        op.user_tag = ((const struct nccl_descr_v7 *)d)->coll_api.user_tag;
    return op;
}

static ALWAYS_INLINE struct muster_event_op p2p_api(unsigned api, const void *d)
{
    const struct nccl_p2p_api_v5 *p = &((const struct nccl_descr_v5 *)d)->p2p_api;
    struct muster_event_op op = call_text(p->func, p->datatype, p->count, -1);
    op.stream = p->stream;
    op.graph = p->graph != 0;
    if (api >= 7)
        op.user_tag = ((const struct nccl_descr_v7 *)d)->p2p_api.user_tag;
    return op;
}

static ALWAYS_INLINE struct muster_event_op ce_coll(unsigned api, const void *d)
{
    const struct nccl_ce_coll_v6 *c = &((const struct nccl_descr_v6 *)d)->ce_coll;
    struct muster_event_op op = call_text(c->func, c->datatype, c->count, c->root);
    op.seq = c->seq;
    op.stream = c->stream;
    op.algo = MUSTER_ALGO_CE;
    if (api >= 7)
        op.user_tag = ((const struct nccl_descr_v7 *)d)->ce_coll.user_tag;
    return op;
}

/* ---- Events ---- */

/* Members that stand at the same place in every version that has them are read through the oldest
 * such version. */
static ALWAYS_INLINE void take_proxy(struct muster_event *event, const void *d)
{
    const struct nccl_descr_v3 *v3 = d;
    if (event->kind == MUSTER_EVENT_PROXY_OP) {
        event->proxy_op.pid = v3->proxy_op.pid;
        event->proxy_op.channel = v3->proxy_op.channel;
        event->proxy_op.peer = v3->proxy_op.peer;
        event->proxy_op.steps = v3->proxy_op.steps;
        event->proxy_op.chunk = v3->proxy_op.chunk;
        event->proxy_op.send = v3->proxy_op.is_send;
    } else if (event->kind == MUSTER_EVENT_PROXY_STEP) {
        event->proxy_step.step = v3->proxy_step.step;
    } else {
        event->net_plugin.id = v3->net_plugin.id;
        event->net_plugin.data = v3->net_plugin.data;
    }
}

static ALWAYS_INLINE void take_kernel(unsigned api, struct muster_event *event, const void *d)
{
    if (event->kind == MUSTER_EVENT_KERNEL_LAUNCH) {
        event->kernel_launch.stream = ((const struct nccl_descr_v5 *)d)->kernel_launch.stream;
    } else if (event->kind == MUSTER_EVENT_KERNEL_PHASE) {
        const struct nccl_kernel_phase *k = &((const struct nccl_descr_v7 *)d)->kernel_phase;
        event->kernel_ch.channel = k->channel;
        event->kernel_ch.phase = k->phase;
        event->kernel_ch.ptimer = k->ptimer;
    } else {
        const struct nccl_kernel_ch_v4 *k = &((const struct nccl_descr_v4 *)d)->kernel_ch;
        event->kernel_ch.channel = k->channel;
        event->kernel_ch.phase = 0;
        event->kernel_ch.ptimer = api >= 4 ? k->ptimer : 0;
    }
}

static ALWAYS_INLINE void take_ce(unsigned api, struct muster_event *event, const void *d)
{
    const struct nccl_descr_v6 *v6 = d;
    if (event->kind == MUSTER_EVENT_CE_COLL) {
        event->op = ce_coll(api, d);
    } else if (event->kind == MUSTER_EVENT_CE_SYNC) {
        event->ce.n = v6->ce_sync.nranks;
        event->ce.bytes = 0;
    } else {
        event->ce.n = v6->ce_batch.ops;
        event->ce.bytes = v6->ce_batch.bytes;
    }
}

static ALWAYS_INLINE void take_part(unsigned api, struct muster_event *event, const void *d)
{
    const struct nccl_descr_v5 *v5 = d;
    switch ((enum muster_event_kind)event->kind) {
    case MUSTER_EVENT_COLL:
        event->op = coll(api, d);
        break;
    case MUSTER_EVENT_P2P:
        event->op = p2p(api, d);
        break;
    case MUSTER_EVENT_GROUP_API:
        event->group_api.graph = v5->group_api.graph != 0;
        event->group_api.depth = v5->group_api.depth;
        break;
    case MUSTER_EVENT_COLL_API:
        event->op = coll_api(api, d);
        break;
    case MUSTER_EVENT_P2P_API:
        event->op = p2p_api(api, d);
        break;
    case MUSTER_EVENT_PROXY_OP:
    case MUSTER_EVENT_PROXY_STEP:
    case MUSTER_EVENT_NET_PLUGIN:
        take_proxy(event, d);
        break;
    case MUSTER_EVENT_KERNEL_CH:
    case MUSTER_EVENT_KERNEL_LAUNCH:
    case MUSTER_EVENT_KERNEL_PHASE:
        take_kernel(api, event, d);
        break;
    case MUSTER_EVENT_CE_COLL:
    case MUSTER_EVENT_CE_SYNC:
    case MUSTER_EVENT_CE_BATCH:
        take_ce(api, event, d);
        break;
    case MUSTER_EVENT_GROUP:
    case MUSTER_EVENT_PROXY_CTRL:
    case MUSTER_EVENT_KINDS:
        break;
    }
}

/* False where there is nothing that muster could record: no descriptor, or a type that is not one
 * event of this version. */
static ALWAYS_INLINE bool translate(unsigned api, struct muster_event *event, const void *d)
{
    if (!d)
        return false;
    uint64_t type = api < 5 ? *(const uint8_t *)d : *(const uint64_t *)d;
    if (type == 0 || (type & (type - 1)) != 0 || type >> muster_event_kinds(api) != 0)
        return false;
    event->kind = (uint8_t)__builtin_ctzll(type);
    event->parent = ((const struct nccl_descr_v1 *)d)->parent;
    event->rank = ((const struct nccl_descr_v1 *)d)->rank;
    take_part(api, event, d);
    return true;
}

static ALWAYS_INLINE int start(unsigned api, void *context, void **handle, const void *d)
{
    struct muster_event event;
    if (!handle)
        return NCCL_SUCCESS;
    if (translate(api, &event, d))
        muster_plugin_start(context, handle, &event);
    else
        *handle = NULL; /* NCCL may have left an old handle there */
    return NCCL_SUCCESS;
}

/* ---- States ---- */

static ALWAYS_INLINE int record(unsigned api, void *handle, int state, const void *args)
{
    const union nccl_args_v4 *a = args; /* v1's members that are read stand at the same places */
    enum nccl_args_member member = args ? nccl_args_of_state(api, (unsigned)state) : NCCL_ARGS_NONE;
    struct muster_event_args given = {.given = member != NCCL_ARGS_NONE};
    if (member == NCCL_ARGS_APPENDED)
        given.appended = a->proxy_ctrl.appended;
    else if (member == NCCL_ARGS_TRANS)
        given.trans_bytes = a->proxy_step.trans_bytes;
    else if (member == NCCL_ARGS_PTIMER)
        given.ptimer = a->kernel_ch.ptimer;
    muster_plugin_state(handle, (unsigned)state, &given);
    return NCCL_SUCCESS;
}

static int stop(void *handle)
{
    if (UNLIKELY(others() != NULL))
        others()->stop(handle);
    else
        muster_plugin_stop(handle);
    return NCCL_SUCCESS;
}

/* ---- Communicators ---- */

static void make(void **context, int *mask, const struct muster_event_init *init,
                 nccl_logger logger, const void *caller)
{
    muster_names_forget();
    atomic_store_explicit(&beside, muster_plugin_beside(), memory_order_relaxed);
    if (others())
        others()->init(context, mask, init, logger, caller);
    else
        muster_plugin_init(context, mask, init, caller);
}

static ALWAYS_INLINE int init_v1(unsigned api, void **context, int *mask)
{
    struct muster_event_init init = {.rank = -1, .api = api};
    make(context, mask, &init, NULL, __builtin_return_address(0));
    return NCCL_SUCCESS;
}

static int init_v4(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nnodes,
                   int nranks, int rank, nccl_logger logger)
{
    struct muster_event_init init = {comm_hash, comm_name, nnodes, nranks, rank, 4};
    make(context, mask, &init, logger, __builtin_return_address(0));
    return NCCL_SUCCESS;
}

static ALWAYS_INLINE int init_v5(unsigned api, void **context, uint64_t comm_id, int *mask,
                                 const char *comm_name, int nnodes, int nranks, int rank,
                                 nccl_logger logger)
{
    struct muster_event_init init = {comm_id, comm_name, nnodes, nranks, rank, api};
    make(context, mask, &init, logger, __builtin_return_address(0));
    return NCCL_SUCCESS;
}

static int finalize(void *context)
{
    if (others())
        others()->finalize(context);
    else
        muster_plugin_fini(context);
    return NCCL_SUCCESS;
}

/* ---- The tables ---- */

/* The own_ functions stand by themselves so that a chain can call them; for NCCL's calls they are
 * the end of the entry, reached by a jump. The logger is not muster's to use: it writes into the
 * text that ncclGetLastError returns. */
#define ENTRIES(api)                                                                               \
    static __attribute__((noinline)) int own_start_v##api(void *context, void **handle,            \
                                                          const void *descriptor)                  \
    {                                                                                              \
        return start(api, context, handle, descriptor);                                            \
    }                                                                                              \
    static int start_v##api(void *context, void **handle, const void *descriptor)                  \
    {                                                                                              \
        if (UNLIKELY(others() != NULL) && handle) {                                                \
            others()->start(api, nccl_descr_kind(api, descriptor), context, handle, descriptor,    \
                            own_start_v##api);                                                     \
            return NCCL_SUCCESS;                                                                   \
        }                                                                                          \
        return own_start_v##api(context, handle, descriptor);                                      \
    }                                                                                              \
    static int record_v##api(void *handle, int state, const void *args)                            \
    {                                                                                              \
        if (UNLIKELY(others() != NULL)) {                                                          \
            others()->record(api, handle, state, args);                                            \
            return NCCL_SUCCESS;                                                                   \
        }                                                                                          \
        return record((api) < 4 ? 1 : 4, handle, state, args);                                     \
    }

#define TABLE(api, shape, init, record)                                                            \
    extern EXPORTED const struct nccl_profiler_v##shape ncclProfiler_v##api;                       \
    const struct nccl_profiler_v##shape ncclProfiler_v##api = {"muster", init,   start_v##api,     \
                                                               stop,     record, finalize}

#define INIT_1(api)                                                                                \
    static int init_##api(void **context, int *mask)                                               \
    {                                                                                              \
        return init_v1(api, context, mask);                                                        \
    }

#define INIT_5(api)                                                                                \
    static int init_##api(void **context, uint64_t comm_id, int *mask, const char *comm_name,      \
                          int nnodes, int nranks, int rank, nccl_logger logger)                    \
    {                                                                                              \
        return init_v5(api, context, comm_id, mask, comm_name, nnodes, nranks, rank, logger);      \
    }

ENTRIES(1)
ENTRIES(2)
ENTRIES(3)
ENTRIES(4)
ENTRIES(5)
ENTRIES(6)
ENTRIES(7)
INIT_1(1)
INIT_1(2)
INIT_1(3)
INIT_5(5)
INIT_5(6)
INIT_5(7)

TABLE(1, 1, init_1, record_v1);
TABLE(2, 1, init_2, record_v2);
TABLE(3, 1, init_3, record_v3);
TABLE(4, 4, init_v4, record_v4);
TABLE(5, 5, init_5, record_v5);
TABLE(6, 5, init_6, record_v6);
TABLE(7, 5, init_7, record_v7);

/* ---- For a chain ---- */

void nccl_profiler_own_record(unsigned api, void *handle, int state, const void *args)
{
    record(api < 4 ? 1 : 4, handle, state, args);
}

bool nccl_profiler_is_own(const void *table)
{
    const void *const own[] = {&ncclProfiler_v1, &ncclProfiler_v2, &ncclProfiler_v3,
                               &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6,
                               &ncclProfiler_v7};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (table == own[i])
            return true;
    return false;
}
