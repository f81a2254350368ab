/*
 * Rules become, per collective and interval of pipe_ops, a sorted row of starts of byte intervals,
 * each with the rule that decides there. An index by exponent and three bits of mantissa leaves
 * few starts to search.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/sort.h"
#include "policy/decide.h"
#include "policy/policy.h"
#include "policy/range.h"

enum {
    MANTISSA = 3,
    BUCKETS = (64 - MANTISSA + 1) << MANTISSA,
    PIECES = MUSTER_POLICY_PIPE_BOUNDS + 2,
    WORDS = MUSTER_POLICY_RULES / 64,
};

struct line {
    uint32_t n;      /* intervals; the first starts at 0 */
    uint64_t *start; /* of each */
    int16_t *rule;   /* of each; MUSTER_POLICY_NO_RULE: none */
    uint32_t *index; /* the last interval that starts at or before each bucket */
};

struct muster_frozen {
    struct {
        uint32_t n;
        uint64_t pipe_start[PIECES];
        struct line line[PIECES];
    } func[MUSTER_FUNCS];
    struct muster_arena memory; /* of the lines */
};

static inline unsigned bucket_of(uint64_t bytes)
{
    if (bytes < 1u << MANTISSA)
        return (unsigned)bytes;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(bytes);
    unsigned mantissa = (unsigned)(bytes >> (exponent - MANTISSA)) & ((1u << MANTISSA) - 1);
    return ((exponent - MANTISSA + 1) << MANTISSA) + mantissa;
}

static uint64_t bucket_start(unsigned bucket)
{
    if (bucket < 1u << MANTISSA)
        return bucket;
    unsigned exponent = (bucket >> MANTISSA) + MANTISSA - 1;
    uint64_t mantissa = (1u << MANTISSA) + (bucket & ((1u << MANTISSA) - 1));
    return mantissa << (exponent - MANTISSA);
}

