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

/* What one NCCL of this process and the two profilers agreed on, by interface version. */
struct agreed {
    _Atomic unsigned own_mask; /* what muster asked for last */
    int other_mask;            /* the other's to write, at any time (__atomic) */
    bool begun;                /* the first init is over; the rest under the lock */
    unsigned kernels;          /* of KERNELS, what the other asked for then */
    /* The other's table where it has this very interface, 2.28's or a newer one; else NULL. */
    const struct nccl_profiler_v1 *same;
    unsigned shown_for[MUSTER_EVENT_KINDS]; /* the table above, as this version has it */
    uint8_t group_at[MUSTER_EVENT_KINDS];   /* where the Group's handle stands; 0: nowhere */
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

static inline bool is_for_own(const struct agreed *agreed, int kind)
{
    return atomic_load_explicit(&agreed->own_mask, memory_order_relaxed) & agreed->shown_for[kind];
}

static inline unsigned other_mask(const struct agreed *agreed)
{
    return (unsigned)__atomic_load_n(&agreed->other_mask, __ATOMIC_RELAXED);
}

static inline bool is_for_other(const struct agreed *agreed, int kind)
{
    return other_mask(agreed) & agreed->shown_for[kind];
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
    unsigned wanted = other_mask(agreed) & ((1u << muster_event_kinds(child_api)) - 1);
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
    union nccl_descr *d;  /* a copy, for each profiler's names of what is above */
    void **group_at;      /* where it keeps its group; NULL: it does not */
    void *parent, *group; /* NCCL's names of what is above */
    bool elsewhere;       /* a ProxyOp for another process: its parent is one of that process */
};

/* The descriptor is its caller's, who may have it where nobody may write. */
static inline struct arrival look_at(unsigned api, int kind, const void *d, union nccl_descr *copy)
{
    struct arrival event = {.api = api, .kind = kind, .d = copy, .parent = nccl_descr_parent(d)};
    nccl_descr_copy(api, kind, d, copy);
    event.group_at = nccl_descr_group_in(api, kind, copy);
    event.group = event.group_at ? *event.group_at : NULL;
    event.elsewhere = kind == MUSTER_EVENT_PROXY_OP && nccl_descr_pid(d) != chain.pid;
    return event;
}

static inline void put_above(const struct arrival *event, void *parent, void *group)
{
    if (event->elsewhere)
        return;
    event->d->v1.parent = parent;
    if (event->group_at)
        *event->group_at = group;
}

static void *start_own(const struct arrival *event, nccl_start own_start, void *context,
                       void *parent, void *group)
{
    void *handle = NULL;
    put_above(event, parent, group);
    own_start(context, &handle, event->d);
    return handle;
}

/* By itself, so that the usual case needs no frame for the copy. */
static __attribute__((noinline)) void *start_older(const struct arrival *event,
                                                   const struct muster_chain_comm *comm,
                                                   void *parent, void *group)
{
    const struct muster_chain_table *table = &chain.library.newest[event->api];
    union nccl_descr copy;
    void *handle = NULL;
    if (!nccl_lower(event->api, table->api, event->d, &comm->who, &copy))
        return NULL;
    void **group_at = nccl_descr_group_in(table->api, event->kind, &copy);
    if (group_at)
        *group_at = group;
    if (!event->elsewhere) /* v4's parent of an operation is its group */
        copy.v1.parent = event->group_at && !group_at ? group : parent;
    table->v1->start(comm->other, &handle, &copy);
    return handle;
}

static inline void *start_other(const struct arrival *event, const struct muster_chain_comm *comm,
                                void *parent, void *group)
{
    const struct muster_chain_table *table = &chain.library.newest[event->api];
    if (table->api != event->api)
        return start_older(event, comm, parent, group);
    void *handle = NULL;
    put_above(event, parent, group);
    table->v1->start(comm->other, &handle, event->d);
    return handle;
}

/* Whose context the other profiler gets of an event that it asked for; NULL: it is called for
 * nothing. Up to 2.27 NCCL shows no operation of a group without a handle. The network works for
 * other processes, too (PXN), and brings their contexts, which nobody here could look into: then it
 * is one of this process. */
static inline struct muster_chain_comm *
comm_of_other(const struct arrival *event, struct muster_chain_comm *comm, const void *parent)
{
    bool operation = event->kind == MUSTER_EVENT_COLL || event->kind == MUSTER_EVENT_P2P;
    bool step = event->kind == MUSTER_EVENT_PROXY_STEP || event->kind == MUSTER_EVENT_NET_PLUGIN;
    if (event->api < 5 && operation && event->parent && !parent)
        return NULL;
    if (!comm && (event->elsewhere || (step && parent)))
        comm = muster_chain_comm_any(&chain.comms, event->api);
    return comm && atomic_load_explicit(&comm->alive, memory_order_acquire) ? comm : NULL;
}

/* What NCCL is to hold: a name for both, or muster's handle where the other has none. */
static __attribute__((noinline)) void *joined(const struct muster_chain_comm *comm, void *own,
                                              void *other)
{
    void *name = muster_chain_pairs_add(&chain.pairs, own, other, comm->context);
    if (!name) /* its real stop would not find it */
        chain.library.newest[comm->api].v1->stop(other);
    return name ? name : own;
}

/* The other's part of an event that it asked for; what NCCL is to hold. */
static inline void *start_other_joined(const struct arrival *event, struct muster_chain_comm *comm,
                                       void *own, void *parent, void *group)
{
    comm = comm_of_other(event, comm, parent);
    void *other = comm ? start_other(event, comm, parent, group) : NULL;
    return other ? joined(comm, own, other) : own;
}

/* Both parts, where something above has a handle of the other's. */
static __attribute__((noinline)) void start_below_pair(unsigned api, int kind, void *context,
                                                       void **handle, const void *d,
                                                       nccl_start own_start)
{
    union nccl_descr copy;
    struct arrival event = look_at(api, kind, d, &copy);
    struct sides parent = sides_of(event.parent), group = sides_of(event.group);
    struct muster_chain_comm *comm = muster_chain_comm_find(&chain.comms, context);
    const struct agreed *agreed = &chain.agreed[api];
    void *own = NULL;
    if (is_for_own(agreed, kind))
        own = start_own(&event, own_start, comm ? comm->own : context, parent.own, group.own);
    *handle = is_for_other(agreed, kind)
                  ? start_other_joined(&event, comm, own, parent.other, group.other)
                  : own;
}

/* In few words for what is most: the other has NCCL's own interface, and nothing above is its own.
 */
static inline void start_as_is(const struct agreed *agreed, int kind,
                               const struct muster_chain_comm *comm, void **handle, const void *d)
{
    void *own = *handle;
    *handle = NULL;
    if (!agreed->group_at[kind] && !nccl_descr_parent(d)) {
        agreed->same->start(comm->other, handle, d);
    } else {
        union nccl_descr copy;
        nccl_descr_copy((unsigned)(agreed - chain.agreed), kind, d, &copy);
        copy.v1.parent = NULL;
        if (agreed->group_at[kind])
            *(void **)((char *)&copy + agreed->group_at[kind]) = NULL;
        agreed->same->start(comm->other, handle, &copy);
    }
    *handle = *handle ? joined(comm, own, *handle) : own;
}

static __attribute__((noinline)) void *start_other_below_none(unsigned api, int kind,
                                                              struct muster_chain_comm *comm,
                                                              void *own, const void *d)
{
    union nccl_descr copy;
    struct arrival event = look_at(api, kind, d, &copy);
    return start_other_joined(&event, comm, own, NULL, NULL);
}

/* The other asked for it, and nothing above is its own. */
static __attribute__((noinline)) void start_both(const struct agreed *agreed, int kind,
                                                 void *context, void **handle, const void *d,
                                                 nccl_start own_start)
{
    struct muster_chain_comm *comm = muster_chain_comm_find(&chain.comms, context);
    if (is_for_own(agreed, kind))
        own_start(comm ? comm->own : context, handle, d);
    if (agreed->same && kind != MUSTER_EVENT_PROXY_OP && comm &&
        atomic_load_explicit(&comm->alive, memory_order_acquire))
        start_as_is(agreed, kind, comm, handle, d);
    else
        *handle = start_other_below_none((unsigned)(agreed - chain.agreed), kind, comm, *handle, d);
}

/* What keeps more than its arguments is called last, so that this needs no frame. */
static void chain_start(unsigned api, int kind, void *context, void **handle, const void *d,
                        nccl_start own_start)
{
    *handle = NULL;
    if (kind < 0)
        return;
    const struct agreed *agreed = &chain.agreed[api];
    const uint8_t group_at = agreed->group_at[kind];
    if (muster_chain_pairs_is_name(&chain.pairs, nccl_descr_parent(d)) ||
        (group_at &&
         muster_chain_pairs_is_name(&chain.pairs, *(void *const *)((const char *)d + group_at)))) {
        start_below_pair(api, kind, context, handle, d, own_start);
    } else if (is_for_other(agreed, kind)) {
        start_both(agreed, kind, context, handle, d, own_start);
    } else if (is_for_own(agreed, kind)) {
        struct muster_chain_comm *comm = muster_chain_comm_find(&chain.comms, context);
        own_start(comm ? comm->own : context, handle, d);
    }
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

/* What the tables of a version's calls are read from. */
static void prepare(unsigned api)
{
    struct agreed *agreed = &chain.agreed[api];
    const struct muster_chain_table *table = &chain.library.newest[api];
    union nccl_descr d;
    if (api >= 5 && table->api == api)
        agreed->same = table->v1;
    for (int kind = 0; kind < MUSTER_EVENT_KINDS; kind++) {
        void **group_at = nccl_descr_group_in(api, kind, &d);
        agreed->group_at[kind] = group_at ? (uint8_t)((char *)group_at - (char *)&d) : 0;
        agreed->shown_for[kind] = shown_for[kind];
    }
    if (api <= 2) /* the condition of 2.23 to 2.25 takes Coll's bit for P2p's, too */
        agreed->shown_for[MUSTER_EVENT_P2P] |= BIT(COLL);
}

const struct nccl_profiler_beside *muster_chain_open(const char *name, struct muster_err *err)
{
    static const struct nccl_profiler_beside calls = {chain_init, chain_start, chain_stop,
                                                      chain_record, chain_finalize};
    if (muster_chain_load(&chain.library, name, err))
        return NULL;
    uint32_t nonce = fresh_nonce();
    if (muster_chain_pairs_make(&chain.pairs, nonce)) {
        muster_fail_memory(err, "MUSTER_CHAIN");
        return NULL;
    }
    chain.comms.tag = nonce << 4 | MUSTER_CHAIN_COMM_KIND;
    chain.pid = getpid();
    for (unsigned api = 1; api <= NCCL_NEWEST_API; api++)
        prepare(api);
    const struct nccl_profiler_v1 *newest = chain.library.newest[NCCL_NEWEST_API].v1;
    chain.name = newest->name ? newest->name : name;
    return &calls;
}
