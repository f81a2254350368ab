/*
 * The tuner interfaces v2 to v7 as NCCL lays them out on LP64; tuner_abi.c asserts every offset.
 * The cost table is typed as what it is: NCCL passes a flat float[algos][protos], row by row, that
 * its headers call float **.
 */
#ifndef MUSTER_NCCL_TUNER_ABI_H
#define MUSTER_NCCL_TUNER_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef void nccl_tuner_logger(int level, unsigned long flags, const char *file, int line,
                               const char *format, ...);

struct nccl_nvl_domains {
    int32_t domains;
    int32_t min_ranks;
    int32_t max_ranks;
};

/* In and out: NCCL's defaults for its model of costs. muster reads and writes none of them, and
 * NCCL lends them for the time of init only. */
struct nccl_tuner_constants_v5 {
    double base_latency[7][3];  /* algorithm, protocol */
    double hw_latency[3][7][3]; /* NVLink, PCI, network */
    double ll_max_bw[4][3];     /* Volta, Ampere, Hopper, Blackwell; 1, 2, 4 and more nodes */
    double ring_ll128_bw[4][3];
    double tree_ll128_bw[4][3];
    double tree_bw[4][3];
    double nvls_tree_bw[4][3];
};
struct nccl_tuner_constants_v7 {
    double base_latency[7][3];
    double hw_latency[3][7][3];
    double ll_max_bw[5][3]; /* one more architecture */
    double ring_ll128_bw[5][3];
    double tree_ll128_bw[5][3];
    double tree_bw[5][3];
    double nvls_tree_bw[5][3];
};

/* NCCL 2.21. No cost table: what is written into algo and proto is obeyed unchecked. */
struct nccl_tuner_v2 {
    const char *name;
    int (*init)(size_t ranks, size_t nodes, nccl_tuner_logger *logger, void **context);
    int (*get_coll_info)(void *context, int func, size_t bytes, int collnet, int nvls, int pipe_ops,
                         int *algo, int *proto, int *channels);
    int (*destroy)(void *context);
};

struct nccl_tuner_v3 {
    const char *name;
    int (*init)(size_t ranks, size_t nodes, nccl_tuner_logger *logger, void **context);
    int (*get_coll_info)(void *context, int func, size_t bytes, int pipe_ops, float *cost,
                         int algos, int protos, int *channels);
    int (*destroy)(void *context);
};

/* v3 with `registered`, which may differ between ranks. */
struct nccl_tuner_v4 {
    const char *name;
    int (*init)(size_t ranks, size_t nodes, nccl_tuner_logger *logger, void **context);
    int (*get_coll_info)(void *context, int func, size_t bytes, int pipe_ops, float *cost,
                         int algos, int protos, int registered, int *channels);
    int (*destroy)(void *context);
};

struct nccl_tuner_v5 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, size_t ranks, size_t nodes,
                nccl_tuner_logger *logger, const struct nccl_nvl_domains *nvl, void *constants);
    int (*get_coll_info)(void *context, int func, size_t bytes, int pipe_ops, float *cost,
                         int algos, int protos, int registered, int *channels);
    int (*finalize)(void *context);
};

/* And v7, whose constants are of another size. */
struct nccl_tuner_v6 {
    const char *name;
    int (*init)(void **context, uint64_t comm_id, size_t ranks, size_t nodes,
                nccl_tuner_logger *logger, const struct nccl_nvl_domains *nvl, void *constants);
    int (*get_coll_info)(void *context, int func, size_t bytes, int pipe_ops, float *cost,
                         int algos, int protos, int registered, int *channels);
    int (*finalize)(void *context);
    int (*get_chunk_size)(void *context, int func, size_t bytes, int algo, int proto, int channels,
                          size_t *chunk_bytes); /* may be NULL */
};

#endif
