#include "policy/decide.h"

#include "policy/policy.h"

static bool in_ranges(const struct muster_policy *policy, struct muster_policy_match match,
                      uint64_t value)
{
    for (uint32_t i = 0; i < match.n; i++) {
        const struct muster_policy_range *range = &policy->range[match.first + i];
        if (value >= range->min && value <= range->max)
            return true;
    }
    return false;
}

bool muster_query_value(const struct muster_query *query, enum muster_policy_key key,
                        uint64_t *value)
{
    switch (key) {
    case MUSTER_KEY_BYTES:
        *value = query->bytes;
        return true;
    case MUSTER_KEY_BYTES_PER_RANK:
        *value = query->ranks ? query->bytes / query->ranks : 0;
        return query->ranks > 0;
    case MUSTER_KEY_RANKS:
        *value = query->ranks;
        return true;
    case MUSTER_KEY_NODES:
        *value = query->nodes;
        return true;
    case MUSTER_KEY_RANKS_PER_NODE:
        *value = query->nodes ? query->ranks / query->nodes : 0;
        return query->nodes > 0 && query->ranks % query->nodes == 0;
    case MUSTER_KEY_NVLINK_DOMAINS:
        *value = query->nvlink_domains;
        return query->nvlink_domains > 0;
    case MUSTER_KEY_PIPE_OPS:
        *value = query->pipe_ops;
        return true;
    case MUSTER_KEYS:
        break;
    }
    return false;
}

bool muster_rule_matches_key(const struct muster_policy *policy, const struct muster_rule *rule,
                             const struct muster_query *query, enum muster_policy_key key)
{
    uint64_t value;
    struct muster_policy_match match = rule->match[key];
    return match.n == 0 ||
           (muster_query_value(query, key, &value) && in_ranges(policy, match, value));
}

bool muster_rule_matches_func(const struct muster_rule *rule, unsigned func)
{
    return muster_policy_available(func) &&
           (rule->collectives == 0 || rule->collectives >> func & 1);
}

int muster_policy_match(const struct muster_policy *policy, const struct muster_query *query)
{
    for (unsigned i = 0; i < policy->rules; i++) {
        const struct muster_rule *rule = &policy->rule[i];
        bool matches = muster_rule_matches_func(rule, query->func);
        for (unsigned key = 0; matches && key < MUSTER_KEYS; key++)
            matches = muster_rule_matches_key(policy, rule, query, (enum muster_policy_key)key);
        if (matches)
            return (int)i;
    }
    return MUSTER_POLICY_NO_RULE;
}

/* As NCCL's model of costs has them (src/graph/tuning.cc, 2.21 to 2.30): all others are never
 * offered. */
uint32_t muster_policy_available(unsigned func)
{
#define HAS(algo, proto)                                                                           \
    (1u << ((MUSTER_ALGO_##algo - 1) * MUSTER_POLICY_PROTOS + (MUSTER_PROTO_##proto - 1)))
#define ALL_OF(algo) (HAS(algo, LL) | HAS(algo, LL128) | HAS(algo, SIMPLE))
    switch (func) {
    case MUSTER_FUNC_BROADCAST:
    case MUSTER_FUNC_REDUCE:
        return ALL_OF(RING);
    case MUSTER_FUNC_ALL_GATHER:
    case MUSTER_FUNC_REDUCE_SCATTER:
        return ALL_OF(RING) | HAS(COLLNET_DIRECT, SIMPLE) | HAS(NVLS, SIMPLE) | HAS(PAT, SIMPLE);
    case MUSTER_FUNC_ALL_REDUCE:
        return ALL_OF(TREE) | ALL_OF(RING) | HAS(COLLNET_DIRECT, SIMPLE) |
               HAS(COLLNET_CHAIN, SIMPLE) | HAS(NVLS, SIMPLE) | HAS(NVLS_TREE, SIMPLE);
    default:
        return 0;
    }
#undef ALL_OF
#undef HAS
}
