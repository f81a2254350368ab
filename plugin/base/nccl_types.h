/*
 * The kinds of things an operation can be, as muster numbers, stores and prints them. The numbers
 * stand in segments and logs: append only.
 */
#ifndef MUSTER_BASE_NCCL_TYPES_H
#define MUSTER_BASE_NCCL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * One list per vocabulary; a row has
 *
 * enum    MUSTER_FUNC_..., and so on
 * name    as reports have it
 * nccl    the literal that NCCL sends to a profiler, or NULL
 * number  NCCL's enumerator (interface v1), or MUSTER_NCCL_NO_NUMBER
 *
 * and a function how policies spell it (NULL: it cannot be steered), a type the bytes of an
 * element, an algorithm how NCCL_ALGO spells it ("": it cannot be named); NCCL_PROTO spells
 * protocols as NCCL sends them. Sources: ncclFuncToString, ncclDatatypeToString, ncclAlgoStr
 * and ncclProtoStr of NCCL 2.28, nccl.h.
 */
enum { MUSTER_NCCL_NO_NUMBER = 255 };
/* clang-format off */
#define MUSTER_FUNC_LIST(ROW)                                               \
    ROW(ALL_REDUCE,     "AllReduce",     "AllReduce",     4,  "all_reduce")     \
    ROW(ALL_GATHER,     "AllGather",     "AllGather",     2,  "all_gather")     \
    ROW(REDUCE_SCATTER, "ReduceScatter", "ReduceScatter", 3,  "reduce_scatter") \
    ROW(BROADCAST,      "Broadcast",     "Broadcast",     0,  "broadcast")      \
    ROW(REDUCE,         "Reduce",        "Reduce",        1,  "reduce")         \
    ROW(SEND,           "Send",          "Send",          6,  NULL)             \
    ROW(RECV,           "Recv",          "Recv",          7,  NULL)             \
    ROW(ALL_TO_ALL,     "AllToAll",      "AlltoAll",      8,  NULL)             \
    ROW(GATHER,         "Gather",        "Gather",        10, NULL)             \
    ROW(SCATTER,        "Scatter",       "Scatter",       9,  NULL)

/* ncclDatatypeToString leaves out uint8, and returns Unknown. */
#define MUSTER_DTYPE_LIST(ROW)                              \
    ROW(INT8,       "int8",       "ncclInt8",       0,  1)  \
    ROW(UINT8,      "uint8",      "Unknown",        1,  1)  \
    ROW(INT32,      "int32",      "ncclInt32",      2,  4)  \
    ROW(UINT32,     "uint32",     "ncclUint32",     3,  4)  \
    ROW(INT64,      "int64",      "ncclInt64",      4,  8)  \
    ROW(UINT64,     "uint64",     "ncclUint64",     5,  8)  \
    ROW(FLOAT16,    "float16",    "ncclFloat16",    6,  2)  \
    ROW(FLOAT32,    "float32",    "ncclFloat32",    7,  4)  \
    ROW(FLOAT64,    "float64",    "ncclFloat64",    8,  8)  \
    ROW(BFLOAT16,   "bfloat16",   "ncclBfloat16",   9,  2)  \
    ROW(FLOAT8E4M3, "float8e4m3", "ncclFloat8e4m3", 10, 1)  \
    ROW(FLOAT8E5M2, "float8e5m2", "ncclFloat8e5m2", 11, 1)

/* CE: copy engines, no kernel. */
#define MUSTER_ALGO_LIST(ROW)                                                   \
    ROW(TREE,           "tree",           "TREE",           0, "TREE")          \
    ROW(RING,           "ring",           "RING",           1, "RING")          \
    ROW(COLLNET_DIRECT, "collnet_direct", "COLLNET_DIRECT", 2, "COLLNETDIRECT") \
    ROW(COLLNET_CHAIN,  "collnet_chain",  "COLLNET_CHAIN",  3, "COLLNETCHAIN")  \
    ROW(NVLS,           "nvls",           "NVLS",           4, "NVLS")          \
    ROW(NVLS_TREE,      "nvls_tree",      "NVLS_TREE",      5, "NVLSTREE")      \
    ROW(PAT,            "pat",            "PAT",            6, "PAT")           \
    ROW(CE,             "ce",             NULL, MUSTER_NCCL_NO_NUMBER, "")

