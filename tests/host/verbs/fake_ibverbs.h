/* What muster calls of libibverbs, in the words of verbs_abi.h. */
#ifndef MUSTER_TESTS_HOST_VERBS_FAKE_IBVERBS_H
#define MUSTER_TESTS_HOST_VERBS_FAKE_IBVERBS_H

#include "doctor/verbs/verbs_abi.h"

#define PUBLIC __attribute__((visibility("default")))

PUBLIC struct muster_ibv_device **ibv_get_device_list(int *n);
PUBLIC const char *ibv_get_device_name(struct muster_ibv_device *device);
PUBLIC struct muster_ibv_context *ibv_open_device(struct muster_ibv_device *device);
PUBLIC int ibv_query_port(struct muster_ibv_context *context, uint8_t port,
                          struct muster_ibv_port *found);
PUBLIC int ibv_query_gid(struct muster_ibv_context *context, uint8_t port, int index,
                         union muster_ibv_gid *gid);
PUBLIC struct muster_ibv_pd *ibv_alloc_pd(struct muster_ibv_context *context);
PUBLIC struct muster_ibv_memory *ibv_reg_mr(struct muster_ibv_pd *pd, void *address, size_t length,
                                            int access);
PUBLIC struct muster_ibv_cq *ibv_create_cq(struct muster_ibv_context *context, int n, void *arg,
                                           void *channel, int vector);
PUBLIC struct muster_ibv_qp *ibv_create_qp(struct muster_ibv_pd *pd,
                                           struct muster_ibv_qp_plan *plan);
PUBLIC int ibv_modify_qp(struct muster_ibv_qp *qp, struct muster_ibv_qp_change *change, int mask);
PUBLIC struct muster_ibv_ah *ibv_create_ah(struct muster_ibv_pd *pd, struct muster_ibv_way *way);

#endif
