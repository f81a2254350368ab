#include "replay/replay_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "nccl/nccl_names.h"
#include "nccl/profiler_abi.h"

/* ---- Loading ---- */

static const void *find_table(void *library, unsigned *api, unsigned newest, unsigned oldest)
{
    for (unsigned version = newest; version >= oldest; version--) {
        char symbol[32];
        snprintf(symbol, sizeof(symbol), "ncclProfiler_v%u", version);
        const void *table = dlsym(library, symbol);
        if (table) {
            *api = version;
            return table;
        }
    }
    return NULL;
}

int muster_driver_open(struct muster_driver *driver, const char *path, unsigned api,
                       unsigned max_api, struct muster_err *err)
{
    if (api > NCCL_NEWEST_API)
        return muster_fail(err, "profiler interface v%u: muster knows v1 to v%d", api,
                           NCCL_NEWEST_API);
    unsigned newest = api != 0                                    ? api
                      : max_api != 0 && max_api < NCCL_NEWEST_API ? max_api
                                                                  : NCCL_NEWEST_API;
    unsigned oldest = api != 0 ? api : 1;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return muster_fail(err, "%s", dlerror());
    unsigned found = 0;
    const void *table = find_table(library, &found, newest, oldest);
    if (!table) {
        dlclose(library);
        if (newest == oldest)
            return muster_fail(
                err, "%s: no profiler plugin of interface v%u (no symbol ncclProfiler_v%u)", path,
                newest, newest);
        return muster_fail(err, "%s: no profiler plugin (none of ncclProfiler_v1 to v%u)", path,
                           newest);
    }
    const char *name = ((const struct nccl_profiler_v1 *)table)->name;
    *driver = (struct muster_driver){library, table, name ? name : "", found};
    return 0;
}

/* ---- Descriptors ---- */

static uint8_t value_of(enum muster_names kind, unsigned value, const char *text)
{
    return value != 0 ? (uint8_t)value : muster_names_match(kind, text);
}

static uint8_t number_of(enum muster_names kind, unsigned value, const char *text)
{
    return muster_names_number(kind, value_of(kind, value, text));
}

/* Known words go out as literals, as from NCCL, whose addresses stay; never NULL, which NCCL does
 * not send and other plugins do not expect. */
static const char *text_of(enum muster_names kind, unsigned value, const char *text)
{
    const char *literal = muster_names_text(kind, text ? muster_names_match(kind, text) : value);
    return literal ? literal : text ? text : "";
}

static void put_coll_v1(struct nccl_coll_v1 *c, const struct muster_event_op *op)
{
    *c = (struct nccl_coll_v1){
        .name = op->comm_name,
        .comm_hash = op->comm_hash,
        .seq = op->seq,
        .func = number_of(MUSTER_NAMES_FUNC, op->func, op->func_text),
        .count = op->count,
        .root = op->root_or_peer,
        .datatype = number_of(MUSTER_NAMES_DTYPE, op->dtype, op->dtype_text),
        .traffic_bytes = op->traffic_bytes,
        .max_channels = op->channels,
        .warps = op->warps,
        .algo = number_of(MUSTER_NAMES_ALGO, op->algo, op->algo_text),
        .proto = number_of(MUSTER_NAMES_PROTO, op->proto, op->proto_text),
    };
}

static void put_coll(struct nccl_coll_what *what, struct nccl_coll_how *how,
                     const struct muster_event_op *op)
{
    *what = (struct nccl_coll_what){
        .seq = op->seq,
        .func = text_of(MUSTER_NAMES_FUNC, op->func, op->func_text),
        .count = op->count,
        .root = op->root_or_peer,
        .datatype = text_of(MUSTER_NAMES_DTYPE, op->dtype, op->dtype_text),
    };
    *how = (struct nccl_coll_how){
        .channels = op->channels,
        .warps = op->warps,
        .algo = text_of(MUSTER_NAMES_ALGO, op->algo, op->algo_text),
        .proto = text_of(MUSTER_NAMES_PROTO, op->proto, op->proto_text),
    };
}

static void put_coll_of(unsigned api, union nccl_descr *d, const struct muster_event_op *op)
{
    if (api == 1) {
        put_coll_v1(&d->v1.coll, op);
    } else if (api == 2) {
        d->v2.coll.name = op->comm_name;
        d->v2.coll.comm_hash = op->comm_hash;
        d->v2.coll.traffic_bytes = op->traffic_bytes;
        put_coll(&d->v2.coll.what, &d->v2.coll.how, op);
    } else if (api == 3) {
        d->v3.coll.name = op->comm_name;
        d->v3.coll.comm_hash = op->comm_hash;
        put_coll(&d->v3.coll.what, &d->v3.coll.how, op);
    } else {
        put_coll(&d->v4.coll.what, &d->v4.coll.how, op);
        if (api >= 5)
            d->v5.coll.parent_group = op->parent_group;
        if (api >= 7)
            d->v7.coll.user_tag = op->user_tag;
    }
}

