/*
 * The few structures and numbers of libibverbs' binary interface (version IBVERBS_1.1) that a UD
 * queue pair needs, in muster's own words: the library is loaded by name, and no build needs its
 * headers. tests/unit/doctor/verbs_abi_test.c compares every offset with these where they are
 * installed. Comments name the original.
 */
#ifndef MUSTER_DOCTOR_VERBS_VERBS_ABI_H
#define MUSTER_DOCTOR_VERBS_VERBS_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    MUSTER_IBV_QP_STATE = 1 << 0, /* IBV_QP_*: which attributes are set */
    MUSTER_IBV_QP_PKEY_INDEX = 1 << 4,
    MUSTER_IBV_QP_PORT = 1 << 5,
    MUSTER_IBV_QP_QKEY = 1 << 6,
    MUSTER_IBV_QP_SQ_PSN = 1 << 16,
    MUSTER_IBV_INIT = 1, /* IBV_QPS_* */
    MUSTER_IBV_RTR = 2,
    MUSTER_IBV_RTS = 3,
    MUSTER_IBV_UD = 4,          /* IBV_QPT_UD */
    MUSTER_IBV_SEND = 2,        /* IBV_WR_SEND */
    MUSTER_IBV_SIGNALED = 2,    /* IBV_SEND_SIGNALED */
    MUSTER_IBV_RECEIVED = 128,  /* IBV_WC_RECV */
    MUSTER_IBV_LOCAL_WRITE = 1, /* IBV_ACCESS_LOCAL_WRITE */
    MUSTER_IBV_PORT_ACTIVE = 4, /* IBV_PORT_ACTIVE */
    MUSTER_IBV_MTU_256 = 1,     /* IBV_MTU_256; each further number doubles it */
    MUSTER_IBV_HEAD = 40,       /* before what a UD queue pair receives: room for a GRH */
};

struct muster_ibv_device; /* ibv_device, ibv_pd, ibv_cq, ibv_ah: never looked into */
struct muster_ibv_pd;
struct muster_ibv_cq;
struct muster_ibv_ah;
struct muster_ibv_qp;
struct muster_ibv_send;
struct muster_ibv_recv;
struct muster_ibv_completion;

union muster_ibv_gid { /* ibv_gid */
    uint8_t raw[16];
    uint64_t aligned[2];
};

struct muster_ibv_ops { /* ibv_context_ops */
    void *before_poll[11];
    int (*poll_cq)(struct muster_ibv_cq *, int, struct muster_ibv_completion *);
    void *before_post[13];
    int (*post_send)(struct muster_ibv_qp *, struct muster_ibv_send *, struct muster_ibv_send **);
    int (*post_recv)(struct muster_ibv_qp *, struct muster_ibv_recv *, struct muster_ibv_recv **);
};

struct muster_ibv_context { /* ibv_context, as far as it is used */
    struct muster_ibv_device *device;
    struct muster_ibv_ops ops;
};

struct muster_ibv_port { /* ibv_port_attr */
    int state, max_mtu, active_mtu, gids;
    uint32_t capabilities, max_message, bad_pkeys, qkey_violations;
    uint16_t pkeys, lid, sm_lid;
    uint8_t lmc, max_vl, sm_sl, subnet_timeout, init_reply, width, speed, phys_state, link_layer,
        flags;
    uint16_t capabilities2;
    uint8_t spare[64]; /* libraries of later versions may know more */
};

struct muster_ibv_memory { /* ibv_mr */
    struct muster_ibv_context *context;
    struct muster_ibv_pd *pd;
    void *address;
    size_t length;
    uint32_t handle, lkey, rkey;
};

struct muster_ibv_capacity { /* ibv_qp_cap */
    uint32_t sends, receives, send_parts, receive_parts, inline_bytes;
};

struct muster_ibv_qp_plan { /* ibv_qp_init_attr */
    void *qp_context;
    struct muster_ibv_cq *send_cq, *recv_cq;
    void *srq;
    struct muster_ibv_capacity capacity;
    int type, all_signaled;
};

struct muster_ibv_qp { /* ibv_qp, as far as it is used */
    struct muster_ibv_context *context;
    void *qp_context;
    struct muster_ibv_pd *pd;
    struct muster_ibv_cq *send_cq, *recv_cq;
    void *srq;
    uint32_t handle, number;
};

struct muster_ibv_way { /* ibv_ah_attr */
    union muster_ibv_gid gid;
    uint32_t flow_label;
    uint8_t gid_index, hop_limit, traffic_class;
    uint16_t lid;
    uint8_t sl, path_bits, static_rate, is_global, port;
};

struct muster_ibv_qp_change { /* ibv_qp_attr */
    int state, current_state, path_mtu, migration;
    uint32_t qkey, rq_psn, sq_psn, other_qp;
    unsigned access;
    struct muster_ibv_capacity capacity;
    struct muster_ibv_way way, alternative;
    uint16_t pkey_index, other_pkey_index;
    uint8_t notify, draining, max_reads, max_dest_reads, rnr_timer, port, timeout, retries,
        rnr_retries, other_port, other_timeout;
    uint32_t rate_limit;
};

struct muster_ibv_part { /* ibv_sge */
    uint64_t address;
    uint32_t length, lkey;
};

struct muster_ibv_send { /* ibv_send_wr, of a UD queue pair */
    uint64_t id;
    struct muster_ibv_send *next;
    struct muster_ibv_part *part;
    int parts, opcode;
    unsigned flags;
    uint32_t immediate;
    struct {
        struct muster_ibv_ah *ah;
        uint32_t qp, qkey;
    } ud;
    uint64_t others[12]; /* of other kinds */
};

struct muster_ibv_recv { /* ibv_recv_wr */
    uint64_t id;
    struct muster_ibv_recv *next;
    struct muster_ibv_part *part;
    int parts;
};

struct muster_ibv_completion { /* ibv_wc */
    uint64_t id;
    int status, opcode;
    uint32_t vendor_error, bytes, immediate, qp, source_qp;
    unsigned flags;
    uint16_t pkey_index, source_lid;
    uint8_t sl, path_bits;
};

#endif
