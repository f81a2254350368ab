/*
 * The profiler interfaces v1 to v7 as NCCL lays them out on LP64, one struct per thing that an
 * event can be about. A later version's struct begins with the earlier one's wherever the layout
 * allows, which is what lets the versions share their translation. profiler_abi.c asserts every
 * offset. NCCL's `bool` is a uint8_t here, because a foreign byte may be neither 0 nor 1; its
 * unused members (buffers, tags) are declared for their place only.
 */
#ifndef MUSTER_NCCL_PROFILER_ABI_H
#define MUSTER_NCCL_PROFILER_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NCCL_SUCCESS = 0, NCCL_NEWEST_API = 7 };

/* ---- Collectives ---- */

struct nccl_coll_v1 {
    const char *name;
    uint64_t comm_hash;
    uint64_t seq;
    uint8_t func; /* ncclFunc_t */
    const void *send;
    void *recv;
    size_t count;
    int32_t root;
    uint8_t datatype; /* ncclDataType_t */
    uint32_t op;
    size_t traffic_bytes;
    uint8_t max_channels;
    uint8_t warps;
    uint8_t algo;
    uint8_t proto;
    int32_t collnet;
    int32_t nvls;
};

/* What is asked for, since v2. */
struct nccl_coll_what {
    uint64_t seq;
    const char *func;
    const void *send;
    void *recv;
    size_t count;
    int32_t root;
    const char *datatype;
};

/* How it is done, since v2. */
struct nccl_coll_how {
    uint8_t channels; /* an upper bound before v4 */
    uint8_t warps;
    const char *algo;
    const char *proto;
};

struct nccl_coll_v2 {
    const char *name;
    uint64_t comm_hash;
    struct nccl_coll_what what;
    size_t traffic_bytes;
    struct nccl_coll_how how;
};

struct nccl_coll_v3 {
    const char *name;
    uint64_t comm_hash;
    struct nccl_coll_what what;
    struct nccl_coll_how how;
};

struct nccl_coll_v4 {
    struct nccl_coll_what what;
    struct nccl_coll_how how;
};

struct nccl_coll_v5 {
    struct nccl_coll_v4 v4;
    void *parent_group;
};

struct nccl_coll_v7 {
    struct nccl_coll_v5 v5;
    const char *kernel_variant;
    uint8_t symmetric;
    uint64_t user_tag;
};

/* ---- Sends and receives ---- */

struct nccl_p2p_v1 {
    const char *name;
    uint64_t comm_hash;
    uint8_t func;
    void *buff;
    uint8_t datatype;
    size_t count;
    int32_t peer;
};

struct nccl_p2p_v2 {
    const char *name;
    uint64_t comm_hash;
    const char *func;
    void *buff;
    const char *datatype;
    size_t count;
    int32_t peer;
};

struct nccl_p2p_v4 {
    const char *func;
    void *buff;
    const char *datatype;
    size_t count;
    int32_t peer;
    uint8_t channels;
};

struct nccl_p2p_v5 {
    struct nccl_p2p_v4 v4;
    void *parent_group;
};

struct nccl_p2p_v7 {
    struct nccl_p2p_v5 v5;
    uint64_t user_tag;
};

/* ---- Network proxy, all versions ---- */

struct nccl_proxy_op {
    int32_t pid;
    uint8_t channel;
    int32_t peer;
    int32_t steps;
    int32_t chunk;
    int32_t is_send;
};

struct nccl_proxy_step {
    int32_t step;
};

struct nccl_net_plugin {
    int64_t id;
    void *data;
};

/* ---- Kernels ---- */

struct nccl_kernel_ch_v3 {
    uint8_t channel;
};

struct nccl_kernel_ch_v4 {
    uint8_t channel;
    uint64_t ptimer;
};

struct nccl_kernel_phase {
    uint8_t channel;
    uint8_t phase;
    const char *phase_name;
    uint64_t ptimer;
};

struct nccl_kernel_launch {
    void *stream;
};