#define MUSTER_PROTO_LIST(ROW)         \
    ROW(LL,     "ll",     "LL",     0) \
    ROW(LL128,  "ll128",  "LL128",  1) \
    ROW(SIMPLE, "simple", "SIMPLE", 2)
/* clang-format on */

#define MUSTER_FUNC_ENUM(kind, ...)  MUSTER_FUNC_##kind,
#define MUSTER_DTYPE_ENUM(kind, ...) MUSTER_DTYPE_##kind,
#define MUSTER_ALGO_ENUM(kind, ...)  MUSTER_ALGO_##kind,
#define MUSTER_PROTO_ENUM(kind, ...) MUSTER_PROTO_##kind,
enum muster_func { MUSTER_FUNC_UNKNOWN, MUSTER_FUNC_LIST(MUSTER_FUNC_ENUM) MUSTER_FUNCS };
enum muster_dtype { MUSTER_DTYPE_UNKNOWN, MUSTER_DTYPE_LIST(MUSTER_DTYPE_ENUM) MUSTER_DTYPES };
enum muster_algo { MUSTER_ALGO_UNKNOWN, MUSTER_ALGO_LIST(MUSTER_ALGO_ENUM) MUSTER_ALGOS };
enum muster_proto { MUSTER_PROTO_UNKNOWN, MUSTER_PROTO_LIST(MUSTER_PROTO_ENUM) MUSTER_PROTOS };

/* Where an operation's begin and end come from. */
enum muster_source {
    MUSTER_SOURCE_NONE,
    MUSTER_SOURCE_HOST,  /* host clock around the enqueue of copy-engine work */
    MUSTER_SOURCE_PROXY, /* host clock of the network proxy: first start to last end */
    MUSTER_SOURCE_GPU,   /* the GPU's own clock, first channel's start to last channel's stop */
    MUSTER_SOURCE_EVENT, /* the GPU's own clock, CUDA events around the launch */
    MUSTER_SOURCES
};

/* Whether both ends are on the GPU's own clock. */
static inline bool muster_source_is_gpu(unsigned source)
{
    return source == MUSTER_SOURCE_GPU || source == MUSTER_SOURCE_EVENT;
}

/* Of two sources of one kind of operation the higher's times are kept. */
static inline unsigned muster_source_rank(unsigned source)
{
    return source == MUSTER_SOURCE_GPU ? MUSTER_SOURCES : source;
}

/* Words as they stand in reports: "AllReduce", "float32", "ring", "ll128", "gpu". Numbers out of
 * range, and what is unknown, give "unknown" ("none" for a source). Static strings. */
const char *muster_func_name(unsigned func);
const char *muster_dtype_name(unsigned dtype);
const char *muster_algo_name(unsigned algo);
const char *muster_proto_name(unsigned proto);
const char *muster_source_name(unsigned source);

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

/* Whether it adds up what ranks give, and does not only move it. */
static inline bool muster_func_reduces(unsigned func)
{
    return func == MUSTER_FUNC_ALL_REDUCE || func == MUSTER_FUNC_REDUCE_SCATTER ||
           func == MUSTER_FUNC_REDUCE;
}

/* nccl-tests' size of an operation: AllGather and ReduceScatter nranks x count x element, all
 * others count x element (nccl-tests, doc/PERFORMANCE.md). Saturates at UINT64_MAX. With
 * nranks 0 (not known) AllGather and ReduceScatter give one rank's share. */
uint64_t muster_op_size_bytes(unsigned func, unsigned dtype, uint64_t count, uint32_t nranks);

/* Bus bandwidth over algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md): AllReduce 2(n-1)/n;
 * AllGather, ReduceScatter, AllToAll, Gather, Scatter (n-1)/n; all others 1. */
double muster_busbw_factor(unsigned func, uint32_t nranks);

/* A version as 10000 * X + 100 * Y + Z, of which the later is the greater. ncclGetVersion returns
 * 1000 * X before 2.9, which is taken, too: 2408 is 20408. 0: unknown. */
uint32_t muster_nccl_version_code(uint32_t given);
/* "2.4.8" of either. */
void muster_nccl_version_text(char *to, size_t size, uint32_t given);

#endif
