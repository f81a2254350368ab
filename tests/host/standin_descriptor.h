/*
 * NCCL's profiler descriptors, written byte by byte from the published offsets, as every interface
 * version lays them out. Nothing here knows the plugin's own declarations.
 */
#ifndef MUSTER_TESTS_HOST_STANDIN_DESCRIPTOR_H
#define MUSTER_TESTS_HOST_STANDIN_DESCRIPTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* NCCL's event bits. */
enum standin_type {
    STANDIN_GROUP = 0x1,
    STANDIN_COLL = 0x2,
    STANDIN_P2P = 0x4,
    STANDIN_PROXY_OP = 0x8,
    STANDIN_PROXY_STEP = 0x10,
    STANDIN_PROXY_CTRL = 0x20,
    STANDIN_KERNEL_CH = 0x40,
    STANDIN_NET_PLUGIN = 0x80,
    STANDIN_GROUP_API = 0x100,
    STANDIN_COLL_API = 0x200,
    STANDIN_P2P_API = 0x400,
    STANDIN_KERNEL_LAUNCH = 0x800,
    STANDIN_CE_COLL = 0x1000,
    STANDIN_CE_SYNC = 0x2000,
    STANDIN_CE_BATCH = 0x4000,
    STANDIN_KERNEL_PHASE = 0x8000,
};

/* All that a descriptor of any version can say. A version takes what it has a field for. */
struct standin_event {
    unsigned type;
    void *parent;
    void *parent_group;
    int rank;
    /* operations: NCCL's spellings; "#7" is the raw enumerator 7 in v1 and the text "#7" later */
    const char *func, *dtype, *algo, *proto;
    const char *comm_name;
    uint64_t comm_hash, seq, count, traffic;
    int root_or_peer;
    unsigned channels, warps;
    void *stream;
    uint64_t user_tag;
    bool graph, symmetric;
    /* proxy operations and steps */
    pid_t pid;
    unsigned channel;
    int steps, chunk, send, step;
    /* the rest */
    uint64_t ptimer;
    int64_t net_id;
    void *net_data;
    int depth;
    unsigned phase;
    int ce_n;
    uint64_t ce_bytes;
};

struct standin_args {
    uint64_t trans_bytes;
    int steps;
    int appended;
    uint64_t ptimer;
};

/* The descriptor in this thread's guarded memory: it ends where readable memory ends. Valid until
 * the thread's next call of either function, or standin_descriptor_spoil. */
void *standin_descriptor(unsigned api, const struct standin_event *event);
/* Of every event of that version; at most STANDIN_DESCRIPTOR_BYTES. */
enum { STANDIN_DESCRIPTOR_BYTES = 136 };
size_t standin_descriptor_bytes(unsigned api);
void *standin_state_args(unsigned api, unsigned state, const struct standin_args *args);
/* Whether anybody may write where this thread's descriptors lie; at first, yes. */
void standin_descriptor_writable(bool writable);
/* Overwrites what the two returned: nobody may keep pointers into it. */
void standin_descriptor_spoil(void);

#endif
