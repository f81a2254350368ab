#include "nccl/words.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* NCCL has at most 15 words of a kind, but a process may have several libnccl with a literal each.
 */
enum { SETS = 16, SETS_SHIFT = 60, WAYS = 4, ADDRESS_BITS = 56 };

struct word {
    const char *text;
    uint8_t value;
    uint8_t number; /* v1's enumerator */
};

/* The first word of a value is the one that NCCL sends. */
static const struct word funcs[] = {
    {"AllReduce", MUSTER_FUNC_ALL_REDUCE, 4},
    {"AllGather", MUSTER_FUNC_ALL_GATHER, 2},
    {"ReduceScatter", MUSTER_FUNC_REDUCE_SCATTER, 3},
    {"Broadcast", MUSTER_FUNC_BROADCAST, 0},
    {"Reduce", MUSTER_FUNC_REDUCE, 1},
    {"Send", MUSTER_FUNC_SEND, 6},
    {"Recv", MUSTER_FUNC_RECV, 7},
    {"AlltoAll", MUSTER_FUNC_ALL_TO_ALL, 8},
    {"Scatter", MUSTER_FUNC_SCATTER, 9},
    {"Gather", MUSTER_FUNC_GATHER, 10},
};

static const struct word dtypes[] = {
    {"ncclFloat32", MUSTER_DTYPE_FLOAT32, 7},
    {"ncclBfloat16", MUSTER_DTYPE_BFLOAT16, 9},
    {"ncclFloat16", MUSTER_DTYPE_FLOAT16, 6},
    {"ncclInt8", MUSTER_DTYPE_INT8, 0},
    {"Unknown", MUSTER_DTYPE_UINT8, 1}, /* the one type that ncclDatatypeToString leaves out */
    {"ncclUint8", MUSTER_DTYPE_UINT8, 1},
    {"ncclInt32", MUSTER_DTYPE_INT32, 2},
    {"ncclUint32", MUSTER_DTYPE_UINT32, 3},
    {"ncclInt64", MUSTER_DTYPE_INT64, 4},
    {"ncclUint64", MUSTER_DTYPE_UINT64, 5},
    {"ncclFloat64", MUSTER_DTYPE_FLOAT64, 8},
    {"ncclFloat8e4m3", MUSTER_DTYPE_FLOAT8E4M3, 10},
    {"ncclFloat8e5m2", MUSTER_DTYPE_FLOAT8E5M2, 11},
};

static const struct word algos[] = {
    {"TREE", MUSTER_ALGO_TREE, 0},
    {"RING", MUSTER_ALGO_RING, 1},
    {"COLLNET_DIRECT", MUSTER_ALGO_COLLNET_DIRECT, 2},
    {"COLLNET_CHAIN", MUSTER_ALGO_COLLNET_CHAIN, 3},
    {"NVLS", MUSTER_ALGO_NVLS, 4},
    {"NVLS_TREE", MUSTER_ALGO_NVLS_TREE, 5},
    {"PAT", MUSTER_ALGO_PAT, 6},
};

static const struct word protos[] = {
    {"LL", MUSTER_PROTO_LL, 0},
    {"LL128", MUSTER_PROTO_LL128, 1},
    {"SIMPLE", MUSTER_PROTO_SIMPLE, 2},
};

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    const struct word *word;
    size_t n;
} vocabularies[MUSTER_WORDS_KINDS] = {
    [MUSTER_WORDS_FUNC] = {funcs, LEN(funcs)},
    [MUSTER_WORDS_DTYPE] = {dtypes, LEN(dtypes)},
    [MUSTER_WORDS_ALGO] = {algos, LEN(algos)},
    [MUSTER_WORDS_PROTO] = {protos, LEN(protos)},
};

/* Address below, value in the top byte, so that one load gives both of the same literal and relaxed
 * order is enough: an entry says nothing about any other memory. 0 is empty. */
static _Atomic uint64_t seen[MUSTER_WORDS_KINDS][SETS][WAYS];

static _Atomic uint64_t *set_of(enum muster_words kind, uint64_t address)
{
    /* 2^64 / the golden ratio spreads neighbouring addresses over the top bits (Knuth, TAOCP 6.4)
     */
    return seen[kind][(address * 0x9e3779b97f4a7c15u) >> SETS_SHIFT];
}

/* Two threads that learn at once may overwrite each other: the loser is learnt again. Only known
 * words are kept, so no input makes more entries than there are literals. */
__attribute__((noinline, cold)) static uint8_t learn(enum muster_words kind, const char *literal)
{
    uint8_t value = muster_words_match(kind, literal);
    uint64_t address = (uintptr_t)literal;
    if (value == 0 || address >> ADDRESS_BITS != 0)
        return value;
    _Atomic uint64_t *way = set_of(kind, address);
    unsigned i = 0;
    while (i < WAYS && atomic_load_explicit(&way[i], memory_order_relaxed) != 0)
        i++;
    if (i == WAYS)
        i = value % WAYS;
    atomic_store_explicit(&way[i], address | (uint64_t)value << ADDRESS_BITS, memory_order_relaxed);
    return value;
}

uint8_t muster_words_value(enum muster_words kind, const char *literal)
{
    if (!literal)
        return 0;
    uint64_t address = (uintptr_t)literal;
    _Atomic uint64_t *way = set_of(kind, address);
    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t entry = atomic_load_explicit(&way[i], memory_order_relaxed);
        if (entry << (64 - ADDRESS_BITS) == address << (64 - ADDRESS_BITS))
            return (uint8_t)(entry >> ADDRESS_BITS);
    }
    return learn(kind, literal);
}

void muster_words_forget(void)
{
    for (unsigned kind = 0; kind < MUSTER_WORDS_KINDS; kind++)
        for (unsigned set = 0; set < SETS; set++)
            for (unsigned i = 0; i < WAYS; i++)
                atomic_store_explicit(&seen[kind][set][i], 0, memory_order_relaxed);
}

uint8_t muster_words_match(enum muster_words kind, const char *text)
{
    if (!text)
        return 0;
    for (size_t i = 0; i < vocabularies[kind].n; i++)
        if (strcmp(vocabularies[kind].word[i].text, text) == 0)
            return vocabularies[kind].word[i].value;
    return 0;
}

static const struct word *word_of_value(enum muster_words kind, unsigned value)
{
    for (size_t i = 0; i < vocabularies[kind].n; i++)
        if (vocabularies[kind].word[i].value == value)
            return &vocabularies[kind].word[i];
    return NULL;
}

const char *muster_words_text(enum muster_words kind, unsigned value)
{
    const struct word *word = word_of_value(kind, value);
    return word ? word->text : NULL;
}

uint8_t muster_words_of_number(enum muster_words kind, unsigned number)
{
    for (size_t i = 0; i < vocabularies[kind].n; i++)
        if (vocabularies[kind].word[i].number == number)
            return vocabularies[kind].word[i].value;
    return 0;
}

uint8_t muster_words_number(enum muster_words kind, unsigned value)
{
    const struct word *word = word_of_value(kind, value);
    return word ? word->number : MUSTER_WORDS_NO_NUMBER;
}
