#include "base/vocab.h"

#include <stddef.h>

#define WORD(list, i) ((i) < sizeof(list) / sizeof((list)[0]) ? (list)[i] : (list)[0])

const char *muster_func_word(unsigned func)
{
    static const char *const word[MUSTER_FUNCS] = {
        [MUSTER_FUNC_UNKNOWN] = "unknown",
        [MUSTER_FUNC_ALL_REDUCE] = "AllReduce",
        [MUSTER_FUNC_ALL_GATHER] = "AllGather",
        [MUSTER_FUNC_REDUCE_SCATTER] = "ReduceScatter",
        [MUSTER_FUNC_BROADCAST] = "Broadcast",
        [MUSTER_FUNC_REDUCE] = "Reduce",
        [MUSTER_FUNC_SEND] = "Send",
        [MUSTER_FUNC_RECV] = "Recv",
        [MUSTER_FUNC_ALL_TO_ALL] = "AllToAll",
        [MUSTER_FUNC_GATHER] = "Gather",
        [MUSTER_FUNC_SCATTER] = "Scatter",
    };
    return WORD(word, func);
}

const char *muster_dtype_word(unsigned dtype)
{
    static const char *const word[MUSTER_DTYPES] = {
        [MUSTER_DTYPE_UNKNOWN] = "unknown",       [MUSTER_DTYPE_INT8] = "int8",
        [MUSTER_DTYPE_UINT8] = "uint8",           [MUSTER_DTYPE_INT32] = "int32",
        [MUSTER_DTYPE_UINT32] = "uint32",         [MUSTER_DTYPE_INT64] = "int64",
        [MUSTER_DTYPE_UINT64] = "uint64",         [MUSTER_DTYPE_FLOAT16] = "float16",
        [MUSTER_DTYPE_FLOAT32] = "float32",       [MUSTER_DTYPE_FLOAT64] = "float64",
        [MUSTER_DTYPE_BFLOAT16] = "bfloat16",     [MUSTER_DTYPE_FLOAT8E4M3] = "float8e4m3",
        [MUSTER_DTYPE_FLOAT8E5M2] = "float8e5m2",
    };
    return WORD(word, dtype);
}

const char *muster_algo_word(unsigned algo)
{
    static const char *const word[MUSTER_ALGOS] = {
        [MUSTER_ALGO_UNKNOWN] = "unknown",
        [MUSTER_ALGO_TREE] = "tree",
        [MUSTER_ALGO_RING] = "ring",
        [MUSTER_ALGO_COLLNET_DIRECT] = "collnet_direct",
        [MUSTER_ALGO_COLLNET_CHAIN] = "collnet_chain",
        [MUSTER_ALGO_NVLS] = "nvls",
        [MUSTER_ALGO_NVLS_TREE] = "nvls_tree",
        [MUSTER_ALGO_PAT] = "pat",
        [MUSTER_ALGO_CE] = "ce",
    };
    return WORD(word, algo);
}

const char *muster_proto_word(unsigned proto)
{
    static const char *const word[MUSTER_PROTOS] = {
        [MUSTER_PROTO_UNKNOWN] = "unknown",
        [MUSTER_PROTO_LL] = "ll",
        [MUSTER_PROTO_LL128] = "ll128",
        [MUSTER_PROTO_SIMPLE] = "simple",
    };
    return WORD(word, proto);
}

const char *muster_source_word(unsigned source)
{
    static const char *const word[MUSTER_SOURCES] = {
        [MUSTER_SOURCE_NONE] = "none",
        [MUSTER_SOURCE_HOST] = "host",
        [MUSTER_SOURCE_PROXY] = "proxy",
        [MUSTER_SOURCE_GPU] = "gpu",
    };
    return WORD(word, source);
}

unsigned muster_dtype_bytes(unsigned dtype)
{
    static const unsigned char bytes[MUSTER_DTYPES] = {
        [MUSTER_DTYPE_UNKNOWN] = 0,    [MUSTER_DTYPE_INT8] = 1,     [MUSTER_DTYPE_UINT8] = 1,
        [MUSTER_DTYPE_INT32] = 4,      [MUSTER_DTYPE_UINT32] = 4,   [MUSTER_DTYPE_INT64] = 8,
        [MUSTER_DTYPE_UINT64] = 8,     [MUSTER_DTYPE_FLOAT16] = 2,  [MUSTER_DTYPE_FLOAT32] = 4,
        [MUSTER_DTYPE_FLOAT64] = 8,    [MUSTER_DTYPE_BFLOAT16] = 2, [MUSTER_DTYPE_FLOAT8E4M3] = 1,
        [MUSTER_DTYPE_FLOAT8E5M2] = 1,
    };
    return WORD(bytes, dtype);
}

uint64_t muster_op_size_bytes(unsigned func, unsigned dtype, uint64_t count, uint32_t nranks)
{
    uint64_t bytes;
    bool gathers = func == MUSTER_FUNC_ALL_GATHER || func == MUSTER_FUNC_REDUCE_SCATTER;
    uint64_t factor = gathers && nranks > 0 ? nranks : 1;
    if (__builtin_mul_overflow(count, muster_dtype_bytes(dtype), &bytes) ||
        __builtin_mul_overflow(bytes, factor, &bytes))
        return UINT64_MAX;
    return bytes;
}

double muster_busbw_factor(unsigned func, uint32_t nranks)
{
    if (nranks == 0)
        return 1;
    double others = (double)(nranks - 1) / nranks;
    switch (func) {
    case MUSTER_FUNC_ALL_REDUCE:
        return 2 * others;
    case MUSTER_FUNC_ALL_GATHER:
    case MUSTER_FUNC_REDUCE_SCATTER:
    case MUSTER_FUNC_ALL_TO_ALL:
    case MUSTER_FUNC_GATHER:
    case MUSTER_FUNC_SCATTER:
        return others;
    default:
        return 1;
    }
}
