/* muster's own words for libibverbs' structures against the library's headers. */
#include <assert.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#include "doctor/verbs/verbs_abi.h"

#define SAME(ours, our, theirs, their)                                                             \
    static_assert(offsetof(ours, our) == offsetof(theirs, their) &&                                \
                      sizeof(((ours *)0)->our) == sizeof(((theirs *)0)->their),                    \
                  #their)
#define SIZE(ours, theirs)   static_assert(sizeof(ours) == sizeof(theirs), #theirs)
#define NUMBER(ours, theirs) static_assert((int)(ours) == (int)(theirs), #theirs)

NUMBER(MUSTER_IBV_QP_STATE, IBV_QP_STATE);
NUMBER(MUSTER_IBV_QP_PKEY_INDEX, IBV_QP_PKEY_INDEX);
NUMBER(MUSTER_IBV_QP_PORT, IBV_QP_PORT);
NUMBER(MUSTER_IBV_QP_QKEY, IBV_QP_QKEY);
NUMBER(MUSTER_IBV_QP_SQ_PSN, IBV_QP_SQ_PSN);
NUMBER(MUSTER_IBV_INIT, IBV_QPS_INIT);
NUMBER(MUSTER_IBV_RTR, IBV_QPS_RTR);
NUMBER(MUSTER_IBV_RTS, IBV_QPS_RTS);
NUMBER(MUSTER_IBV_UD, IBV_QPT_UD);
NUMBER(MUSTER_IBV_SEND, IBV_WR_SEND);
NUMBER(MUSTER_IBV_SIGNALED, IBV_SEND_SIGNALED);
NUMBER(MUSTER_IBV_RECEIVED, IBV_WC_RECV);
NUMBER(MUSTER_IBV_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE);
NUMBER(MUSTER_IBV_PORT_ACTIVE, IBV_PORT_ACTIVE);
NUMBER(MUSTER_IBV_MTU_256, IBV_MTU_256);
NUMBER(MUSTER_IBV_HEAD, sizeof(struct ibv_grh));
NUMBER(0, IBV_WC_SUCCESS);

SIZE(union muster_ibv_gid, union ibv_gid);
SAME(struct muster_ibv_context, device, struct ibv_context, device);
SAME(struct muster_ibv_context, ops.poll_cq, struct ibv_context, ops.poll_cq);
SAME(struct muster_ibv_context, ops.post_send, struct ibv_context, ops.post_send);
SAME(struct muster_ibv_context, ops.post_recv, struct ibv_context, ops.post_recv);

static_assert(sizeof(struct muster_ibv_port) >= sizeof(struct ibv_port_attr), "ibv_port_attr");
SAME(struct muster_ibv_port, state, struct ibv_port_attr, state);
SAME(struct muster_ibv_port, active_mtu, struct ibv_port_attr, active_mtu);
SAME(struct muster_ibv_port, lid, struct ibv_port_attr, lid);
SAME(struct muster_ibv_port, link_layer, struct ibv_port_attr, link_layer);
SAME(struct muster_ibv_port, capabilities2, struct ibv_port_attr, port_cap_flags2);

SIZE(struct muster_ibv_memory, struct ibv_mr);
SAME(struct muster_ibv_memory, lkey, struct ibv_mr, lkey);
SIZE(struct muster_ibv_capacity, struct ibv_qp_cap);
SAME(struct muster_ibv_capacity, receives, struct ibv_qp_cap, max_recv_wr);
SAME(struct muster_ibv_capacity, receive_parts, struct ibv_qp_cap, max_recv_sge);

SIZE(struct muster_ibv_qp_plan, struct ibv_qp_init_attr);
SAME(struct muster_ibv_qp_plan, send_cq, struct ibv_qp_init_attr, send_cq);
SAME(struct muster_ibv_qp_plan, recv_cq, struct ibv_qp_init_attr, recv_cq);
SAME(struct muster_ibv_qp_plan, capacity, struct ibv_qp_init_attr, cap);
SAME(struct muster_ibv_qp_plan, type, struct ibv_qp_init_attr, qp_type);
SAME(struct muster_ibv_qp_plan, all_signaled, struct ibv_qp_init_attr, sq_sig_all);
SAME(struct muster_ibv_qp, context, struct ibv_qp, context);
SAME(struct muster_ibv_qp, number, struct ibv_qp, qp_num);

SIZE(struct muster_ibv_way, struct ibv_ah_attr);
SAME(struct muster_ibv_way, gid, struct ibv_ah_attr, grh.dgid);
SAME(struct muster_ibv_way, gid_index, struct ibv_ah_attr, grh.sgid_index);
SAME(struct muster_ibv_way, hop_limit, struct ibv_ah_attr, grh.hop_limit);
SAME(struct muster_ibv_way, traffic_class, struct ibv_ah_attr, grh.traffic_class);
SAME(struct muster_ibv_way, lid, struct ibv_ah_attr, dlid);
SAME(struct muster_ibv_way, sl, struct ibv_ah_attr, sl);
SAME(struct muster_ibv_way, is_global, struct ibv_ah_attr, is_global);
SAME(struct muster_ibv_way, port, struct ibv_ah_attr, port_num);

SIZE(struct muster_ibv_qp_change, struct ibv_qp_attr);
SAME(struct muster_ibv_qp_change, state, struct ibv_qp_attr, qp_state);
SAME(struct muster_ibv_qp_change, qkey, struct ibv_qp_attr, qkey);
SAME(struct muster_ibv_qp_change, sq_psn, struct ibv_qp_attr, sq_psn);
SAME(struct muster_ibv_qp_change, pkey_index, struct ibv_qp_attr, pkey_index);
SAME(struct muster_ibv_qp_change, port, struct ibv_qp_attr, port_num);

SIZE(struct muster_ibv_part, struct ibv_sge);
SAME(struct muster_ibv_part, address, struct ibv_sge, addr);
SAME(struct muster_ibv_part, length, struct ibv_sge, length);
SAME(struct muster_ibv_part, lkey, struct ibv_sge, lkey);

static_assert(sizeof(struct muster_ibv_send) >= sizeof(struct ibv_send_wr), "ibv_send_wr");
SAME(struct muster_ibv_send, id, struct ibv_send_wr, wr_id);
SAME(struct muster_ibv_send, part, struct ibv_send_wr, sg_list);
SAME(struct muster_ibv_send, parts, struct ibv_send_wr, num_sge);
SAME(struct muster_ibv_send, opcode, struct ibv_send_wr, opcode);
SAME(struct muster_ibv_send, flags, struct ibv_send_wr, send_flags);
SAME(struct muster_ibv_send, ud.ah, struct ibv_send_wr, wr.ud.ah);
SAME(struct muster_ibv_send, ud.qp, struct ibv_send_wr, wr.ud.remote_qpn);
SAME(struct muster_ibv_send, ud.qkey, struct ibv_send_wr, wr.ud.remote_qkey);

SIZE(struct muster_ibv_recv, struct ibv_recv_wr);
SAME(struct muster_ibv_recv, part, struct ibv_recv_wr, sg_list);
SAME(struct muster_ibv_recv, parts, struct ibv_recv_wr, num_sge);

SIZE(struct muster_ibv_completion, struct ibv_wc);
SAME(struct muster_ibv_completion, status, struct ibv_wc, status);
SAME(struct muster_ibv_completion, opcode, struct ibv_wc, opcode);
SAME(struct muster_ibv_completion, bytes, struct ibv_wc, byte_len);
SAME(struct muster_ibv_completion, source_qp, struct ibv_wc, src_qp);

int main(void)
{
    puts("every offset is as in libibverbs' headers");
    return 0;
}
