/* What no single value shows: combinations that NCCL does not have, rules against rules. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "policy/policy_fields.h"
#include "policy/policy_parse.h"

enum { TEXT_MAX = 200 };

/* ---- Algorithm x protocol x collective ---- */

static uint32_t all_funcs(void)
{
    uint32_t all = 0;
    for (unsigned func = 0; func < MUSTER_FUNCS; func++)
        if (muster_policy_available(func))
            all |= 1u << func;
    return all;
}

static uint32_t available_in(uint32_t funcs)
{
    uint32_t all = 0;
    for (unsigned func = 0; func < MUSTER_FUNCS; func++)
        if (funcs >> func & 1)
            all |= muster_policy_available(func);
    return all;
}

static void print_funcs(char *to, size_t size, uint32_t funcs)
{
    struct muster_text text = muster_text_begin(to, size);
    for (unsigned func = 0; func < MUSTER_FUNCS; func++)
        if (funcs >> func & 1)
            muster_text_add(&text, "%s%s", text.used ? ", " : "",
                            muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, func));
    if (!text.used)
        muster_text_add(&text, "any collective");
}

static uint32_t with_algo(unsigned algo)
{
    uint32_t all = 0;
    for (unsigned p = 1; p <= MUSTER_POLICY_PROTOS; p++)
        all |= muster_policy_combination(algo, p);
    return all;
}

static uint32_t with_proto(unsigned proto)
{
    uint32_t all = 0;
    for (unsigned a = 1; a <= MUSTER_POLICY_ALGOS; a++)
        all |= muster_policy_combination(a, proto);
    return all;
}

struct named {
    const struct muster_yaml_node *node; /* NULL: not named */
    enum muster_policy_type type;
    unsigned values;
    uint32_t (*with)(unsigned value);
};

/* " with ll or simple": what of the other kind the rule names beside it. */
static void print_with(char *to, size_t size, const struct named *other, uint32_t own)
{
    struct muster_text text = muster_text_begin(to, size);
    for (unsigned value = 1; value <= other->values; value++)
        if (other->with(value) & own)
            muster_text_add(&text, "%s%s", text.used ? " or " : " with ",
                            muster_policy_name_of(other->type, value));
}

/* Each named word must mean something with at least one of the others named with it. */
static bool check_words(struct muster_policy_parser *parser, const struct muster_rule *rule,
                        const struct named *named, const struct named *other, uint32_t set)
{
    uint32_t possible = available_in(rule->collectives ? rule->collectives : all_funcs());
    bool good = true;
    for (unsigned value = 1; named->node && value <= named->values; value++) {
        uint32_t own = named->with(value) & set;
        char funcs[TEXT_MAX], with[TEXT_MAX] = "";
        if (!own || own & possible)
            continue;
        print_funcs(funcs, sizeof(funcs), rule->collectives);
        if (other->node && named->with(value) & possible)
            print_with(with, sizeof(with), other, own);
        good = muster_policy_error(parser, named->node->place, "NCCL has no %s%s for %s",
                                   muster_policy_name_of(named->type, value), with, funcs);
    }
    return good;
}

static bool check_part(struct muster_policy_parser *parser, const struct muster_rule *rule,
                       const struct muster_yaml_node *algo_node,
                       const struct muster_yaml_node *proto_node, uint32_t set)
{
    struct named algo = {algo_node, MUSTER_FIELD_ALGO, MUSTER_POLICY_ALGOS, with_algo};
    struct named proto = {proto_node, MUSTER_FIELD_PROTO, MUSTER_POLICY_PROTOS, with_proto};
    return check_words(parser, rule, &algo, &proto, set) &&
           check_words(parser, rule, &proto, &algo, set);
}

