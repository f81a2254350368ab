#include "base/nccl_types.h"

#include <stdio.h>

#define WORD(list, i) ((i) < sizeof(list) / sizeof((list)[0]) ? (list)[i] : (list)[0])

#define NAME(kind, name, ...) name,

const char *muster_func_name(unsigned func)
{
    static const char *const word[] = {"unknown", MUSTER_FUNC_LIST(NAME)};
    return WORD(word, func);
}

const char *muster_dtype_name(unsigned dtype)
{
    static const char *const word[] = {"unknown", MUSTER_DTYPE_LIST(NAME)};
    return WORD(word, dtype);
}

const char *muster_algo_name(unsigned algo)
{
    static const char *const word[] = {"unknown", MUSTER_ALGO_LIST(NAME)};
    return WORD(word, algo);
}

const char *muster_proto_name(unsigned proto)
{
    static const char *const word[] = {"unknown", MUSTER_PROTO_LIST(NAME)};
    return WORD(word, proto);
}

const char *muster_source_name(unsigned source)
{
    static const char *const word[MUSTER_SOURCES] = {
        [MUSTER_SOURCE_NONE] = "none",   [MUSTER_SOURCE_HOST] = "host",
        [MUSTER_SOURCE_PROXY] = "proxy", [MUSTER_SOURCE_GPU] = "gpu",
        [MUSTER_SOURCE_EVENT] = "event",
    };
    return WORD(word, source);
}

unsigned muster_dtype_bytes(unsigned dtype)
{
#define BYTES(kind, name, nccl, number, bytes) bytes,
    static const unsigned char size[] = {0, MUSTER_DTYPE_LIST(BYTES)};
#undef BYTES
    return WORD(size, dtype);
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

uint32_t muster_nccl_version_code(uint32_t given)
{
    enum { LEAST_OF_NOW = 10000 };
    return given < LEAST_OF_NOW ? given / 1000 * 10000 + given % 1000 : given;
}

void muster_nccl_version_text(char *to, size_t size, uint32_t given)
{
    uint32_t code = muster_nccl_version_code(given);
    snprintf(to, size, "%u.%u.%u", code / 10000, code / 100 % 100, code % 100);
}