static void put_p2p_of(unsigned api, union nccl_descr *d, const struct muster_event_op *op)
{
    const char *func = text_of(MUSTER_NAMES_FUNC, op->func, op->func_text);
    const char *datatype = text_of(MUSTER_NAMES_DTYPE, op->dtype, op->dtype_text);
    if (api == 1) {
        d->v1.p2p = (struct nccl_p2p_v1){
            .name = op->comm_name,
            .comm_hash = op->comm_hash,
            .func = number_of(MUSTER_NAMES_FUNC, op->func, op->func_text),
            .datatype = number_of(MUSTER_NAMES_DTYPE, op->dtype, op->dtype_text),
            .count = op->count,
            .peer = op->root_or_peer,
        };
    } else if (api <= 3) {
        d->v2.p2p = (struct nccl_p2p_v2){
            .name = op->comm_name,
            .comm_hash = op->comm_hash,
            .func = func,
            .datatype = datatype,
            .count = op->count,
            .peer = op->root_or_peer,
        };
    } else {
        d->v4.p2p = (struct nccl_p2p_v4){
            .func = func,
            .datatype = datatype,
            .count = op->count,
            .peer = op->root_or_peer,
            .channels = op->channels,
        };
        if (api >= 5)
            d->v5.p2p.parent_group = op->parent_group;
        if (api >= 7)
            d->v7.p2p.user_tag = op->user_tag;
    }
}

static void put_api(unsigned api, union nccl_descr *d, const struct muster_event *event)
{
    const struct muster_event_op *op = &event->op;
    const char *func = text_of(MUSTER_NAMES_FUNC, op->func, op->func_text);
    const char *datatype = text_of(MUSTER_NAMES_DTYPE, op->dtype, op->dtype_text);
    if (event->kind == MUSTER_EVENT_COLL_API)
        d->v5.coll_api = (struct nccl_coll_api_v5){
            func, op->count, datatype, op->root_or_peer, op->stream, op->graph,
        };
    else
        d->v5.p2p_api = (struct nccl_p2p_api_v5){func, op->count, datatype, op->stream, op->graph};
    if (api >= 7 && event->kind == MUSTER_EVENT_COLL_API)
        d->v7.coll_api.user_tag = op->user_tag;
    else if (api >= 7)
        d->v7.p2p_api.user_tag = op->user_tag;
}

static void put_proxy(struct nccl_descr_v3 *d, const struct muster_event *event)
{
    if (event->kind == MUSTER_EVENT_PROXY_OP)
        d->proxy_op = (struct nccl_proxy_op){
            event->proxy_op.pid,   event->proxy_op.channel, event->proxy_op.peer,
            event->proxy_op.steps, event->proxy_op.chunk,   event->proxy_op.send,
        };
    else if (event->kind == MUSTER_EVENT_PROXY_STEP)
        d->proxy_step.step = event->proxy_step.step;
    else
        d->net_plugin = (struct nccl_net_plugin){event->net_plugin.id, event->net_plugin.data};
}

static void put_kernel(unsigned api, union nccl_descr *d, const struct muster_event *event)
{
    if (event->kind == MUSTER_EVENT_KERNEL_LAUNCH)
        d->v5.kernel_launch.stream = event->kernel_launch.stream;
    else if (event->kind == MUSTER_EVENT_KERNEL_PHASE)
        d->v7.kernel_phase = (struct nccl_kernel_phase){
            event->kernel_ch.channel,
            event->kernel_ch.phase,
            "",
            event->kernel_ch.ptimer,
        };
    else if (api >= 4)
        d->v4.kernel_ch =
            (struct nccl_kernel_ch_v4){event->kernel_ch.channel, event->kernel_ch.ptimer};
    else
        d->v3.kernel_ch.channel = event->kernel_ch.channel;
}

static void put_ce(unsigned api, union nccl_descr *d, const struct muster_event *event)
{
    const struct muster_event_op *op = &event->op;
    if (event->kind == MUSTER_EVENT_CE_COLL)
        d->v6.ce_coll = (struct nccl_ce_coll_v6){
            .seq = op->seq,
            .func = text_of(MUSTER_NAMES_FUNC, op->func, op->func_text),
            .count = op->count,
            .root = op->root_or_peer,
            .datatype = text_of(MUSTER_NAMES_DTYPE, op->dtype, op->dtype_text),
            .sync_strategy = "",
            .stream = op->stream,
        };
    else if (event->kind == MUSTER_EVENT_CE_SYNC)
        d->v6.ce_sync.nranks = event->ce.n;
    else
        d->v6.ce_batch = (struct nccl_ce_batch){.ops = event->ce.n, .bytes = event->ce.bytes};
    if (api >= 7 && event->kind == MUSTER_EVENT_CE_COLL)
        d->v7.ce_coll.user_tag = op->user_tag;
}

