#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "policy/decide.h"
#include "policy/policy.h"
#include "policy/policy_fields.h"
#include "policy/range.h"

enum { RANGE_TEXT = 96 };

/* A text that grows and stays within its place. */
struct text {
    char *to;
    size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (text->used < text->size) {
        int n = vsnprintf(text->to + text->used, text->size - text->used, fmt, args);
        text->used += n > 0 ? (size_t)n : 0;
    }
    va_end(args);
}

static struct text begin(char *to, size_t size)
{
    if (size)
        to[0] = '\0';
    return (struct text){to, size, 0};
}

void muster_policy_message_print(char *to, size_t size, const struct muster_policy_message *message)
{
    struct text text = begin(to, size);
    add(&text, "%s:", message->file);
    if (message->line)
        add(&text, "%u:%u:", message->line, message->column);
    add(&text, " %s: %s", message->warning ? "warning" : "error", message->text);
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

static void add_ranges(struct text *text, const struct muster_policy *policy,
                       const struct muster_rule *rule, enum muster_policy_key key)
{
    for (uint32_t i = 0; i < rule->match[key].n; i++) {
        char range[RANGE_TEXT];
        muster_range_print(range, sizeof(range), &policy->range[rule->match[key].first + i],
                           in_sizes(key));
        add(text, "%s%s", i ? " or " : "", range);
    }
}

static void add_collectives(struct text *text, const struct muster_rule *rule, const char *between)
{
    bool any = false;
    for (unsigned func = 0; func < MUSTER_FUNCS; func++)
        if (rule->collectives >> func & 1) {
            add(text, "%s%s", any ? between : "",
                muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, func));
            any = true;
        }
}

void muster_rule_describe_match(const struct muster_policy *policy, const struct muster_rule *rule,
                                char *to, size_t size)
{
    struct text text = begin(to, size);
    add_collectives(&text, rule, ", ");
    for (unsigned key = 0; key < MUSTER_KEYS; key++) {
        if (rule->match[key].n == 0)
            continue;
        add(&text, "%s%s ", text.used ? "; " : "",
            muster_policy_key_name((enum muster_policy_key)key));
        add_ranges(&text, policy, rule, (enum muster_policy_key)key);
    }
    if (!text.used)
        add(&text, "everything");
}

/* The whole row or column where it is one, so that "any/ll128" does not become seven words. */
static void add_combinations(struct text *text, uint32_t set)
{
    const char *between = "";
    for (unsigned p = 1; p <= MUSTER_POLICY_PROTOS; p++) {
        uint32_t column = 0;
        for (unsigned a = 1; a <= MUSTER_POLICY_ALGOS; a++)
            column |= muster_policy_combination(a, p);
        if ((set & column) != column)
            continue;
        add(text, "%sany/%s", between, muster_policy_name_of(MUSTER_FIELD_PROTO, p));
        between = ", ";
        set &= ~column;
    }
    for (unsigned a = 1; a <= MUSTER_POLICY_ALGOS; a++) {
        uint32_t row = 0;
        for (unsigned p = 1; p <= MUSTER_POLICY_PROTOS; p++)
            row |= muster_policy_combination(a, p);
        const char *algo = muster_policy_name_of(MUSTER_FIELD_ALGO, a);
        if ((set & row) == row) {
            add(text, "%s%s/any", between, algo);
            between = ", ";
            continue;
        }
        for (unsigned p = 1; p <= MUSTER_POLICY_PROTOS; p++)
            if (set & muster_policy_combination(a, p)) {
                add(text, "%s%s/%s", between, algo, muster_policy_name_of(MUSTER_FIELD_PROTO, p));
                between = ", ";
            }
    }
}

void muster_rule_describe_action(const struct muster_rule *rule, char *to, size_t size)
{
    struct text text = begin(to, size);
    if (rule->prefer) {
        add(&text, "prefer ");
        add_combinations(&text, rule->prefer);
    }
    if (rule->avoid) {
        add(&text, "%savoid ", text.used ? "; " : "");
        add_combinations(&text, rule->avoid);
    }
    if (rule->channels)
        add(&text, "%s%u channel%s", text.used ? "; " : "", rule->channels,
            rule->channels == 1 ? "" : "s");
    if (!text.used)
        add(&text, "leave");
}

static void explain_key(struct text *text, const struct muster_policy *policy,
                        const struct muster_rule *rule, const struct muster_query *query,
                        enum muster_policy_key key)
{
    uint64_t value;
    char number[RANGE_TEXT];
    const char *word = muster_policy_key_name(key);
    if (!muster_query_value(query, key, &value)) {
        add(text, key == MUSTER_KEY_RANKS_PER_NODE ? "%s is no whole number" : "%s is not known",
            word);
        return;
    }
    muster_range_print_number(number, sizeof(number), value, in_sizes(key));
    add(text, "%s %s is not ", word, number);
    add_ranges(text, policy, rule, key);
}

bool muster_rule_explain(const struct muster_policy *policy, const struct muster_rule *rule,
                         const struct muster_query *query, char *to, size_t size)
{
    struct text text = begin(to, size);
    if (!muster_policy_available(query->func)) {
        add(&text, "NCCL asks no tuner about this collective");
        return false;
    }
    if (!muster_rule_matches_func(rule, query->func)) {
        add(&text, "%s is not ", muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, query->func));
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
