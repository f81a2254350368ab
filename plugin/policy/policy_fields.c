#include "policy/policy_fields.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"

#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

enum { WORD_MAX = 32, LIST_MAX = 24 };

#define RULE   MUSTER_SECTION_RULE
#define MATCH  MUSTER_SECTION_MATCH
#define PREFER MUSTER_SECTION_PREFER
#define AVOID  MUSTER_SECTION_AVOID

const struct muster_policy_field muster_policy_fields[] = {
    {
        .word = "name",
        .sections = RULE,
        .type = MUSTER_FIELD_NAME,
        .help = "shown in logs, explanations and reports; letters, digits, '.', '_' and '-'",
    },
    {
        .word = "match",
        .sections = RULE,
        .type = MUSTER_FIELD_SECTION,
        .opens = MATCH,
        .help = "which operations: all keys must match; without it the rule matches everything",
    },
    {
        .word = "prefer",
        .sections = RULE,
        .type = MUSTER_FIELD_SECTION,
        .opens = PREFER,
        .help = "NCCL chooses among these, in its own order, if it offers any of them",
    },
    {
        .word = "avoid",
        .sections = RULE,
        .type = MUSTER_FIELD_SECTION,
        .opens = AVOID,
        .help = "NCCL does not choose these, if it offers anything else",
    },
    {
        .word = "channels",
        .sections = RULE | PREFER,
        .type = MUSTER_FIELD_CHANNELS,
        .help = "how many channels NCCL may use at most; it never uses more than it has",
    },
    {
        .word = "leave",
        .sections = RULE,
        .type = MUSTER_FIELD_LEAVE,
        .help = "true: the choice stays NCCL's, and no later rule is looked at",
    },
    {
        .word = "collective",
        .sections = MATCH,
        .type = MUSTER_FIELD_COLLECTIVE,
        .help = "one or a list",
    },
    {
        .word = "bytes",
        .sections = MATCH,
        .type = MUSTER_FIELD_RANGES,
        .key = MUSTER_KEY_BYTES,
        .sizes = true,
        .help = "of the whole operation, as NCCL passes it: several calls of a group may be one",
    },
    {
        .word = "bytes_per_rank",
        .sections = MATCH,
        .type = MUSTER_FIELD_RANGES,
        .key = MUSTER_KEY_BYTES_PER_RANK,
        .sizes = true,
        .help = "bytes divided by the communicator's ranks, rounded down",
    },
    {
        .word = "ranks",
        .sections = MATCH,
        .type = MUSTER_FIELD_RANGES,
        .key = MUSTER_KEY_RANKS,
        .min = 1,
        .help = "of the communicator",
    },
    {
        .word = "nodes",
        .sections = MATCH,
        .type = MUSTER_FIELD_RANGES,
        .key = MUSTER_KEY_NODES,
        .min = 1,
        .help = "of the communicator, as NCCL counts them",
    },
    {
        .word = "ranks_per_node",
        .sections = MATCH,
        .type = MUSTER_FIELD_RANGES,
        .key = MUSTER_KEY_RANKS_PER_NODE,
        .min = 1,
        .help = "ranks divided by nodes; matches nothing where that is no whole number",
    },
    {
        .word = "nvlink_domains",
        .sections = MATCH,
        .type = MUSTER_FIELD_RANGES,
        .key = MUSTER_KEY_NVLINK_DOMAINS,
        .min = 1,
        .help = "of the communicator; NCCL before 2.28 does not tell, and then nothing matches",
    },
    {
        .word = "pipe_ops",
        .sections = MATCH,
        .type = MUSTER_FIELD_RANGES,
        .key = MUSTER_KEY_PIPE_OPS,
        .min = 1,
        .help = "operations of a group that NCCL sends one after another through a channel",
    },
    {
        .word = "algo",
        .sections = PREFER | AVOID,
        .type = MUSTER_FIELD_ALGO,
        .help = "one or a list; without it any",
    },
    {
        .word = "proto",
        .sections = PREFER | AVOID,
        .type = MUSTER_FIELD_PROTO,
        .help = "one or a list; without it any",
    },
};
const size_t muster_policy_field_count = COUNT_OF(muster_policy_fields);

static const struct {
    const char *word;
    unsigned sections;
    const char *why;
} unsupported[] = {
    {"chunk_size", RULE | PREFER,
     "NCCL asks for the chunk of a channel's share, not of the operation"},
    {"health", MATCH | RULE, "it is not known to be equal on all ranks, and unequal choices hang"},
    {"link", MATCH, "it is not known to be equal on all ranks, and unequal choices hang"},
    {"latency", MATCH, "a measurement of one rank differs on another, and unequal choices hang"},
    {"bandwidth", MATCH, "a measurement of one rank differs on another, and unequal choices hang"},
    {"late", MATCH, "a measurement of one rank differs on another, and unequal choices hang"},
    {"share", MATCH | RULE, "counts of calls may differ between ranks, and unequal choices hang"},
    {"fraction", MATCH | RULE,
     "counts of calls may differ between ranks, and unequal choices hang"},
    {"probability", MATCH | RULE, "chance differs between ranks, and unequal choices hang"},
    {"rank", MATCH, "it differs between ranks, and unequal choices hang"},
    {"host", MATCH, "it differs between ranks, and unequal choices hang"},
    {"gpu", MATCH, "it may differ between ranks, and unequal choices hang"},
    {"registered", MATCH, "it may differ between ranks, and unequal choices hang"},
    {"datatype", MATCH, "NCCL does not tell it"},
    {"comm", MATCH, "NCCL does not tell it in every version"},
};