/* ---- Calls of the application, since v5 ---- */

struct nccl_group_api {
    uint8_t graph;
    int32_t depth;
};

struct nccl_coll_api_v5 {
    const char *func;
    size_t count;
    const char *datatype;
    int32_t root;
    void *stream;
    uint8_t graph;
};

struct nccl_coll_api_v7 {
    struct nccl_coll_api_v5 v5;
    uint64_t user_tag;
};

struct nccl_p2p_api_v5 {
    const char *func;
    size_t count;
    const char *datatype;
    void *stream;
    uint8_t graph;
};

struct nccl_p2p_api_v7 {
    struct nccl_p2p_api_v5 v5;
    uint64_t user_tag;
};

/* ---- Copy engines, since v6 ---- */

struct nccl_ce_coll_v6 {
    uint64_t seq;
    const char *func;
    const void *send;
    void *recv;
    size_t count;
    int32_t root;
    const char *datatype;
    const char *sync_strategy;
    uint8_t intra_batch_sync;
    uint32_t batch_size;
    uint32_t batches;
    uint32_t ce_seq;
    void *stream;
};

struct nccl_ce_coll_v7 {
    struct nccl_ce_coll_v6 v6;
    uint64_t user_tag;
};

struct nccl_ce_sync {
    uint8_t is_complete;
    int32_t nranks;
};

struct nccl_ce_batch {
    int32_t ops;
    size_t bytes;
    uint8_t intra_sync;
};

/* ---- Descriptors ---- */

struct nccl_descr_v1 {
    uint8_t type;
    void *parent;
    int32_t rank;
    union {
        struct nccl_coll_v1 coll;
        struct nccl_p2p_v1 p2p;
        struct nccl_proxy_op proxy_op;
        struct nccl_proxy_step proxy_step;
    };
};

struct nccl_descr_v2 {
    uint8_t type;
    void *parent;
    int32_t rank;
    union {
        struct nccl_coll_v2 coll;
        struct nccl_p2p_v2 p2p;
        struct nccl_proxy_op proxy_op;
        struct nccl_proxy_step proxy_step;
    };
};

struct nccl_descr_v3 {
    uint8_t type;
    void *parent;
    int32_t rank;
    union {
        struct nccl_coll_v3 coll;
        struct nccl_p2p_v2 p2p;
        struct nccl_proxy_op proxy_op;
        struct nccl_proxy_step proxy_step;
        struct nccl_kernel_ch_v3 kernel_ch;
        struct nccl_net_plugin net_plugin;
    };
};

struct nccl_descr_v4 {
    uint8_t type;
    void *parent;
    int32_t rank;
    union {
        struct nccl_coll_v4 coll;
        struct nccl_p2p_v4 p2p;
        struct nccl_proxy_op proxy_op;
        struct nccl_proxy_step proxy_step;
        struct nccl_kernel_ch_v4 kernel_ch;
        struct nccl_net_plugin net_plugin;
    };
};

struct nccl_descr_v5 {
    uint64_t type;
    void *parent;
    int32_t rank;
    union {
        struct nccl_coll_v5 coll;
        struct nccl_p2p_v5 p2p;
        struct nccl_proxy_op proxy_op;
        struct nccl_proxy_step proxy_step;
        struct nccl_kernel_ch_v4 kernel_ch;
        struct nccl_net_plugin net_plugin;
        struct nccl_group_api group_api;
        struct nccl_coll_api_v5 coll_api;
        struct nccl_p2p_api_v5 p2p_api;
        struct nccl_kernel_launch kernel_launch;
    };
};

struct nccl_descr_v6 {
    uint64_t type;
    void *parent;
    int32_t rank;
    union {
        struct nccl_coll_v5 coll;
        struct nccl_p2p_v5 p2p;
        struct nccl_proxy_op proxy_op;
        struct nccl_proxy_step proxy_step;
        struct nccl_kernel_ch_v4 kernel_ch;
        struct nccl_net_plugin net_plugin;
        struct nccl_group_api group_api;
        struct nccl_coll_api_v5 coll_api;
        struct nccl_p2p_api_v5 p2p_api;
        struct nccl_kernel_launch kernel_launch;
        struct nccl_ce_coll_v6 ce_coll;
        struct nccl_ce_sync ce_sync;
        struct nccl_ce_batch ce_batch;
    };
};

