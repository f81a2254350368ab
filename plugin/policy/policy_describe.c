#include <stdio.h>

#include "base/text.h"
#include "policy/decide.h"
#include "policy/policy.h"
#include "policy/policy_fields.h"
#include "policy/range.h"

enum { RANGE_TEXT = 96 };

void muster_policy_message_print(char *to, size_t size, const struct muster_policy_message *message)
{
    struct muster_text text = muster_text_begin(to, size);
    muster_text_add(&text, "%s:", message->file);
    if (message->line)
        muster_text_add(&text, "%u:%u:", message->line, message->column);
    muster_text_add(&text, " %s: %s", message->warning ? "warning" : "error", message->text);
}

void muster_policy_hex(char to[MUSTER_POLICY_HEX], const uint8_t sha256[MUSTER_POLICY_SHA256])
{
    for (unsigned i = 0; i < MUSTER_POLICY_SHA256; i++)
        snprintf(to + 2 * i, 3, "%02x", sha256[i]);
}

static bool in_sizes(enum muster_policy_key key)
{
    return key == MUSTER_KEY_BYTES || key == MUSTER_KEY_BYTES_PER_RANK;
}

static void add_ranges(struct muster_text *text, const struct muster_policy *policy,
                       const struct muster_rule *rule, enum muster_policy_key key)
{
    for (uint32_t i = 0; i < rule->match[key].n; i++) {
        char range[RANGE_TEXT];
        muster_range_print(range, sizeof(range), &policy->range[rule->match[key].first + i],
                           in_sizes(key));
        muster_text_add(text, "%s%s", i ? " or " : "", range);
    }
}

static void add_collectives(struct muster_text *text, const struct muster_rule *rule,
                            const char *between)
{
    bool any = false;
    for (unsigned func = 0; func < MUSTER_FUNCS; func++)
        if (rule->collectives >> func & 1) {
            muster_text_add(text, "%s%s", any ? between : "",
                            muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, func));
            any = true;
        }
}

void muster_rule_describe_match(const struct muster_policy *policy, const struct muster_rule *rule,
                                char *to, size_t size)
{
    struct muster_text text = muster_text_begin(to, size);
    add_collectives(&text, rule, ", ");
    for (unsigned key = 0; key < MUSTER_KEYS; key++) {
        if (rule->match[key].n == 0)
            continue;
        muster_text_add(&text, "%s%s ", text.used ? "; " : "",
                        muster_policy_key_name((enum muster_policy_key)key));
        add_ranges(&text, policy, rule, (enum muster_policy_key)key);
    }
    if (!text.used)
        muster_text_add(&text, "everything");
}

/* The whole row or column where it is one, so that "any/ll128" does not become seven words. */
static void add_combinations(struct muster_text *text, uint32_t set)
{
    const char *between = "";
    for (unsigned p = 1; p <= MUSTER_POLICY_PROTOS; p++) {
        uint32_t column = 0;
        for (unsigned a = 1; a <= MUSTER_POLICY_ALGOS; a++)
            column |= muster_policy_combination(a, p);
        if ((set & column) != column)
            continue;
        muster_text_add(text, "%sany/%s", between, muster_policy_name_of(MUSTER_FIELD_PROTO, p));
        between = ", ";
        set &= ~column;
    }
    for (unsigned a = 1; a <= MUSTER_POLICY_ALGOS; a++) {
        uint32_t row = 0;
        for (unsigned p = 1; p <= MUSTER_POLICY_PROTOS; p++)
            row |= muster_policy_combination(a, p);
        const char *algo = muster_policy_name_of(MUSTER_FIELD_ALGO, a);
        if ((set & row) == row) {
            muster_text_add(text, "%s%s/any", between, algo);
            between = ", ";
            continue;
        }
        for (unsigned p = 1; p <= MUSTER_POLICY_PROTOS; p++)
            if (set & muster_policy_combination(a, p)) {
                muster_text_add(text, "%s%s/%s", between, algo,
                                muster_policy_name_of(MUSTER_FIELD_PROTO, p));
                between = ", ";
            }
    }
}

void muster_rule_describe_action(const struct muster_rule *rule, char *to, size_t size)
{
    struct muster_text text = muster_text_begin(to, size);
    if (rule->prefer) {
        muster_text_add(&text, "prefer ");
        add_combinations(&text, rule->prefer);
    }
    if (rule->avoid) {
        muster_text_add(&text, "%savoid ", text.used ? "; " : "");
        add_combinations(&text, rule->avoid);
    }
    if (rule->channels)
        muster_text_add(&text, "%s%u channel%s", text.used ? "; " : "", rule->channels,
                        rule->channels == 1 ? "" : "s");
    if (!text.used)
        muster_text_add(&text, "leave");
}

static void explain_key(struct muster_text *text, const struct muster_policy *policy,
                        const struct muster_rule *rule, const struct muster_query *query,
                        enum muster_policy_key key)
{
    uint64_t value;
    char number[RANGE_TEXT];
    const char *word = muster_policy_key_name(key);
    if (!muster_query_value(query, key, &value)) {
        muster_text_add(
            text, key == MUSTER_KEY_RANKS_PER_NODE ? "%s is no whole number" : "%s is not known",
            word);
        return;
    }
    muster_range_print_number(number, sizeof(number), value, in_sizes(key));
    muster_text_add(text, "%s %s is not ", word, number);
    add_ranges(text, policy, rule, key);
}

bool muster_rule_explain(const struct muster_policy *policy, const struct muster_rule *rule,
                         const struct muster_query *query, char *to, size_t size)
{
    struct muster_text text = muster_text_begin(to, size);
    if (!muster_policy_available(query->func)) {
        muster_text_add(&text, "NCCL asks no tuner about this collective");
        return false;
    }
    if (!muster_rule_matches_func(rule, query->func)) {
        muster_text_add(&text, "%s is not ",
                        muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, query->func));
        add_collectives(&text, rule, " or ");
        return false;
    }
    for (unsigned key = 0; key < MUSTER_KEYS; key++)
        if (!muster_rule_matches_key(policy, rule, query, (enum muster_policy_key)key)) {
            explain_key(&text, policy, rule, query, (enum muster_policy_key)key);
            return false;
        }
    return true;
}