/* Every collective that the rule names must have something left to choose. */
static void check_left(struct muster_policy_parser *parser, const struct muster_rule *rule,
                       const struct muster_rule_nodes *nodes)
{
    const struct muster_yaml_node *node = nodes->prefer ? nodes->prefer : nodes->avoid;
    uint32_t keep = (rule->prefer ? rule->prefer : UINT32_MAX) & ~rule->avoid;
    uint32_t empty = 0, funcs = rule->collectives ? rule->collectives : all_funcs();
    char text[TEXT_MAX];
    for (unsigned func = 0; func < MUSTER_FUNCS; func++)
        if (funcs >> func & 1 && !(keep & muster_policy_available(func)))
            empty |= 1u << func;
    if (!node || !empty || (!rule->collectives && empty != funcs))
        return;
    print_funcs(text, sizeof(text), rule->collectives ? empty : 0);
    if (rule->avoid)
        muster_policy_error(parser, node->place, "nothing that NCCL has for %s would remain", text);
    else
        muster_policy_error(parser, node->place, "NCCL has none of these for %s", text);
}

void muster_policy_check_rule(struct muster_policy_parser *parser, const struct muster_rule *rule,
                              const struct muster_rule_nodes *nodes)
{
    bool prefer = check_part(parser, rule, nodes->prefer_algo, nodes->prefer_proto, rule->prefer);
    bool avoid = check_part(parser, rule, nodes->avoid_algo, nodes->avoid_proto, rule->avoid);
    if (prefer && avoid)
        check_left(parser, rule, nodes);
}

/* ---- Rules against rules ---- */

static bool covers_ranges(const struct muster_policy *policy, struct muster_policy_match wide,
                          struct muster_policy_match narrow)
{
    for (uint32_t i = 0, j = 0; j < narrow.n; j++) {
        const struct muster_policy_range *inner = &policy->range[narrow.first + j];
        while (i < wide.n && policy->range[wide.first + i].max < inner->max)
            i++;
        if (i == wide.n || policy->range[wide.first + i].min > inner->min)
            return false;
    }
    return true;
}

static bool covers(const struct muster_policy *policy, const struct muster_rule *wide,
                   const struct muster_rule *narrow, uint32_t funcs)
{
    if (wide->collectives && funcs & ~wide->collectives)
        return false;
    for (unsigned key = 0; key < MUSTER_KEYS; key++) {
        if (wide->match[key].n == 0)
            continue;
        if (narrow->match[key].n == 0 ||
            !covers_ranges(policy, wide->match[key], narrow->match[key]))
            return false;
    }
    return true;
}

static void check_covered(struct muster_policy_parser *parser)
{
    const struct muster_policy *policy = parser->policy;
    uint32_t all = all_funcs();
    for (unsigned j = 1; j < policy->rules; j++)
        for (unsigned i = 0; i < j; i++) {
            const struct muster_rule *wide = &policy->rule[i], *narrow = &policy->rule[j];
            if (!covers(policy, wide, narrow, narrow->collectives ? narrow->collectives : all))
                continue;
            muster_policy_warn(parser, narrow->place,
                               "rule '%s' never decides: rule '%s' of line %u covers it",
                               narrow->name, wide->name, wide->place.line);
            break;
        }
}

static int by_name_and_place(const void *a, const void *b)
{
    const struct muster_rule *x = *(const struct muster_rule *const *)a;
    const struct muster_rule *y = *(const struct muster_rule *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x > y) - (x < y);
}

static void check_names(struct muster_policy_parser *parser)
{
    const struct muster_policy *policy = parser->policy;
    struct muster_arena scratch = {0};
    const struct muster_rule **sorted =
        muster_arena_array(&scratch, policy->rules + 1, sizeof(*sorted));
    for (unsigned i = 0; sorted && i < policy->rules; i++)
        sorted[i] = &policy->rule[i];
    if (sorted)
        qsort(sorted, policy->rules, sizeof(*sorted), by_name_and_place);
    for (unsigned i = 1; sorted && i < policy->rules; i++)
        if (sorted[i]->name[0] && strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            muster_policy_error(parser, sorted[i]->place,
                                "duplicate rule name '%s', first at line %u", sorted[i]->name,
                                sorted[i - 1]->place.line);
    muster_arena_end(&scratch, &parser->policy->memory);
}

void muster_policy_check_all(struct muster_policy_parser *parser)
{
    check_names(parser);
    if (parser->errors == 0)
        check_covered(parser);
}
