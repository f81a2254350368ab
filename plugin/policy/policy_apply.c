#include "policy/policy.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { KNOWN = MUSTER_POLICY_ALGOS * MUSTER_POLICY_PROTOS };

#define ROW(algo) (((1u << MUSTER_POLICY_PROTOS) - 1) << ((algo)-1) * MUSTER_POLICY_PROTOS)
#define COLLNET   (ROW(MUSTER_ALGO_COLLNET_DIRECT) | ROW(MUSTER_ALGO_COLLNET_CHAIN))

/* A comparison that NaN fails. */
static inline bool offered(float cost)
{
    return cost >= 0;
}

/* Bit i: entry i is offered. Half of a decision's time where it is done one by one. */
static inline uint32_t offered_bits(const float *cost, unsigned entries)
{
    uint32_t bits = 0;
    unsigned i = 0;
#ifdef __SSE2__
    for (; i + 4 <= entries; i += 4) {
        __m128 offers = _mm_cmpge_ps(_mm_loadu_ps(&cost[i]), _mm_setzero_ps());
        bits |= (uint32_t)_mm_movemask_ps(offers) << i;
    }
#endif
    for (; i < entries; i++)
        bits |= (uint32_t)offered(cost[i]) << i;
    return bits;
}

static enum muster_applied set_channels(const struct muster_advice *advice, unsigned limit,
                                        int *channels)
{
    if (advice->channels == 0)
        return MUSTER_APPLIED_NOTHING;
    if (advice->channels > limit)
        return MUSTER_APPLIED_NOT_OFFERED;
    *channels = advice->channels;
    return MUSTER_APPLIED;
}

static enum muster_applied result_of(bool wrote, enum muster_applied channels)
{
    return wrote ? MUSTER_APPLIED : channels;
}

/* NCCL's tables so far: at most the rows that muster knows, and three protocols. */
static enum muster_applied apply_known(const struct muster_advice *advice, float *cost,
                                       unsigned entries, unsigned limit, int *channels)
{
    uint32_t there = offered_bits(cost, entries);
    uint32_t kept = there & advice->keep;
    if (!kept)
        return MUSTER_APPLIED_NOT_OFFERED;
    uint32_t rest = there & ~advice->keep;
    for (uint32_t left = rest; left; left &= left - 1)
        cost[__builtin_ctz(left)] += MUSTER_POLICY_PENALTY;
    return result_of(rest != 0, set_channels(advice, kept & COLLNET ? 1 : limit, channels));
}

static bool keeps(const struct muster_advice *advice, unsigned algo, unsigned proto)
{
    uint32_t bit = muster_policy_combination(algo + 1, proto + 1);
    return bit ? (advice->keep & bit) != 0 : advice->keep_others;
}

/* A later NCCL's table, with algorithms or protocols that muster does not know. */
static enum muster_applied apply_other(const struct muster_advice *advice,
                                       const struct muster_cost_table *table, unsigned limit,
                                       int *channels)
{
    bool kept = false, rest = false, unbounded = false;
    for (unsigned a = 0; a < table->algos; a++)
        for (unsigned p = 0; p < table->protos; p++) {
            uint32_t bit = muster_policy_combination(a + 1, p + 1);
            if (!offered(table->cost[(size_t)a * table->protos + p]))
                continue;
            kept |= keeps(advice, a, p);
            rest |= !keeps(advice, a, p);
            unbounded |= keeps(advice, a, p) && (!bit || bit & COLLNET);
        }
    if (!kept)
        return MUSTER_APPLIED_NOT_OFFERED;
    for (unsigned a = 0; a < table->algos; a++)
        for (unsigned p = 0; p < table->protos; p++) {
            float *cost = &table->cost[(size_t)a * table->protos + p];
            if (offered(*cost) && !keeps(advice, a, p))
                *cost += MUSTER_POLICY_PENALTY;
        }
    return result_of(rest, set_channels(advice, unbounded ? 1 : limit, channels));
}

enum muster_applied muster_policy_apply(const struct muster_advice *advice,
                                        const struct muster_cost_table *table,
                                        unsigned channel_limit, int *channels)
{
    if (!advice->channels && advice->keep_others && advice->keep == UINT32_MAX)
        return MUSTER_APPLIED_NOTHING;
    if (table->protos == MUSTER_POLICY_PROTOS && table->algos <= MUSTER_POLICY_ALGOS)
        return apply_known(advice, table->cost, table->algos * table->protos, channel_limit,
                           channels);
    return apply_other(advice, table, channel_limit, channels);
}
