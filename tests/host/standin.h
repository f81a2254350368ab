/*
 * A stand-in for NCCL: it loads the real plugin and calls it as each NCCL generation does, on the
 * threads that NCCL uses, in NCCL's order, with NCCL's bad habits. Anything that NCCL does not
 * promise (initialised handles, kept pointers, memory behind a descriptor) is made hostile here.
 *
 * A plugin that breaks its side of the interface ends the process with a line and STANDIN_BROKEN.
 */
#ifndef MUSTER_TESTS_HOST_STANDIN_H
#define MUSTER_TESTS_HOST_STANDIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/fake_driver.h"
#include "standin_descriptor.h"
#include "standin_device.h"
#include "standin_ledger.h"
#include "standin_worker.h"

enum { STANDIN_BROKEN = 97, STANDIN_MAX_TASKS = 64 };

/* One range of NCCL releases with the habits that a profiler plugin can notice. */
struct standin_generation {
    const char *nccl;
    unsigned api;
    bool mask_at_group;    /* mask read once a group, into memory that all communicators share */
    bool stops_null;       /* stopEvent(NULL) when startEvent left NULL */
    bool coll_needs_group; /* no Coll or P2p events below a NULL Group handle */
    bool late_init;        /* init after bootstrap: one that failed is unloaded without an init */
    bool finalize_null;    /* finalize also for a communicator without context */
    bool op_states;        /* proxy operations record states 0 to 7 */
    bool step_args;        /* proxy steps' records carry arguments; NULL before */
    bool api_events;       /* GroupApi, CollApi, P2pApi, KernelLaunch */
    bool ce;               /* copy-engine collectives */
    bool quiet_broadcast;  /* Broadcast shows CollApi only */
    bool symmetric_coll;   /* symmetric kernels show Coll events, not CollApi alone */
    bool profiler_thread;  /* kernels are looked for by a thread of their own: standin_device.h */
};

extern const struct standin_generation standin_generations[];
extern const unsigned standin_generations_n;
const struct standin_generation *standin_generation(unsigned api);

/* libnccl in this process: one mask, one reference count, one plugin. */
struct standin {
    const struct standin_generation *gen;
    struct standin_ledger *ledger; /* may be NULL */
    const char *path;              /* of the plugin: MUSTER_TEST_PLUGIN_PATH, else the built one */
    bool full;                     /* the ledger expects GPU times (timing full) */
    bool read_only;                /* descriptors lie where nobody may write */
    bool exact_gpu; /* for communicators made from now on: standin_device.h; else every stamp is
                     * there and right */
    void *library;
    void *const *_Atomic table; /* name, init, start, stop, record, finalize; NULL: unloaded */
    const struct fake_driver *driver; /* NULL: no CUDA in this process */
    int refs;
    int mask;                           /* __atomic: plugins write it from any thread */
    _Atomic unsigned group_mask;        /* 2.23 to 2.25 */
    struct standin_worker *callbacks;   /* CUDA's callback thread */
    struct standin_comm *_Atomic comms; /* all ever made: proxies outlive destroyed ones */
};

static inline unsigned standin_mask(const struct standin *nccl)
{
    return (unsigned)__atomic_load_n(&nccl->mask, __ATOMIC_RELAXED);
}

void standin_open(struct standin *nccl, unsigned api, struct standin_ledger *ledger);
/* From now on kernels run on the made-up driver's streams: communicators made later have a stream
 * each, which is the job's to destroy. */
void standin_open_driver(struct standin *nccl);
/* As RAS (CONTROL PROFILER_MASK, 2.31 on) and NCCL itself (after init, 2.32) do. */
void standin_rewrite_mask(struct standin *nccl, unsigned mask);
/* Joins the threads. Leaves the plugin loaded if communicators are still open. */
void standin_close(struct standin *nccl);

/* --- single calls ---------------------------------------------------------------------------- */

void standin_load(struct standin *nccl);   /* refcount + 1, dlopen at the first */
void standin_unload(struct standin *nccl); /* refcount - 1, dlclose at 0 */
void standin_start(struct standin *nccl, void *context, void **handle,
                   const struct standin_event *event);
void standin_record(struct standin *nccl, void *handle, unsigned state,
                    const struct standin_args *args); /* args may be NULL */
void standin_stop(struct standin *nccl, void *handle);
void standin_finalize(struct standin *nccl, void *context);
__attribute__((noreturn, format(printf, 1, 2))) void standin_die(const char *fmt, ...);

/* --- communicators --------------------------------------------------------------------------- */

struct standin_gpu {
    _Atomic uint64_t clock_ns; /* %globaltimer: end of what was launched last */
    uint64_t ahead_ns;         /* of the host's clock; the two run at one rate */
};

