#include "chain/chain.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "chain/chain_comm.h"
#include "chain/chain_load.h"
#include "chain/chain_pairs.h"

#define BIT(kind) (1u << MUSTER_EVENT_##kind)
#define STEPS     (BIT(PROXY_STEP) | BIT(NET_PLUGIN))
#define PROXY     (BIT(PROXY_OP) | STEPS)
#define KERNELS   (BIT(KERNEL_CH) | BIT(KERNEL_PHASE))
#define PARTS     (PROXY | KERNELS)
#define OPS       (BIT(COLL) | BIT(P2P) | PARTS)
#define CALLS     (BIT(GROUP_API) | BIT(COLL_API) | BIT(P2P_API) | BIT(KERNEL_LAUNCH))

/* Which bits of a mask make NCCL show a kind: its own, and those below it (profiler.cc of NCCL
 * 2.23 to 2.30). */
static const unsigned shown_for[MUSTER_EVENT_KINDS] = {
    [MUSTER_EVENT_GROUP] = BIT(GROUP) | OPS,
    [MUSTER_EVENT_COLL] = BIT(COLL) | PARTS,
    [MUSTER_EVENT_P2P] = BIT(P2P) | PARTS,
    [MUSTER_EVENT_PROXY_OP] = PROXY,
    [MUSTER_EVENT_PROXY_STEP] = STEPS,
    [MUSTER_EVENT_PROXY_CTRL] = BIT(PROXY_CTRL),
    [MUSTER_EVENT_KERNEL_CH] = BIT(KERNEL_CH),
    [MUSTER_EVENT_NET_PLUGIN] = BIT(NET_PLUGIN),
    [MUSTER_EVENT_GROUP_API] = CALLS | BIT(GROUP) | OPS,
    [MUSTER_EVENT_COLL_API] = BIT(COLL_API) | BIT(COLL) | PARTS,
    [MUSTER_EVENT_P2P_API] = BIT(P2P_API) | BIT(P2P) | PARTS,
    [MUSTER_EVENT_KERNEL_LAUNCH] = BIT(KERNEL_LAUNCH),
    [MUSTER_EVENT_CE_COLL] = BIT(CE_COLL),
    [MUSTER_EVENT_CE_SYNC] = BIT(CE_SYNC),
    [MUSTER_EVENT_CE_BATCH] = BIT(CE_BATCH),
    [MUSTER_EVENT_KERNEL_PHASE] = BIT(KERNEL_PHASE),
};

static bool is_shown(unsigned api, int kind, unsigned mask)
{
    /* The condition of 2.23 to 2.25 takes Coll's bit for P2p's. */
    bool by_coll = api <= 2 && kind == MUSTER_EVENT_P2P && (mask & BIT(COLL));
    return (mask & shown_for[kind]) || by_coll;
}

/* What one NCCL of this process and the two profilers agreed on, by interface version. */
struct agreed {
    _Atomic unsigned own_mask; /* what muster asked for last */
    int other_mask;            /* the other's to write, at any time (__atomic) */
    bool begun;                /* the first init is over; the rest under the lock */
    unsigned kernels;          /* of KERNELS, what the other asked for then */
};

