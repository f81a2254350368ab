/*
 * The kinds of things an operation can be, as muster numbers, stores and prints them. The numbers
 * stand in segments and logs: append only. NCCL's spellings are translated in plugin/nccl.
 */
#ifndef MUSTER_BASE_VOCAB_H
#define MUSTER_BASE_VOCAB_H

#include <stdbool.h>
#include <stdint.h>

enum muster_func {
    MUSTER_FUNC_UNKNOWN,
    MUSTER_FUNC_ALL_REDUCE,
    MUSTER_FUNC_ALL_GATHER,
    MUSTER_FUNC_REDUCE_SCATTER,
    MUSTER_FUNC_BROADCAST,
    MUSTER_FUNC_REDUCE,
    MUSTER_FUNC_SEND,
    MUSTER_FUNC_RECV,
    MUSTER_FUNC_ALL_TO_ALL,
    MUSTER_FUNC_GATHER,
    MUSTER_FUNC_SCATTER,
    MUSTER_FUNCS
};

enum muster_dtype {
    MUSTER_DTYPE_UNKNOWN,
    MUSTER_DTYPE_INT8,
    MUSTER_DTYPE_UINT8,
    MUSTER_DTYPE_INT32,
    MUSTER_DTYPE_UINT32,
    MUSTER_DTYPE_INT64,
    MUSTER_DTYPE_UINT64,
    MUSTER_DTYPE_FLOAT16,
    MUSTER_DTYPE_FLOAT32,
    MUSTER_DTYPE_FLOAT64,
    MUSTER_DTYPE_BFLOAT16,
    MUSTER_DTYPE_FLOAT8E4M3,
    MUSTER_DTYPE_FLOAT8E5M2,
    MUSTER_DTYPES
};

enum muster_algo {
    MUSTER_ALGO_UNKNOWN,
    MUSTER_ALGO_TREE,
    MUSTER_ALGO_RING,
    MUSTER_ALGO_COLLNET_DIRECT,
    MUSTER_ALGO_COLLNET_CHAIN,
    MUSTER_ALGO_NVLS,
    MUSTER_ALGO_NVLS_TREE,
    MUSTER_ALGO_PAT,
    MUSTER_ALGO_CE, /* copy engines, no kernel */
    MUSTER_ALGOS
};

enum muster_proto {
    MUSTER_PROTO_UNKNOWN,
    MUSTER_PROTO_LL,
    MUSTER_PROTO_LL128,
    MUSTER_PROTO_SIMPLE,
    MUSTER_PROTOS
};

/* Where an operation's begin and end come from. */
enum muster_source {
    MUSTER_SOURCE_NONE,
    MUSTER_SOURCE_HOST,  /* host clock around the enqueue of copy-engine work */
    MUSTER_SOURCE_PROXY, /* host clock of the network proxy: first start to last end */
    MUSTER_SOURCE_GPU,   /* the GPU's own clock, first channel's start to last channel's stop */
    MUSTER_SOURCES
};

/* Words as they stand in reports: "AllReduce", "float32", "ring", "ll128", "gpu". Numbers out of
 * range, and what is unknown, give "unknown" ("none" for a source). Static strings. */
const char *muster_func_word(unsigned func);
const char *muster_dtype_word(unsigned dtype);
const char *muster_algo_word(unsigned algo);
const char *muster_proto_word(unsigned proto);
const char *muster_source_word(unsigned source);

/* A kind as it was read from a file: 0, unknown, unless it is below `kinds`. */
static inline uint8_t muster_kind_or_unknown(uint8_t kind, unsigned kinds)
{
    return kind < kinds ? kind : 0;
}

/* Bytes of one element; 0 for an unknown type. */
unsigned muster_dtype_bytes(unsigned dtype);
static inline bool muster_func_is_p2p(unsigned func)
{
    return func == MUSTER_FUNC_SEND || func == MUSTER_FUNC_RECV;
}

/* Whether a collective has a root. */
static inline bool muster_func_is_rooted(unsigned func)
{
    return func == MUSTER_FUNC_BROADCAST || func == MUSTER_FUNC_REDUCE ||
           func == MUSTER_FUNC_GATHER || func == MUSTER_FUNC_SCATTER;
}

/* nccl-tests' size of an operation: AllGather and ReduceScatter nranks x count x element, all
 * others count x element (nccl-tests, doc/PERFORMANCE.md). Saturates at UINT64_MAX. With
 * nranks 0 (not known) AllGather and ReduceScatter give one rank's share. */
uint64_t muster_op_size_bytes(unsigned func, unsigned dtype, uint64_t count, uint32_t nranks);

/* Bus bandwidth over algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md): AllReduce 2(n-1)/n;
 * AllGather, ReduceScatter, AllToAll, Gather, Scatter (n-1)/n; all others 1. */
double muster_busbw_factor(unsigned func, uint32_t nranks);

#endif
