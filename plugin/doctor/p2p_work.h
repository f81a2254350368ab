/* The child's side of the P2P test. */
#ifndef MUSTER_DOCTOR_P2P_WORK_H
#define MUSTER_DOCTOR_P2P_WORK_H

#include "doctor/p2p.h"

struct muster_p2p_job {
    int first; /* number of the first ordered pair to test: from * gpus + to */
    uint32_t words;
};

/* A muster_bounded_work: writes the number of GPUs (int32_t), then results. */
int muster_p2p_work(void *job, int fd, struct muster_err *err);

#endif