/* The process's one chain: NCCL's calls bring nothing else to find it by. */
static struct {
    const char *name; /* the other's own */
    pid_t pid;
    struct muster_chain_library library;
    struct muster_chain_pairs pairs;
    struct muster_chain_comms comms;
    struct agreed agreed[NCCL_NEWEST_API + 1];
    pthread_mutex_t lock;
    bool logged_failure, logged_kernels;
} chain = {.comms.lock = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned other_mask(unsigned api)
{
    return (unsigned)__atomic_load_n(&chain.agreed[api].other_mask, __ATOMIC_RELAXED);
}

/* ---- Communicators ---- */

static int call_init(const struct muster_chain_table *table, void **context, int *mask,
                     const struct muster_event_init *init, nccl_logger logger)
{
    if (table->api <= 3)
        return table->v1->init(context, mask);
    if (table->api == 4)
        return table->v4->init(context, mask, init->name, init->comm_hash, init->nnodes,
                               init->nranks, init->rank, logger);
    return table->v5->init(context, init->comm_hash, mask, init->name, init->nnodes, init->nranks,
                           init->rank, logger);
}

static void log_failure_locked(const char *what, int code)
{
    if (!chain.logged_failure)
        muster_log(MUSTER_LOG_WARN, "MUSTER_CHAIN: %s %s (%d): muster goes on without it",
                   chain.name, what, code);
    chain.logged_failure = true;
}

/* The kernels that the other asks for are not muster's to bound: it times by events. */
static void log_kernels_locked(unsigned api)
{
    const char *gathers = getenv("NCCL_ALLGATHERV_ENABLE");
    bool hangs = api >= 6 && !(gathers && strcmp(gathers, "0") == 0);
    if (!chain.logged_kernels)
        muster_log(MUSTER_LOG_WARN,
                   "MUSTER_CHAIN: %s has NCCL stamp its kernels: that costs 1 to 3 us an operation "
                   "and 34 MiB of /dev/shm a rank, and is not muster's cost%s",
                   chain.name,
                   api < 5 ? "; NCCL before 2.28.3 may die of it"
                   : hangs ? "; groups of broadcasts may hang then, unless NCCL_ALLGATHERV_ENABLE=0"
                           : "");
    chain.logged_kernels = true;
}

/* What NCCL is asked for: what muster wants, and of the other's wishes all but kernels that it did
 * not want at once. The mask is read at every append: stamps that come and go within a pair of a
 * send and a receive hang NCCL. */
static unsigned unite_locked(unsigned api, unsigned child_api, unsigned own)
{
    struct agreed *agreed = &chain.agreed[api];
    unsigned wanted = other_mask(api) & ((1u << muster_event_kinds(child_api)) - 1);
    if (!agreed->begun)
        agreed->kernels = wanted & KERNELS;
    agreed->begun = true;
    wanted = (wanted & ~KERNELS) | agreed->kernels;
    if (agreed->kernels & ~own)
        log_kernels_locked(api);
    return own | wanted;
}

static void chain_init(void **context, int *mask, const struct muster_event_init *init,
                       nccl_logger logger, const void *caller)
{
    const struct muster_chain_table *table = &chain.library.newest[init->api];
    struct agreed *agreed = &chain.agreed[init->api];
    void *own = NULL, *other = NULL;
    int own_mask = 0;
    muster_plugin_init(&own, &own_mask, init, caller);
    unsigned wanted = (unsigned)own_mask;
    atomic_store_explicit(&agreed->own_mask, wanted, memory_order_relaxed);
    int failed =
        table->api ? call_init(table, &other, &agreed->other_mask, init, logger) : NCCL_SUCCESS;
    uint64_t joint = 0;
    if (table->api && !failed)
        joint =
            muster_chain_comm_add(&chain.comms, init->api, own, other, init->name, init->comm_hash);
    if (table->api && !failed && !joint)
        table->v1->finalize(other);
    pthread_mutex_lock(&chain.lock);
    if (!table->api)
        log_failure_locked("has no interface as old as this NCCL's", (int)init->api);
    else if (failed)
        log_failure_locked("failed in init", failed);
    else if (!joint)
        log_failure_locked("is told of no more communicators at once than", MUSTER_CHAIN_COMMS);
    else
        wanted = unite_locked(init->api, table->api, wanted);
    pthread_mutex_unlock(&chain.lock);
    *context = joint ? (void *)(uintptr_t)joint : own;
    /* As muster_plugin_init does: all communicators share it. */
    __atomic_store_n(mask, (int)wanted, __ATOMIC_RELAXED);
}

static void chain_finalize(void *context)
{
    struct muster_chain_comm *comm = muster_chain_comm_find(&chain.comms, context);
    if (!comm) {
        muster_plugin_fini(context);
        return;
    }
    void *own = comm->own, *other = comm->other;
    unsigned api = comm->api;
    /* NCCL's threads may still come with the communicator's events: they find muster's handles. */
    bool first = atomic_exchange_explicit(&comm->alive, false, memory_order_acq_rel);
    if (first) {
        muster_chain_pairs_forget(&chain.pairs, (uint64_t)(uintptr_t)context);
        chain.library.newest[api].v1->finalize(other);
    }
    muster_plugin_fini(own);
}

/* ---- Events ---- */

struct sides {
    void *own, *other;
};

/* An earlier event as each of the two knows it. What is no name of a pair is a handle of muster's
 * alone, or another process's. */
static struct sides sides_of(void *handle)
{
    struct muster_chain_found found;
    if (!muster_chain_pairs_is_name(&chain.pairs, handle))
        return (struct sides){handle, NULL};
    if (!muster_chain_pairs_find(&chain.pairs, handle, &found))
        return (struct sides){NULL, NULL};
    return (struct sides){found.own, found.other};
}

/* An event as NCCL brings it. */
struct arrival {
    unsigned api;
    int kind;
    const void *d;
    void *const *group_at; /* where it says its group; NULL: it does not */
    struct sides parent, group;
    bool elsewhere; /* a ProxyOp for another process: its parent is one of that process */
};

static struct arrival look_at(unsigned api, int kind, const void *d)
{
    struct arrival event = {.api = api, .kind = kind, .d = d};
    event.parent = sides_of(nccl_descr_parent(d));
    event.group_at = nccl_descr_group(api, kind, d);
    if (event.group_at)
        event.group = sides_of(*event.group_at);
    event.elsewhere = kind == MUSTER_EVENT_PROXY_OP && nccl_descr_pid(d) != chain.pid;
    return event;
}

static void *start_own(const struct arrival *event, void *context)
{
    const void *d = event->d;
    void *handle = NULL;
    union nccl_descr copy;
    bool same = event->parent.own == nccl_descr_parent(d) &&
                (!event->group_at || event->group.own == *event->group_at);
    if (!same && !event->elsewhere) {
        nccl_lower(event->api, event->api, d, NULL, &copy);
        copy.v1.parent = event->parent.own;
        if (event->group_at)
            *nccl_descr_group_in(event->api, event->kind, &copy) = event->group.own;
        d = &copy;
    }
    nccl_profiler_own_start(event->api, context, &handle, d);
    return handle;
}

static void *start_other(const struct arrival *event, const struct muster_chain_comm *comm)
{
    const struct muster_chain_table *table = &chain.library.newest[event->api];
    union nccl_descr copy;
    void *handle = NULL;
    if (!nccl_lower(event->api, table->api, event->d, &comm->who, &copy))
        return NULL;
    void **group_at = nccl_descr_group_in(table->api, event->kind, &copy);
    if (group_at)
        *group_at = event->group.other;
    if (!event->elsewhere) /* v4's parent of an operation is its group */
        copy.v1.parent = event->group_at && !group_at ? event->group.other : event->parent.other;
    table->v1->start(comm->other, &handle, &copy);
    return handle;
}

/* Up to 2.27 NCCL shows no operation of a group without a handle. */
static bool hidden(const struct arrival *event)
{
    return event->api < 5 &&
           (event->kind == MUSTER_EVENT_COLL || event->kind == MUSTER_EVENT_P2P) &&
           nccl_descr_parent(event->d) && !event->parent.other;
}

/* Whose context the other profiler gets; NULL: it is told nothing. The network works for other
 * processes, too (PXN), and brings their contexts, which nobody here could look into: then it is
 * one of this process. */
static struct muster_chain_comm *comm_of_other(const struct arrival *event,
                                               struct muster_chain_comm *comm)
{
    bool network =
        event->elsewhere ||
        ((event->kind == MUSTER_EVENT_PROXY_STEP || event->kind == MUSTER_EVENT_NET_PLUGIN) &&
         event->parent.other);
    if (!is_shown(event->api, event->kind, other_mask(event->api)) || hidden(event))
        return NULL;
    if (!comm && network)
        comm = muster_chain_comm_any(&chain.comms, event->api);
    return comm && atomic_load_explicit(&comm->alive, memory_order_acquire) ? comm : NULL;
}

/* By itself, so that the rest of chain_start needs no frame for its copies. */
static __attribute__((noinline)) void *start_either(unsigned api, int kind, void *context,
                                                    const void *d)
{
    void *own = NULL;
    struct arrival event = look_at(api, kind, d);
    struct muster_chain_comm *comm = muster_chain_comm_find(&chain.comms, context);
    unsigned mask = atomic_load_explicit(&chain.agreed[api].own_mask, memory_order_relaxed);
    if (is_shown(api, kind, mask))
        own = start_own(&event, comm ? comm->own : context);
    comm = comm_of_other(&event, comm);
    void *other = comm ? start_other(&event, comm) : NULL;
    if (!other)
        return own;
    void *name = muster_chain_pairs_add(&chain.pairs, own, other, comm->context);
    if (!name) /* its real stop would not find it */
        chain.library.newest[api].v1->stop(other);
    return name ? name : own;
}

/* Whether nothing of the event is the other profiler's: neither is it told, nor of what is above.
 */
static bool is_only_ours(unsigned api, int kind, const void *d)
{
    void *const *group_at = nccl_descr_group(api, kind, d);
    return !is_shown(api, kind, other_mask(api)) &&
           !muster_chain_pairs_is_name(&chain.pairs, nccl_descr_parent(d)) &&
           !(group_at && muster_chain_pairs_is_name(&chain.pairs, *group_at));
}

static void chain_start(unsigned api, int kind, void *context, void **handle, const void *d)
{
    *handle = NULL;
    if (kind < 0)
        return;
    struct muster_chain_comm *comm = muster_chain_comm_find(&chain.comms, context);
    unsigned mask = atomic_load_explicit(&chain.agreed[api].own_mask, memory_order_relaxed);
    if (!is_only_ours(api, kind, d))
        *handle = start_either(api, kind, context, d);
    else if (is_shown(api, kind, mask))
        nccl_profiler_own_start(api, comm ? comm->own : context, handle, d);
}

static void chain_stop(void *handle)
{
    struct muster_chain_found found;
    if (!muster_chain_pairs_is_name(&chain.pairs, handle)) {
        muster_plugin_stop(handle);
        return;
    }
    if (!muster_chain_pairs_stop(&chain.pairs, handle, &found))
        return;
    muster_plugin_stop(found.own);
    const struct muster_chain_comm *comm =
        muster_chain_comm_find(&chain.comms, (const void *)(uintptr_t)found.comm);
    if (found.other && found.open && comm)
        chain.library.newest[comm->api].v1->stop(found.other);
}

static void chain_record(unsigned api, void *handle, int state, const void *args)
{
    struct muster_chain_found found;
    bool with_args;
    if (!muster_chain_pairs_is_name(&chain.pairs, handle)) {
        nccl_profiler_own_record(api, handle, state, args);
        return;
    }
    if (!muster_chain_pairs_find(&chain.pairs, handle, &found))
        return;
    nccl_profiler_own_record(api, found.own, state, args);
    const struct muster_chain_table *table = &chain.library.newest[api];
    if (found.other && found.open && nccl_lower_state(api, table->api, (unsigned)state, &with_args))
        table->v1->record(found.other, state, with_args ? args : NULL);
}

/* ---- Set-up ---- */

static uint32_t fresh_nonce(void)
{
    uint64_t seed = (muster_now_ns() ^ (uint64_t)getpid() << 40) * 0xff51afd7ed558ccdull;
    return (uint32_t)(seed >> 45) | 1u << 19; /* no address has the top bit */
}

const struct nccl_profiler_beside *muster_chain_open(const char *name, struct muster_err *err)
{
    static const struct nccl_profiler_beside calls = {chain_init, chain_start, chain_stop,
                                                      chain_record, chain_finalize};
    if (muster_chain_load(&chain.library, name, err))
        return NULL;
    if (muster_chain_pairs_make(&chain.pairs, fresh_nonce())) {
        muster_fail_memory(err, "MUSTER_CHAIN");
        return NULL;
    }
    chain.comms.nonce = chain.pairs.nonce;
    chain.pid = getpid();
    const struct nccl_profiler_v1 *newest = chain.library.newest[NCCL_NEWEST_API].v1;
    chain.name = newest->name ? newest->name : name;
    return &calls;
}
