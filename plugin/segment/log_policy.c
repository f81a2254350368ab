#include "segment/log_policy.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "segment/snapshot.h"

/* What the head of a policy says; the rest are its rules. */
struct head {
    uint8_t sha256[32];
    uint32_t state, rules, tuner_api, configured;
};

static struct head head_of(const struct muster_seg_policy *policy)
{
    struct head head = {.state = 0};
    struct muster_seg_policy copy;
    /* Acquire: pairs with the release that publishes the state, last of all. */
    head.state = atomic_load_explicit(&policy->state, memory_order_acquire);
    muster_snapshot(&copy, policy, offsetof(struct muster_seg_policy, rule));
    head.configured = atomic_load_explicit(&copy.configured, memory_order_relaxed);
    head.tuner_api = copy.tuner_api;
    head.rules = copy.rules;
    memcpy(head.sha256, copy.sha256, sizeof(head.sha256));
    return head;
}

static bool put_head(struct muster_log_encoder *encoder, const struct head *head)
{
    struct muster_log_sink before = encoder->sink, *sink = &encoder->sink;
    muster_log_put_u(sink, MUSTER_LOG_POLICY);
    muster_log_put_u(sink, head->state);
    muster_log_put_u(sink, head->rules);
    muster_log_put_u(sink, head->tuner_api);
    muster_log_put_u(sink, head->configured);
    muster_log_put_bytes(sink, head->sha256, sizeof(head->sha256));
    if (sink->bad)
        encoder->sink = before;
    return encoder->sink.at != before.at;
}

static bool put_rule(struct muster_log_encoder *encoder, unsigned entry,
                     const struct muster_seg_rule *rule, bool named, uint64_t hits,
                     uint64_t not_offered)
{
    struct muster_log_sink before = encoder->sink, *sink = &encoder->sink;
    size_t name = named ? 0 : strnlen(rule->name, sizeof(rule->name) - 1);
    muster_log_put_u(sink, MUSTER_LOG_RULE);
    muster_log_put_u(sink, entry);
    muster_log_put_u(sink, rule->line);
    muster_log_put_u(sink, name);
    muster_log_put_bytes(sink, rule->name, name);
    muster_log_put_u(sink, hits);
    muster_log_put_u(sink, not_offered);
    if (sink->bad)
        encoder->sink = before;
    return encoder->sink.at != before.at;
}

bool muster_log_policy_write(struct muster_log_policy_told *told,
                             struct muster_log_encoder *encoder,
                             const struct muster_segment *segment)
{
    const struct muster_seg_policy *policy = &segment->policy;
    struct head head = head_of(policy);
    uint64_t hash = muster_hash(MUSTER_HASH_SEED, &head, sizeof(head)) | 1;
    if (hash != told->head) {
        if (!put_head(encoder, &head))
            return false;
        told->head = hash;
    }
    if (head.state != MUSTER_POLICY_ACTIVE)
        return true;
    uint32_t entries = head.rules < MUSTER_SEG_RULES ? head.rules : MUSTER_SEG_RULES;
    for (unsigned i = 0; i < entries; i++) {
        uint64_t hits = atomic_load_explicit(&policy->rule[i].hits, memory_order_relaxed);
        uint64_t missed = atomic_load_explicit(&policy->rule[i].not_offered, memory_order_relaxed);
        bool named = told->rule[i].named;
        if (named && hits == told->rule[i].hits && missed == told->rule[i].not_offered)
            continue;
        if (!put_rule(encoder, i, &policy->rule[i], named, hits, missed))
            return false;
        told->rule[i].named = true;
        told->rule[i].hits = hits;
        told->rule[i].not_offered = missed;
    }
    return true;
}

static bool has_policy(struct muster_log *log)
{
    if (!log->policy && !(log->policy = calloc(1, sizeof(*log->policy))))
        log->no_memory = true;
    return log->policy != NULL;
}

void muster_log_policy_get(struct muster_log *log, struct muster_log_source *in)
{
    struct head head = {.state = 0};
    head.state = (uint32_t)muster_log_get_max(in, MUSTER_POLICY_STATES - 1);
    head.rules = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    head.tuner_api = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    head.configured = (uint32_t)muster_log_get_max(in, 1);
    muster_log_get_bytes(in, head.sha256, sizeof(head.sha256));
    in->bad = in->bad || !has_policy(log);
    if (in->bad)
        return;
    struct muster_seg_policy *policy = log->policy;
    atomic_store_explicit(&policy->state, head.state, memory_order_relaxed);
    atomic_store_explicit(&policy->configured, head.configured, memory_order_relaxed);
    policy->rules = head.rules;
    policy->tuner_api = head.tuner_api;
    memcpy(policy->sha256, head.sha256, sizeof(policy->sha256));
}

void muster_log_policy_get_rule(struct muster_log *log, struct muster_log_source *in)
{
    char name[MUSTER_SEG_NAME] = "";
    size_t entry = (size_t)muster_log_get_max(in, MUSTER_SEG_RULES - 1);
    uint32_t line = (uint32_t)muster_log_get_max(in, UINT32_MAX);
    size_t length = (size_t)muster_log_get_max(in, sizeof(name) - 1);
    muster_log_get_bytes(in, name, length);
    uint64_t hits = muster_log_get_u(in);
    uint64_t not_offered = muster_log_get_u(in);
    in->bad = in->bad || !has_policy(log);
    if (in->bad)
        return;
    struct muster_seg_rule *rule = &log->policy->rule[entry];
    rule->line = line;
    if (length)
        muster_text_copy(rule->name, sizeof(rule->name), name);
    atomic_store_explicit(&rule->hits, hits, memory_order_relaxed);
    atomic_store_explicit(&rule->not_offered, not_offered, memory_order_relaxed);
}