struct word {
    const char *text; /* NULL: nothing that can be chosen */
    unsigned value;
};

#define COLLECTIVE(kind, name, nccl, number, policy) {policy, MUSTER_FUNC_##kind},
#define ALGO(kind, name, nccl, number, env)          {(nccl) != NULL ? (name) : NULL, MUSTER_ALGO_##kind},
#define PROTO(kind, name, nccl, number)              {name, MUSTER_PROTO_##kind},

static const struct word collectives[] = {MUSTER_FUNC_LIST(COLLECTIVE)};
static const struct word algos[] = {MUSTER_ALGO_LIST(ALGO)};
static const struct word protos[] = {MUSTER_PROTO_LIST(PROTO)};

/* What can be chosen stands before what cannot. */
static const struct word *words_of(enum muster_policy_type type, size_t *n)
{
    const struct word *words = type == MUSTER_FIELD_COLLECTIVE ? collectives
                               : type == MUSTER_FIELD_ALGO     ? algos
                               : type == MUSTER_FIELD_PROTO    ? protos
                                                               : NULL;
    *n = type == MUSTER_FIELD_COLLECTIVE ? COUNT_OF(collectives)
         : type == MUSTER_FIELD_ALGO     ? COUNT_OF(algos)
         : type == MUSTER_FIELD_PROTO    ? COUNT_OF(protos)
                                         : 0;
    while (*n > 0 && !words[*n - 1].text)
        --*n;
    return words;
}

const char *muster_policy_key_name(enum muster_policy_key key)
{
    for (size_t i = 0; i < muster_policy_field_count; i++) {
        const struct muster_policy_field *field = &muster_policy_fields[i];
        if (field->type == MUSTER_FIELD_RANGES && field->key == key)
            return field->word;
    }
    return "unknown";
}

const struct muster_policy_field *muster_policy_field(unsigned section, const char *word)
{
    for (size_t i = 0; i < muster_policy_field_count; i++) {
        const struct muster_policy_field *field = &muster_policy_fields[i];
        if (field->sections & section && strcmp(field->word, word) == 0)
            return field;
    }
    return NULL;
}

static size_t fields_of(unsigned section, const char *list[LIST_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < muster_policy_field_count && n < LIST_MAX; i++)
        if (muster_policy_fields[i].sections & section)
            list[n++] = muster_policy_fields[i].word;
    return n;
}

static void print_list(char *to, size_t size, const char *const *list, size_t n)
{
    struct muster_text text = muster_text_begin(to, size);
    for (size_t i = 0; i < n; i++)
        muster_text_add(&text, "%s%s", muster_text_join(i, n, " or "), list[i]);
}

const char *muster_policy_nearest_field(unsigned section, const char *word)
{
    const char *list[LIST_MAX];
    return muster_text_nearest(word, list, fields_of(section, list));
}

void muster_policy_field_list(unsigned section, char *to, size_t size)
{
    const char *list[LIST_MAX];
    print_list(to, size, list, fields_of(section, list));
}

const char *muster_policy_unsupported(unsigned section, const char *word)
{
    for (size_t i = 0; i < COUNT_OF(unsupported); i++)
        if (unsupported[i].sections & section && strcmp(unsupported[i].word, word) == 0)
            return unsupported[i].why;
    return NULL;
}

/* Without what makes no difference; "" for what is too long to be a word. */
static void merge(char to[WORD_MAX], const char *text)
{
    size_t n = 0;
    for (; *text && n < WORD_MAX - 1; text++)
        if (*text != '_' && *text != '-')
            to[n++] = (char)tolower((unsigned char)*text);
    to[*text ? 0 : n] = '\0';
}

unsigned muster_policy_name_value(enum muster_policy_type type, const char *text)
{
    char wanted[WORD_MAX], known[WORD_MAX];
    size_t n;
    const struct word *word = words_of(type, &n);
    merge(wanted, text);
    for (size_t i = 0; i < n; i++) {
        merge(known, word[i].text);
        if (strcmp(known, wanted) == 0)
            return word[i].value;
    }
    return 0;
}

const char *muster_policy_name(enum muster_policy_type type, size_t index)
{
    size_t n;
    const struct word *word = words_of(type, &n);
    return index < n ? word[index].text : NULL;
}

const char *muster_policy_name_of(enum muster_policy_type type, unsigned value)
{
    size_t n;
    const struct word *word = words_of(type, &n);
    for (size_t i = 0; i < n; i++)
        if (word[i].value == value)
            return word[i].text;
    return "unknown";
}

static size_t list_words(enum muster_policy_type type, const char *list[LIST_MAX])
{
    size_t n;
    const struct word *word = words_of(type, &n);
    for (size_t i = 0; i < n; i++)
        list[i] = word[i].text;
    return n;
}

const char *muster_policy_nearest_name(enum muster_policy_type type, const char *text)
{
    const char *list[LIST_MAX];
    return muster_text_nearest(text, list, list_words(type, list));
}

void muster_policy_name_list(enum muster_policy_type type, char *to, size_t size)
{
    const char *list[LIST_MAX];
    print_list(to, size, list, list_words(type, list));
}
