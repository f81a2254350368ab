/* A policy from hostile bytes: either refused with a place, or whatever it decides and writes is
 * what its rules say, and nothing that was not offered is ever written. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"

enum { ENTRIES = MUSTER_POLICY_ALGOS * MUSTER_POLICY_PROTOS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void count(void *to, const struct muster_policy_message *message)
{
    char text[1024];
    muster_policy_message_print(text, sizeof(text), message);
    require(strncmp(text, "fuzz:", 5) == 0 && strlen(message->text) > 3);
    *(unsigned *)to += !message->warning;
}

static void check_apply(const struct muster_advice *advice)
{
    float cost[ENTRIES], before[ENTRIES];
    int channels = 0;
    for (unsigned i = 0; i < ENTRIES; i++)
        before[i] = cost[i] = i % 3 ? (float)i : -1;
    struct muster_cost_table table = {cost, MUSTER_POLICY_ALGOS, MUSTER_POLICY_PROTOS};
    muster_policy_apply(advice, &table, MUSTER_POLICY_CHANNELS, &channels);
    unsigned kept = 0;
    for (unsigned i = 0; i < ENTRIES; i++) {
        require(cost[i] == before[i] ||
                (before[i] >= 0 && cost[i] == before[i] + MUSTER_POLICY_PENALTY));
        kept += before[i] >= 0 && cost[i] == before[i];
    }
    require(kept > 0 && channels >= 0 && channels <= MUSTER_POLICY_CHANNELS);
}

static void check_at(const struct muster_policy *policy, const struct muster_frozen *frozen,
                     struct muster_query query)
{
    for (query.func = 0; query.func <= MUSTER_FUNCS; query.func++)
        require(muster_frozen_decide(frozen, query.func, query.bytes, query.pipe_ops) ==
                muster_policy_match(policy, &query));
}

static void check_comm(const struct muster_policy *policy, struct muster_query query)
{
    struct muster_frozen *frozen;
    if (muster_policy_freeze(&frozen, policy, &query) != 0)
        return;
    for (unsigned i = 0; i < policy->ranges && i < 64; i++)
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t bound = k < 2 ? policy->range[i].min - k : policy->range[i].max + (k - 2);
            query.pipe_ops = bound % 7;
            query.bytes = bound;
            check_at(policy, frozen, query);
            query.bytes = bound * query.ranks;
            query.pipe_ops = bound;
            check_at(policy, frozen, query);
        }
    muster_frozen_free(frozen);
}

static void check_words(const struct muster_policy *policy, const struct muster_rule *rule)
{
    char text[64];
    struct muster_query query = {.func = MUSTER_FUNC_REDUCE, .ranks = 8, .nodes = 3};
    muster_rule_describe_match(policy, rule, text, sizeof(text));
    require(strlen(text) < sizeof(text));
    muster_rule_describe_action(rule, text, sizeof(text));
    require(strlen(text) < sizeof(text) && text[0]);
    bool matches = muster_rule_explain(policy, rule, &query, text, sizeof(text));
    require(matches == (text[0] == '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_policy *policy = NULL;
    unsigned errors = 0;
    if (muster_policy_parse(&policy, "fuzz", (const char *)data, size, count, &errors) != 0) {
        require(errors > 0);
        return 0;
    }
    require(errors == 0 && policy->rules <= MUSTER_POLICY_RULES);
    for (unsigned i = 0; i < policy->rules; i++) {
        require(policy->rule[i].name[0] && policy->rule[i].channels <= MUSTER_POLICY_CHANNELS);
        check_words(policy, &policy->rule[i]);
        check_apply(&policy->advice[i]);
    }
    check_comm(policy, (struct muster_query){.ranks = 8, .nodes = 2, .nvlink_domains = 1});
    check_comm(policy, (struct muster_query){.ranks = UINT64_MAX, .nodes = 0});
    muster_policy_free(policy);
    return 0;
}
