/*
 * What the recorder keeps per communicator beside the segment: at most 256 KiB, all allocated at
 * creation. Never freed, because NCCL calls with contexts of finalized communicators: recycled
 * under a new generation.
 */
#ifndef MUSTER_RECORD_COMM_H
#define MUSTER_RECORD_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/event.h"
#include "record/launches.h"
#include "record/sampling.h"
#include "segment/layout.h"

enum {
    MUSTER_COMMS = 2048, /* alive at once; more are not recorded */
    MUSTER_PEERS = 8192, /* peers whose sends and receives are numbered */
};
#define MUSTER_NO_NUMBER UINT64_MAX

/* Of NCCL's stamps of one channel. The communicator's proxy thread's; atomic because NCCL does not
 * promise that it is one thread for ever. */
struct muster_channel {
    _Atomic uint64_t last_stop;
    _Atomic bool distrusted; /* a stamp was another operation's: until the communicator ends */
};

/* What is launched together: from a group's first call on. The calling thread's. */
struct muster_group {
    bool timed;     /* the window of one of its operations is */
    bool sends;     /* it holds sends or receives */
    uint32_t works; /* of the communicator before it: muster_comm.works */
    uint64_t bytes; /* of the largest operation */
};

struct muster_comm {
    _Atomic uint32_t generation; /* of the handles that are valid */
    _Atomic bool alive;
    _Atomic uint64_t finalized_ns;
    _Atomic bool uses_proxy; /* a network proxy operation was seen, or there are several nodes */
    uint32_t index;          /* in the recorder's table */
    uint32_t uid;            /* MUSTER_SEG_OTHER_UID if the segment had no entry left */
    uint32_t entry;          /* index in muster_segment.comm */
    uint64_t id;
    int32_t rank;
    uint32_t nranks;
    uint32_t api;
    struct muster_seg_comm *calls; /* the entry, or `own` where that is `other`'s */
    struct muster_seg_comm own;
    _Alignas(64) _Atomic uint32_t cursor; /* where to look for a free slot */
    _Atomic uint32_t groups;              /* group calls made */
    _Atomic uint64_t graph_calls;         /* number of the next operation replayed from a graph */
    _Atomic uint64_t ended_ns;            /* call of the newest operation whose kernels ended */
    struct muster_gpu_context *gpu;       /* NULL: nothing is known of launches */
    /* The launching thread's. */
    struct muster_sampling sampling;
    bool window_timed, send_window_timed;
    uint64_t send_groups; /* group calls with sends or receives: their operation numbers */
    struct muster_group group;
    void *launch_stream;          /* between a launch's start and stop */
    struct muster_launch *launch; /* the same; NULL: not timed */
    uint64_t launch_price_ns;     /* the same: by record/launch_price.h, timed or not */
    /* Relaxed, both: NCCL orders a communicator's calls and launches, but shows replays, and what
     * CUDA's callback thread launches, on other threads. */
    _Atomic uintptr_t launch_thread; /* of the newest launch */
    _Atomic bool launched;           /* the group's; the next call begins another */
    uint32_t launch_ticket;          /* of the newest launch; 0: none */
    bool launch_timed;
    uint64_t probed_ns;
    uint64_t launches_seen; /* the completion thread's */
    _Atomic uint32_t works; /* that the GPU has run so far, at most; with NCCL's stamps only */
    _Atomic bool drifts;    /* NCCL counts works otherwise than the GPU: kernel_stamps.h */
    struct muster_tie tie;  /* of NCCL's stamps */
    uint32_t peers;
    _Atomic uint32_t *sends, *receives; /* [peers]: numbers of the next */
    struct muster_channel channel[MUSTER_CHANNELS];
};
_Static_assert(sizeof(struct muster_comm) + 2 * MUSTER_PEERS * sizeof(uint32_t) <= 256 << 10,
               "memory per communicator");

/* Fills a fresh or finalized entry for a new communicator. False: no memory. The caller holds the
 * recorder's lock. Counters of the previous life are cleared. */
bool muster_comm_renew(struct muster_comm *comm, const struct muster_event_init *init);

/* Advances the order of collective calls: count, rolling hash, last calls. Returns the operation
 * number. The calling thread's; before any slot is reserved. */
uint64_t muster_comm_called(struct muster_comm *comm, const struct muster_event_op *op);

/* Ordinal of a send to or receive from `peer`; MUSTER_NO_NUMBER beyond MUSTER_PEERS. */
uint64_t muster_comm_p2p_number(struct muster_comm *comm, unsigned func, int32_t peer);

#endif