/* NCCL's proxy progress thread; split communicators may share their parent's. */
struct standin_proxy {
    struct standin_worker *worker;
    int users;
    _Atomic unsigned posted;
};

struct standin_comm {
    struct standin *nccl;
    struct standin_gpu *gpu;
    bool own_gpu;
    struct standin_proxy *proxy;
    struct standin_device *device;   /* NULL without exact_gpu */
    struct standin_worker *launcher; /* of the newest group, if the communicator is non-blocking */
    bool blocking;
    void *context;
    uint64_t hash;
    const char *name; /* may be NULL */
    int rank, nranks, nnodes;
    uint64_t seq[5];
    uint64_t ce_seq;
    unsigned gpu_index; /* of the made-up driver, with a stream on it */
    void *stream;
    _Atomic bool drifted; /* the host's and the device's numbers of works have parted */
    bool destroyed;
    struct standin_comm *next;
};

struct standin_comm_config {
    uint64_t hash;
    const char *name;
    int rank, nranks, nnodes;
    struct standin_gpu *gpu;          /* NULL: a GPU of its own */
    unsigned gpu_index;               /* of the made-up driver */
    struct standin_comm *share_proxy; /* NULL: a proxy of its own */
    bool nonblocking;
};

struct standin_comm *standin_comm_init(struct standin *nccl,
                                       const struct standin_comm_config *config);
/* ncclCommDestroy: waits for the proxy if nobody else uses it, then finalizes and unloads. */
void standin_comm_destroy(struct standin_comm *comm);
/* A communicator whose bootstrap failed, as this generation cleans it up. */
void standin_comm_init_failing(struct standin *nccl);
/* Waits until launches and proxy work posted so far are done. */
void standin_comm_sync(struct standin_comm *comm);
/* Calls init once more for the same communicator and leaves the first context unfinalized. */
void standin_comm_init_again(struct standin_comm *comm);

/* --- operations ------------------------------------------------------------------------------ */

/* What a user calls, and how NCCL carries it out. Zero fields have the defaults named. */
struct standin_op {
    const char *func;
    uint64_t count;    /* as the user says it */
    const char *dtype; /* NULL: ncclFloat32; "Unknown" is uint8 */
    int root_or_peer;
    const char *algo;         /* NULL: RING */
    const char *proto;        /* NULL: SIMPLE */
    unsigned channels;        /* 0: 2 */
    unsigned silent_channels; /* of `channels`, so many never report (sends and receives) */
    uint64_t gpu_ns;          /* 0: 2,048 */
    int net_ops;              /* network proxy operations */
    int net_peer, net_steps, net_chunk;
    bool net_send;
    uint64_t net_wait_ns; /* host time spent in each of a step's waits */
    uint64_t user_tag;    /* of the configuration that the call was made with (v7) */
    bool symmetric;       /* symmetric-memory kernel */
    bool ce;              /* copy engines */
    bool aborted;         /* its proxy events start and never end */
    bool unrecorded;      /* not entered in the ledger */
};

struct standin_task {
    struct standin_comm *comm;
    struct standin_op op;
    unsigned mask; /* as NCCL read it */
    void *api;
    void *coll;
    uint64_t seq;
    uint64_t gpu_begin_ns, gpu_end_ns;
    uint64_t work[STANDIN_CHANNELS]; /* the host's numbers of its work, with exact_gpu */
    uint64_t called_ns;              /* host, after the call */
    bool replayed, drifted;
};

struct standin_group {
    struct standin *nccl;
    struct standin_task task[STANDIN_MAX_TASKS];
    unsigned tasks;
    void *api;
    bool captured;
};

/* One eager operation on this thread; its proxy part follows on the proxy thread. */
void standin_call(struct standin_comm *comm, const struct standin_op *op);
void standin_call_times(struct standin_comm *comm, const struct standin_op *op, unsigned n);
void standin_group_begin(struct standin_group *group, struct standin *nccl);
void standin_group_call(struct standin_group *group, struct standin_comm *comm,
                        const struct standin_op *op);
void standin_group_end(struct standin_group *group);

/* Captures one operation of each entry into a graph, and replays it. `group` is the graph. */
void standin_capture(struct standin_group *graph, struct standin_comm *comm,
                     const struct standin_op *ops, unsigned n);
void standin_replay(struct standin_group *graph);

/* For the parts of an operation (flow.c, proxy.c). */
bool standin_delivers(const struct standin *nccl, enum standin_type type, unsigned mask);
unsigned standin_op_channels(const struct standin_op *op);
bool standin_is_p2p(const struct standin_op *op);
bool standin_shown(const struct standin_task *task); /* by more than its call */
void standin_proxy_post(const struct standin_task *task);

#endif
