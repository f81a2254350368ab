/*
 * Which GPU of its process each communicator runs on. Segments name CUDA ordinals; logs name none,
 * and neither do old interfaces.
 */
#ifndef MUSTER_RUN_RUN_GPUS_H
#define MUSTER_RUN_RUN_GPUS_H

#include <stddef.h>
#include <stdint.h>

enum { MUSTER_PROCESS_GPUS = 64 }; /* distinguished in one process */

/* One communicator of one process. */
struct muster_gpu_part {
    uint64_t id;
    int32_t rank; /* in it */
    uint32_t nranks;
    int32_t gpu_index; /* CUDA ordinal; -1: not known */
    uint32_t gpu;      /* set by muster_number_gpus: from 0 */
};

/* Ordinals distinguish a process's GPUs; where none is known, several ranks of one communicator do,
 * in the order of rank. Returns how many GPUs there are, at least 1; 0: no memory. */
uint32_t muster_number_gpus(struct muster_gpu_part *part, size_t n);

/* The rank of a GPU in the largest communicator that runs on it; -1: in none. */
int32_t muster_rank_of_gpu(const struct muster_gpu_part *part, size_t n, uint32_t gpu);

#endif
