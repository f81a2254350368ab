/*
 * The tuner as all interface versions see it: one policy per process, read with the first
 * communicator, frozen once per shape of communicator. Never fails NCCL. init may be called
 * concurrently; decisions of different communicators too.
 */
#ifndef MUSTER_NCCL_TUNER_HOOKS_H
#define MUSTER_NCCL_TUNER_HOOKS_H

#include <stddef.h>
#include <stdint.h>

struct muster_steering_init {
    unsigned api; /* tuner interface version */
    uint64_t ranks, nodes;
    uint64_t nvlink_domains; /* 0: the interface has none */
    uint32_t nccl;           /* version code; 0: not known */
};

/* Always something other than NULL, to be given to muster_steering_decide; never freed. */
void *muster_steering_open(const struct muster_steering_init *init);

/* One operation as NCCL asks about it. */
struct muster_steering_call {
    unsigned func; /* NCCL's ncclFunc_t */
    size_t bytes;
    int pipe_ops;
    float *cost; /* NULL: the interface has no cost table */
    int algos, protos;
    int *channels;
};
/* Writes what the policy wants into cost table and channels; without a rule nothing is touched. */
void muster_steering_decide(void *context, const struct muster_steering_call *call);

/* Version code (22809 for 2.28.9) of the NCCL that holds the address `caller`; 0: not known. */
uint32_t muster_process_nccl(const void *caller);

#endif
