/* Whether a rule matches, key by key. */
#ifndef MUSTER_POLICY_DECIDE_H
#define MUSTER_POLICY_DECIDE_H

#include "policy/policy.h"

/* What the operation has under a key; false: it has nothing that could match. */
bool muster_query_value(const struct muster_query *query, enum muster_policy_key key,
                        uint64_t *value);
bool muster_rule_matches_key(const struct muster_policy *policy, const struct muster_rule *rule,
                             const struct muster_query *query, enum muster_policy_key key);
bool muster_rule_matches_func(const struct muster_rule *rule, unsigned func);

#endif
