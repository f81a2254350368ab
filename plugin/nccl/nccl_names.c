#include "nccl/nccl_names.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* NCCL has at most 15 words of a kind, but a process may have several libnccl with a literal each.
 */
struct word {
    const char *text; /* NULL: NCCL has none */
    uint8_t value;
    uint8_t number; /* v1's enumerator */
};

#define FUNC(kind, name, nccl, number, policy) {nccl, MUSTER_FUNC_##kind, number},
#define DTYPE(kind, name, nccl, number, bytes) {nccl, MUSTER_DTYPE_##kind, number},
#define ALGO(kind, name, nccl, number, env)    {nccl, MUSTER_ALGO_##kind, number},
#define PROTO(kind, name, nccl, number)        {nccl, MUSTER_PROTO_##kind, number},

/* The first word of a value is the one that NCCL sends. */
static const struct word funcs[] = {MUSTER_FUNC_LIST(FUNC)};
static const struct word dtypes[] = {MUSTER_DTYPE_LIST(DTYPE){"ncclUint8", MUSTER_DTYPE_UINT8, 1}};
static const struct word algos[] = {MUSTER_ALGO_LIST(ALGO)};
static const struct word protos[] = {MUSTER_PROTO_LIST(PROTO)};

#define LEN(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
    const struct word *word;
    size_t n;
} vocabularies[MUSTER_NAMES_KINDS] = {
    [MUSTER_NAMES_FUNC] = {funcs, LEN(funcs)},
    [MUSTER_NAMES_DTYPE] = {dtypes, LEN(dtypes)},
    [MUSTER_NAMES_ALGO] = {algos, LEN(algos)},
    [MUSTER_NAMES_PROTO] = {protos, LEN(protos)},
};

_Atomic uint64_t muster_names_seen[MUSTER_NAMES_KINDS][MUSTER_NAMES_SETS][MUSTER_NAMES_WAYS];

/* Two threads that learn at once may overwrite each other: the loser is learnt again. A word that
 * is none of ours is kept as well: 2.31's symmetric kernels send one in every event. */
__attribute__((cold)) uint8_t muster_names_learn(enum muster_names kind, const char *literal)
{
    uint8_t value = muster_names_match(kind, literal);
    uint64_t address = (uintptr_t)literal;
    if (address >> MUSTER_NAMES_ADDRESS_BITS != 0)
        return value;
    _Atomic uint64_t *way = muster_names_set(kind, address);
    unsigned i = 0;
    while (i < MUSTER_NAMES_WAYS && atomic_load_explicit(&way[i], memory_order_relaxed) != 0)
        i++;
    if (i == MUSTER_NAMES_WAYS)
        i = value % MUSTER_NAMES_WAYS;
    atomic_store_explicit(&way[i], address | (uint64_t)value << MUSTER_NAMES_ADDRESS_BITS,
                          memory_order_relaxed);
    return value;
}

void muster_names_forget(void)
{
    for (unsigned kind = 0; kind < MUSTER_NAMES_KINDS; kind++)
        for (unsigned set = 0; set < MUSTER_NAMES_SETS; set++)
            for (unsigned i = 0; i < MUSTER_NAMES_WAYS; i++)
                atomic_store_explicit(&muster_names_seen[kind][set][i], 0, memory_order_relaxed);
}

uint8_t muster_names_match(enum muster_names kind, const char *text)
{
    if (!text)
        return 0;
    for (size_t i = 0; i < vocabularies[kind].n; i++)
        if (vocabularies[kind].word[i].text && strcmp(vocabularies[kind].word[i].text, text) == 0)
            return vocabularies[kind].word[i].value;
    return 0;
}

static const struct word *word_of_value(enum muster_names kind, unsigned value)
{
    for (size_t i = 0; i < vocabularies[kind].n; i++)
        if (vocabularies[kind].word[i].value == value)
            return &vocabularies[kind].word[i];
    return NULL;
}

const char *muster_names_text(enum muster_names kind, unsigned value)
{
    const struct word *word = word_of_value(kind, value);
    return word ? word->text : NULL;
}

uint8_t muster_names_of_number(enum muster_names kind, unsigned number)
{
    for (size_t i = 0; i < vocabularies[kind].n; i++)
        if (vocabularies[kind].word[i].text && vocabularies[kind].word[i].number == number)
            return vocabularies[kind].word[i].value;
    return 0;
}

uint8_t muster_names_number(enum muster_names kind, unsigned value)
{
    const struct word *word = word_of_value(kind, value);
    return word ? word->number : MUSTER_NCCL_NO_NUMBER;
}