static inline int line_find(const struct line *line, uint64_t bytes)
{
    unsigned bucket = bucket_of(bytes);
    uint32_t low = line->index[bucket], high = line->index[bucket + 1];
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (line->start[middle] <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return line->rule[low];
}

int muster_frozen_decide(const struct muster_frozen *frozen, unsigned func, uint64_t bytes,
                         uint64_t pipe_ops)
{
    if (func >= MUSTER_FUNCS || frozen->func[func].n == 0)
        return MUSTER_POLICY_NO_RULE;
    uint32_t piece = 0;
    while (piece + 1 < frozen->func[func].n && frozen->func[func].pipe_start[piece + 1] <= pipe_ops)
        piece++;
    return line_find(&frozen->func[func].line[piece], bytes);
}

/* ---- Sweeping over bytes ---- */

struct edge {
    uint64_t at;
    uint32_t rule;
    bool opens;
};

struct sweep {
    struct edge *edge;
    size_t edges;
    uint64_t open[WORDS]; /* rules that match here */
};

static bool add_edge(struct sweep *sweep, uint64_t at, unsigned rule, bool opens)
{
    if (!muster_grow(&sweep->edge, sweep->edges, sizeof(*sweep->edge)))
        return false;
    sweep->edge[sweep->edges++] = (struct edge){at, rule, opens};
    return true;
}

static int by_place(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static int first_open(const struct sweep *sweep)
{
    for (unsigned i = 0; i < WORDS; i++)
        if (sweep->open[i])
            return (int)(i * 64 + (unsigned)__builtin_ctzll(sweep->open[i]));
    return MUSTER_POLICY_NO_RULE;
}

static uint64_t scale(uint64_t value, uint64_t ranks, uint64_t more)
{
    uint64_t product;
    if (__builtin_mul_overflow(value, ranks, &product) ||
        __builtin_add_overflow(product, more, &product))
        return UINT64_MAX;
    return product;
}

/* The bytes at which a rule matches: what its two keys of bytes have in common. */
static unsigned byte_ranges(struct muster_policy_range *to, const struct muster_policy *policy,
                            const struct muster_rule *rule, uint64_t ranks)
{
    static const struct muster_policy_range any = {0, UINT64_MAX};
    struct muster_policy_range scaled[MUSTER_POLICY_RANGES] = {any};
    struct muster_policy_match bytes = rule->match[MUSTER_KEY_BYTES];
    struct muster_policy_match share = rule->match[MUSTER_KEY_BYTES_PER_RANK];
    unsigned n = share.n ? 0 : 1;
    for (uint32_t i = 0; i < share.n; i++) {
        const struct muster_policy_range *range = &policy->range[share.first + i];
        uint64_t product;
        if (__builtin_mul_overflow(range->min, ranks, &product))
            continue; /* more than there can be */
        scaled[n++] = (struct muster_policy_range){product, scale(range->max, ranks, ranks - 1)};
    }
    return muster_ranges_intersect(to, bytes.n ? &policy->range[bytes.first] : &any,
                                   bytes.n ? bytes.n : 1, scaled, n);
}

static bool add_rule(struct sweep *sweep, const struct muster_policy *policy, unsigned rule,
                     uint64_t ranks)
{
    struct muster_policy_range range[2 * MUSTER_POLICY_RANGES];
    unsigned n = byte_ranges(range, policy, &policy->rule[rule], ranks);
    for (unsigned i = 0; i < n; i++)
        if (!add_edge(sweep, range[i].min, rule, true) ||
            (range[i].max != UINT64_MAX && !add_edge(sweep, range[i].max + 1, rule, false)))
            return false;
    return true;
}

static void put(struct line *line, uint64_t start, int rule)
{
    if (line->n && line->rule[line->n - 1] == rule)
        return;
    line->start[line->n] = start;
    line->rule[line->n++] = (int16_t)rule;
}

static void index_line(struct line *line)
{
    uint32_t at = 0;
    for (unsigned bucket = 0; bucket < BUCKETS; bucket++) {
        while (at + 1 < line->n && line->start[at + 1] <= bucket_start(bucket))
            at++;
        line->index[bucket] = at;
    }
    line->index[BUCKETS] = line->n - 1;
}

static bool make_line(struct muster_arena *memory, struct line *line, struct sweep *sweep)
{
    line->start = muster_arena_array(memory, sweep->edges + 1, sizeof(*line->start));
    line->rule = muster_arena_array(memory, sweep->edges + 1, sizeof(*line->rule));
    line->index = muster_arena_array(memory, BUCKETS + 1, sizeof(*line->index));
    if (memory->failed)
        return false;
    if (sweep->edges)
        qsort(sweep->edge, sweep->edges, sizeof(*sweep->edge), by_place);
    memset(sweep->open, 0, sizeof(sweep->open));
    if (sweep->edges == 0 || sweep->edge[0].at > 0)
        put(line, 0, MUSTER_POLICY_NO_RULE);
    for (size_t i = 0; i < sweep->edges; i++) {
        const struct edge *edge = &sweep->edge[i];
        uint64_t bit = 1ull << edge->rule % 64;
        if (edge->opens)
            sweep->open[edge->rule / 64] |= bit;
        else
            sweep->open[edge->rule / 64] &= ~bit;
        if (i + 1 == sweep->edges || sweep->edge[i + 1].at != edge->at)
            put(line, edge->at, first_open(sweep));
    }
    index_line(line);
    return true;
}

/* ---- Constants of the communicator, pieces of pipe_ops ---- */

static bool matches_comm(const struct muster_policy *policy, const struct muster_rule *rule,
                         const struct muster_query *comm)
{
    for (unsigned key = MUSTER_KEY_RANKS; key < MUSTER_KEY_PIPE_OPS; key++)
        if (!muster_rule_matches_key(policy, rule, comm, (enum muster_policy_key)key))
            return false;
    return comm->ranks > 0 || rule->match[MUSTER_KEY_BYTES_PER_RANK].n == 0;
}

static bool freeze_piece(struct muster_arena *memory, struct line *line, struct sweep *sweep,
                         const struct muster_policy *policy, const struct muster_query *query)
{
    sweep->edges = 0;
    for (unsigned i = 0; i < policy->rules; i++) {
        const struct muster_rule *rule = &policy->rule[i];
        if (muster_rule_matches_func(rule, query->func) && matches_comm(policy, rule, query) &&
            muster_rule_matches_key(policy, rule, query, MUSTER_KEY_PIPE_OPS) &&
            !add_rule(sweep, policy, i, query->ranks))
            return false;
    }
    return make_line(memory, line, sweep);
}

/* Where pieces of pipe_ops start: 0 and every bound; the parser sees to it that they fit. */
static uint32_t pipe_pieces(uint64_t start[PIECES], const struct muster_policy *policy)
{
    uint32_t n = 1;
    start[0] = 0;
    for (unsigned i = 0; i < policy->rules; i++) {
        struct muster_policy_match match = policy->rule[i].match[MUSTER_KEY_PIPE_OPS];
        for (uint32_t j = 0; j < 2 * match.n; j++) {
            const struct muster_policy_range *range = &policy->range[match.first + j / 2];
            uint64_t at = j % 2 ? range->max + 1 : range->min; /* 0 after the last: there already */
            bool known = false;
            for (uint32_t k = 0; k < n; k++)
                known |= start[k] == at;
            if (!known && n < PIECES)
                start[n++] = at;
        }
    }
    muster_sort_u64(start, n);
    return n;
}

static bool freeze_func(struct muster_frozen *frozen, struct sweep *sweep,
                        const struct muster_policy *policy, struct muster_query query)
{
    uint64_t start[PIECES];
    uint32_t n = pipe_pieces(start, policy);
    for (uint32_t i = 0; i < n; i++) {
        query.pipe_ops = start[i];
        frozen->func[query.func].pipe_start[i] = start[i];
        frozen->func[query.func].n = i + 1;
        if (!freeze_piece(&frozen->memory, &frozen->func[query.func].line[i], sweep, policy,
                          &query))
            return false;
    }
    return true;
}

int muster_policy_freeze(struct muster_frozen **frozen, const struct muster_policy *policy,
                         const struct muster_query *comm)
{
    struct muster_frozen *made = calloc(1, sizeof(*made));
    struct sweep sweep = {.edge = NULL};
    bool good = made != NULL;
    for (unsigned func = 0; good && func < MUSTER_FUNCS; func++) {
        struct muster_query query = *comm;
        query.func = func;
        if (muster_policy_available(func))
            good = freeze_func(made, &sweep, policy, query);
    }
    free(sweep.edge);
    if (!good) {
        muster_frozen_free(made);
        return -1;
    }
    *frozen = made;
    return 0;
}

void muster_frozen_free(struct muster_frozen *frozen)
{
    if (!frozen)
        return;
    muster_arena_free(&frozen->memory);
    free(frozen);
}

void muster_frozen_walk(const struct muster_frozen *frozen, unsigned func, muster_frozen_each *each,
                        void *to)
{
    if (func >= MUSTER_FUNCS)
        return;
    for (uint32_t i = 0; i < frozen->func[func].n; i++) {
        const struct line *line = &frozen->func[func].line[i];
        bool last = i + 1 == frozen->func[func].n;
        struct muster_policy_range pipe = {frozen->func[func].pipe_start[i],
                                           last ? UINT64_MAX
                                                : frozen->func[func].pipe_start[i + 1] - 1};
        for (uint32_t j = 0; j < line->n; j++) {
            struct muster_policy_range bytes = {
                line->start[j], j + 1 == line->n ? UINT64_MAX : line->start[j + 1] - 1};
            each(to, pipe, bytes, line->rule[j]);
        }
    }
}
