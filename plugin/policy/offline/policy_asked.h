/* What NCCL asked its tuner about an operation that was recorded. */
#ifndef MUSTER_POLICY_OFFLINE_POLICY_ASKED_H
#define MUSTER_POLICY_OFFLINE_POLICY_ASKED_H

#include <stdint.h>

#include "policy/policy.h"
#include "run/run.h"

enum muster_asked {
    MUSTER_ASKED,
    MUSTER_ASKED_NEVER,   /* sends and receives, copy engines, single ranks: no tuner is asked */
    MUSTER_ASKED_UNKNOWN, /* the interface lacks the communicator's size */
};

/* Fills *query on MUSTER_ASKED: bytes of the whole operation, alone in its group. From NCCL 2.29 on
 * a broadcast is asked about as an all-gather of ranks x bytes (allgatherv_sched.cc).
 * `nvlink_domains` is not recorded: 0, not known. */
enum muster_asked muster_policy_asked(const struct muster_process *process,
                                      const struct muster_op *op,
                                      const struct muster_log_comm *comm, uint64_t nvlink_domains,
                                      struct muster_query *query);

#endif