struct nccl_descr_v7 {
    uint64_t type;
    void *parent;
    int32_t rank;
    union {
        struct nccl_coll_v7 coll;
        struct nccl_p2p_v7 p2p;
        struct nccl_proxy_op proxy_op;
        struct nccl_proxy_step proxy_step;
        struct nccl_kernel_ch_v4 kernel_ch;
        struct nccl_net_plugin net_plugin;
        struct nccl_group_api group_api;
        struct nccl_coll_api_v7 coll_api;
        struct nccl_p2p_api_v7 p2p_api;
        struct nccl_kernel_launch kernel_launch;
        struct nccl_ce_coll_v7 ce_coll;
        struct nccl_ce_sync ce_sync;
        struct nccl_ce_batch ce_batch;
        struct nccl_kernel_phase kernel_phase;
    };
};

/* Room for a descriptor of any version. */
union nccl_descr {
    struct nccl_descr_v1 v1;
    struct nccl_descr_v2 v2;
    struct nccl_descr_v3 v3;
    struct nccl_descr_v4 v4;
    struct nccl_descr_v5 v5;
    struct nccl_descr_v6 v6;
    struct nccl_descr_v7 v7;
};

/* ---- What a state carries ---- */

union nccl_args_v1 {
    struct {
        size_t trans_bytes;
        int32_t steps;
    } proxy_op;
    struct {
        int32_t appended;
    } proxy_ctrl;
};

union nccl_args_v4 {
    struct {
        size_t trans_bytes;
    } proxy_step;
    struct {
        int32_t appended;
    } proxy_ctrl;
    struct {
        void *data;
    } net_plugin;
    struct {
        uint64_t ptimer;
    } kernel_ch;
};

/* ---- The exported tables: v1 to v3, v4, v5 to v7 differ in init only ---- */

typedef void (*nccl_logger)(int level, unsigned long flags, const char *file, int line,
                            const char *fmt, ...);

struct nccl_profiler_v1 {
    const char *name;
    int (*init)(void **context, int *mask);
    int (*start)(void *context, void **handle, const void *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, const void *args);
    int (*finalize)(void *context);
};

struct nccl_profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm_hash, int nnodes,
                int nranks, int rank, nccl_logger logger);
    int (*start)(void *context, void **handle, const void *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, const void *args);
    int (*finalize)(void *context);
};

struct nccl_profiler_v5 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, int *mask, const char *comm_name, int nnodes,
                int nranks, int rank, nccl_logger logger);
    int (*start)(void *context, void **handle, const void *descriptor);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, const void *args);
    int (*finalize)(void *context);
};

/* ---- Rules that no layout shows ---- */

enum nccl_args_member { NCCL_ARGS_NONE, NCCL_ARGS_TRANS, NCCL_ARGS_APPENDED, NCCL_ARGS_PTIMER };

/* Which member of the args union goes with a state. Before v4 only the proxy operation's states
 * (0 to 7) carry bytes; the proxy step's come without args there, as GroupApi's do since v5. */
static inline enum nccl_args_member nccl_args_of_state(unsigned api, unsigned state)
{
    if (state <= 7)
        return api < 4 ? NCCL_ARGS_TRANS : NCCL_ARGS_NONE;
    if (state >= 13 && state <= 18)
        return NCCL_ARGS_APPENDED;
    if (api < 4)
        return NCCL_ARGS_NONE;
    if (state <= 12 || state == 20)
        return NCCL_ARGS_TRANS;
    return state == 22 || state == 31 ? NCCL_ARGS_PTIMER : NCCL_ARGS_NONE;
}

#endif
