/*
 * What NCCL calls a profiler plugin with, the same for every interface version. plugin/nccl fills
 * it from a version's descriptor (and, for replays, the other way round); nothing else knows the
 * descriptors.
 */
#ifndef MUSTER_BASE_EVENT_H
#define MUSTER_BASE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/nccl_types.h"

/* Bit positions of NCCL's event types (nccl_profiler.h, frozen since v1). */
enum muster_event_kind {
    MUSTER_EVENT_GROUP,
    MUSTER_EVENT_COLL,
    MUSTER_EVENT_P2P,
    MUSTER_EVENT_PROXY_OP,
    MUSTER_EVENT_PROXY_STEP,
    MUSTER_EVENT_PROXY_CTRL,
    MUSTER_EVENT_KERNEL_CH,
    MUSTER_EVENT_NET_PLUGIN,
    MUSTER_EVENT_GROUP_API,
    MUSTER_EVENT_COLL_API,
    MUSTER_EVENT_P2P_API,
    MUSTER_EVENT_KERNEL_LAUNCH,
    MUSTER_EVENT_CE_COLL,
    MUSTER_EVENT_CE_SYNC,
    MUSTER_EVENT_CE_BATCH,
    MUSTER_EVENT_KERNEL_PHASE,
    MUSTER_EVENT_KINDS
};

/* How many of them, from bit 0 up, interface version `api` (1 to 7) has. */
static inline unsigned muster_event_kinds(unsigned api)
{
    return api >= 7   ? MUSTER_EVENT_KERNEL_PHASE + 1
           : api == 6 ? MUSTER_EVENT_CE_BATCH + 1
           : api == 5 ? MUSTER_EVENT_KERNEL_LAUNCH + 1
           : api >= 3 ? MUSTER_EVENT_NET_PLUGIN + 1
                      : MUSTER_EVENT_PROXY_CTRL + 1;
}

/* NCCL's event states (frozen since v1; the gaps are states of old versions that carry nothing
 * muster needs). */
enum muster_event_state {
    MUSTER_STATE_SEND_GPU_WAIT = 8,
    MUSTER_STATE_SEND_WAIT = 9,
    MUSTER_STATE_RECV_WAIT = 10,
    MUSTER_STATE_RECV_FLUSH_WAIT = 11,
    MUSTER_STATE_RECV_GPU_WAIT = 12,
    MUSTER_STATE_PROXY_OP_IN_PROGRESS = 19,
    MUSTER_STATE_SEND_PEER_WAIT = 20,
    MUSTER_STATE_NET_PLUGIN_UPDATE = 21,
    MUSTER_STATE_KERNEL_CH_STOP = 22,
    MUSTER_STATE_GROUP_START_STOP = 23,
    MUSTER_STATE_GROUP_END_START = 24,
    MUSTER_STATE_KERNEL_PHASE_STOP = 31,
};

/* A collective, a send or a receive: COLL, P2P, COLL_API, P2P_API, CE_COLL. */
struct muster_event_op {
    uint64_t comm_hash;     /* v1 to v3, where init has none; else 0 */
    const char *comm_name;  /* v1 to v3; the caller's memory, may be NULL */
    uint64_t count;         /* as NCCL passes it: of COLL's AllGather and Broadcast in bytes */
    uint64_t seq;           /* COLL, CE_COLL: NCCL's counter per function, not an order */
    uint64_t traffic_bytes; /* v1, v2; else 0 */
    const char *func_text;  /* NCCL's spellings (v2 on), for traces only; may be NULL */
    const char *dtype_text;
    const char *algo_text;
    const char *proto_text;
    void *stream;
    uint64_t user_tag; /* v7: what the caller of NCCL put on it; 0: nothing */
    int32_t root_or_peer;
    uint8_t func;  /* enum muster_func ... */
    uint8_t dtype; /* NCCL's "Unknown" is uint8 */
    uint8_t algo;
    uint8_t proto;
    uint8_t channels;
    uint8_t warps;
    bool graph; /* *_API only: captured into a CUDA graph */
    void *parent_group;
};

struct muster_event {
    uint8_t kind; /* enum muster_event_kind */
    int32_t rank; /* COLL, P2P, PROXY_OP, PROXY_STEP, NET_PLUGIN, CE_*; NCCL sends 0 elsewhere */
    void *parent; /* a handle of ours, NULL, or another process's: check before use */
    union {
        struct muster_event_op op;
        struct {
            pid_t pid;
            uint8_t channel;
            int32_t peer, steps, chunk, send;
        } proxy_op;
        struct {
            int32_t step;
        } proxy_step;
        struct {
            uint8_t channel;
            uint8_t phase;   /* KERNEL_PHASE only */
            uint64_t ptimer; /* 0 before v4 */
        } kernel_ch;
        struct {
            bool graph;
            int32_t depth;
        } group_api;
        struct {
            void *stream;
        } kernel_launch;
        struct {
            int64_t id;
            void *data;
        } net_plugin;
        struct { /* CE_SYNC, CE_BATCH */
            int32_t n;
            uint64_t bytes;
        } ce;
    };
};

/* What a state carries; NCCL may pass none (args_given false). */
struct muster_event_args {
    bool given;
    uint64_t ptimer;      /* KERNEL_CH_STOP */
    uint64_t trans_bytes; /* the proxy step states */
    int32_t appended;     /* proxy control */
};

/* A communicator as init has it. v1 to v3 have nothing: hash 0, nranks 0, rank -1. */
struct muster_event_init {
    uint64_t comm_hash;
    const char *name; /* may be NULL */
    int32_t nnodes, nranks, rank;
    uint32_t api; /* interface version, 1 to 7 */
};

#endif