static void put_part(unsigned api, union nccl_descr *d, const struct muster_event *event)
{
    switch ((enum muster_event_kind)event->kind) {
    case MUSTER_EVENT_COLL:
        put_coll_of(api, d, &event->op);
        break;
    case MUSTER_EVENT_P2P:
        put_p2p_of(api, d, &event->op);
        break;
    case MUSTER_EVENT_PROXY_OP:
    case MUSTER_EVENT_PROXY_STEP:
    case MUSTER_EVENT_NET_PLUGIN:
        put_proxy(&d->v3, event);
        break;
    case MUSTER_EVENT_KERNEL_CH:
    case MUSTER_EVENT_KERNEL_LAUNCH:
    case MUSTER_EVENT_KERNEL_PHASE:
        put_kernel(api, d, event);
        break;
    case MUSTER_EVENT_GROUP_API:
        d->v5.group_api = (struct nccl_group_api){event->group_api.graph, event->group_api.depth};
        break;
    case MUSTER_EVENT_COLL_API:
    case MUSTER_EVENT_P2P_API:
        put_api(api, d, event);
        break;
    case MUSTER_EVENT_CE_COLL:
    case MUSTER_EVENT_CE_SYNC:
    case MUSTER_EVENT_CE_BATCH:
        put_ce(api, d, event);
        break;
    case MUSTER_EVENT_GROUP:
    case MUSTER_EVENT_PROXY_CTRL:
    case MUSTER_EVENT_KINDS:
        break;
    }
}

/* ---- Calls ---- */

static void no_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)fmt;
}

int muster_driver_init(const struct muster_driver *driver, void **context, int *mask,
                       const struct muster_event_init *init)
{
    if (driver->api <= 3)
        return ((const struct nccl_profiler_v1 *)driver->table)->init(context, mask);
    if (driver->api == 4)
        return ((const struct nccl_profiler_v4 *)driver->table)
            ->init(context, mask, init->name, init->comm_hash, init->nnodes, init->nranks,
                   init->rank, no_log);
    return ((const struct nccl_profiler_v5 *)driver->table)
        ->init(context, init->comm_hash, mask, init->name, init->nnodes, init->nranks, init->rank,
               no_log);
}

/* The tables differ in init only, so the rest is called through the oldest. */
int muster_driver_start(const struct muster_driver *driver, void *context, void **handle,
                        const struct muster_event *event)
{
    union nccl_descr d;
    if (event->kind >= muster_event_kinds(driver->api)) {
        *handle = NULL;
        return 0;
    }
    memset(&d, 0, sizeof(d));
    if (driver->api < 5)
        d.v1.type = (uint8_t)(1u << event->kind);
    else
        d.v5.type = UINT64_C(1) << event->kind;
    d.v1.parent = event->parent;
    d.v1.rank = event->rank;
    put_part(driver->api, &d, event);
    return ((const struct nccl_profiler_v1 *)driver->table)->start(context, handle, &d);
}

static bool passes_no_args(unsigned api, unsigned state)
{
    bool proxy_step = state >= 8 && state <= 12;
    return (api < 4 && proxy_step) || state == 23 || state == 24; /* GroupApi */
}

int muster_driver_state(const struct muster_driver *driver, void *handle, unsigned state,
                        const struct muster_event_args *args)
{
    union {
        union nccl_args_v1 v1;
        union nccl_args_v4 v4;
    } a;
    memset(&a, 0, sizeof(a));
    enum nccl_args_member member = args ? nccl_args_of_state(driver->api, state) : NCCL_ARGS_NONE;
    if (member == NCCL_ARGS_TRANS)
        a.v4.proxy_step.trans_bytes = args->trans_bytes;
    else if (member == NCCL_ARGS_APPENDED)
        a.v4.proxy_ctrl.appended = args->appended;
    else if (member == NCCL_ARGS_PTIMER)
        a.v4.kernel_ch.ptimer = args->ptimer;
    bool none = !args || passes_no_args(driver->api, state);
    return ((const struct nccl_profiler_v1 *)driver->table)
        ->record(handle, (int)state, none ? NULL : &a);
}

int muster_driver_stop(const struct muster_driver *driver, void *handle)
{
    return ((const struct nccl_profiler_v1 *)driver->table)->stop(handle);
}

int muster_driver_fini(const struct muster_driver *driver, void *context)
{
    return ((const struct nccl_profiler_v1 *)driver->table)->finalize(context);
}
