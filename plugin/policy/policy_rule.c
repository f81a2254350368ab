/* One rule: from a node of the tree to struct muster_rule. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"
#include "policy/policy_fields.h"
#include "policy/policy_parse.h"
#include "policy/range.h"

enum { FOUND_MAX = 80, LIST_TEXT = 256 };

struct reading {
    struct muster_policy_parser *parser;
    struct muster_rule rule;
    struct muster_rule_nodes nodes;
    unsigned prefer_algos, prefer_protos, avoid_algos, avoid_protos; /* bits; 0: not named */
};

static bool fail_expected(struct reading *reading, const struct muster_yaml_node *node,
                          const char *word, const char *expected)
{
    char found[FOUND_MAX];
    muster_yaml_describe(node, found, sizeof(found));
    return muster_policy_error(reading->parser, node->place, "%s: expected %s, found %s", word,
                               expected, found);
}

static bool is_text(const struct muster_yaml_node *node)
{
    return node->kind == MUSTER_YAML_SCALAR && !muster_yaml_is_null(node);
}

/* ---- Words ---- */

static bool read_word(struct reading *reading, const struct muster_policy_field *field,
                      const struct muster_yaml_node *node, unsigned *bits)
{
    char list[LIST_TEXT];
    muster_policy_name_list(field->type, list, sizeof(list));
    if (!is_text(node))
        return fail_expected(reading, node, field->word, list);
    unsigned value = muster_policy_name_value(field->type, node->text);
    if (!value) {
        const char *nearest = muster_policy_nearest_name(field->type, node->text);
        return muster_policy_error(reading->parser, node->place,
                                   "%s: expected %s, found '%.60s'%s%s%s", field->word, list,
                                   node->text, nearest ? ", did you mean '" : "",
                                   nearest ? nearest : "", nearest ? "'?" : "");
    }
    if (*bits >> value & 1)
        return muster_policy_error(reading->parser, node->place, "%s: '%.60s' is named twice",
                                   field->word, node->text);
    *bits |= 1u << value;
    return true;
}

static bool read_words(struct reading *reading, const struct muster_policy_field *field,
                       const struct muster_yaml_node *node, unsigned *bits)
{
    if (node->kind != MUSTER_YAML_LIST)
        return read_word(reading, field, node, bits);
    if (!node->first)
        return muster_policy_error(reading->parser, node->place, "%s: the list is empty",
                                   field->word);
    bool good = true;
    for (const struct muster_yaml_node *n = node->first; n; n = n->next)
        good &= read_word(reading, field, n, bits);
    return good;
}

/* ---- Ranges ---- */

static bool read_range(struct reading *reading, const struct muster_policy_field *field,
                       const struct muster_yaml_node *node, struct muster_policy_range *range)
{
    struct muster_err why;
    if (!is_text(node))
        return fail_expected(reading, node, field->word,
                             field->sizes ? "a size, a..b, >=a or <=a"
                                          : "a number, a..b, >=a or <=a");
    if (muster_range_parse(range, node->text, field->sizes, &why) != 0)
        return muster_policy_error(reading->parser, node->place, "%s: %s", field->word, why.text);
    if (range->max < field->min)
        return muster_policy_error(reading->parser, node->place, "%s: at least %llu, found '%.60s'",
                                   field->word, (unsigned long long)field->min, node->text);
    return true;
}

static unsigned read_ranges(struct reading *reading, const struct muster_policy_field *field,
                            const struct muster_yaml_node *node, struct muster_policy_range *range)
{
    unsigned n = 0;
    if (node->kind != MUSTER_YAML_LIST)
        return read_range(reading, field, node, range) ? 1 : 0;
    if (!node->first)
        muster_policy_error(reading->parser, node->place, "%s: the list is empty", field->word);
    for (const struct muster_yaml_node *i = node->first; i; i = i->next) {
        if (n == MUSTER_POLICY_RANGES) {
            muster_policy_error(reading->parser, i->place, "%s: more than %d ranges", field->word,
                                MUSTER_POLICY_RANGES);
            return 0;
        }
        n += read_range(reading, field, i, &range[n]);
    }
    return muster_ranges_join(range, n);
}

static void keep_ranges(struct muster_policy *policy, struct muster_policy_match *match,
                        const struct muster_policy_range *range, unsigned n)
{
    *match = (struct muster_policy_match){(uint32_t)policy->ranges, n};
    for (unsigned i = 0; i < n; i++)
        *(struct muster_policy_range *)muster_arena_add(&policy->memory, &policy->range,
                                                        &policy->ranges, sizeof(*range)) = range[i];
}

/* Each bound costs every communicator a table of its own: few are allowed. */
static bool add_pipe_bound(struct muster_policy_parser *parser, uint64_t bound)
{
    for (uint32_t i = 0; i < parser->pipe_bounds; i++)
        if (parser->pipe_bound[i] == bound)
            return true;
    if (bound <= 1)
        return true;
    if (parser->pipe_bounds == MUSTER_POLICY_PIPE_BOUNDS)
        return false;
    parser->pipe_bound[parser->pipe_bounds++] = bound;
    return true;
}

static void read_number_match(struct reading *reading, const struct muster_policy_field *field,
                              const struct muster_yaml_node *node)
{
    struct muster_policy_range range[MUSTER_POLICY_RANGES];
    struct muster_policy_parser *parser = reading->parser;
    unsigned n = read_ranges(reading, field, node, range);
    if (n == 0)
        return;
    bool pipe = field->key == MUSTER_KEY_PIPE_OPS, fits = true;
    for (unsigned i = 0; pipe && i < n; i++)
        fits &= add_pipe_bound(parser, range[i].min) &&
                (range[i].max == UINT64_MAX || add_pipe_bound(parser, range[i].max + 1));
    if (!fits)
        muster_policy_error(parser, node->place, "pipe_ops: more than %d different bounds",
                            MUSTER_POLICY_PIPE_BOUNDS);
    parser->policy->matches_pipe_ops |= pipe;
    parser->policy->matches_nvlink_domains |= field->key == MUSTER_KEY_NVLINK_DOMAINS;
    keep_ranges(parser->policy, &reading->rule.match[field->key], range, n);
}

/* ---- Single values ---- */

static void read_name(struct reading *reading, const struct muster_yaml_node *node)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (is_text(node) && strlen(node->text) < MUSTER_POLICY_NAME &&
        node->text[strspn(node->text, allowed)] == '\0' && node->text[0])
        memcpy(reading->rule.name, node->text, strlen(node->text) + 1);
    else
        fail_expected(reading, node, "name", "1 to 63 letters, digits, '.', '_' or '-'");
}

static void read_leave(struct reading *reading, const struct muster_yaml_node *node)
{
    reading->rule.leave = true;
    if (!is_text(node) || strcmp(node->text, "true") != 0)
        fail_expected(reading, node, "leave", "true");
}

static void read_channels(struct reading *reading, const struct muster_yaml_node *node)
{
    uint64_t value = 0;
    char expected[LIST_TEXT];
    snprintf(expected, sizeof(expected), "a number from 1 to %d", MUSTER_POLICY_CHANNELS);
    if (reading->rule.channels)
        muster_policy_error(reading->parser, node->key_place,
                            "channels: named twice, in prefer and beside it");
    if (is_text(node) && muster_text_u64(node->text, &value) && value >= 1 &&
        value <= MUSTER_POLICY_CHANNELS)
        reading->rule.channels = (uint8_t)value;
    else
        fail_expected(reading, node, "channels", expected);
}

/* ---- Sections ---- */

static void read_section(struct reading *reading, unsigned section, const char *name,
                         const struct muster_yaml_node *node);

static void note_node(struct reading *reading, unsigned section,
                      const struct muster_policy_field *field, const struct muster_yaml_node *node)
{
    struct muster_rule_nodes *nodes = &reading->nodes;
    bool prefer = section == MUSTER_SECTION_PREFER;
    if (field->type == MUSTER_FIELD_ALGO)
        *(prefer ? &nodes->prefer_algo : &nodes->avoid_algo) = node;
    if (field->type == MUSTER_FIELD_PROTO)
        *(prefer ? &nodes->prefer_proto : &nodes->avoid_proto) = node;
    if (field->type == MUSTER_FIELD_SECTION && field->opens == MUSTER_SECTION_PREFER)
        nodes->prefer = node;
    if (field->type == MUSTER_FIELD_SECTION && field->opens == MUSTER_SECTION_AVOID)
        nodes->avoid = node;
}

static void read_field(struct reading *reading, unsigned section,
                       const struct muster_policy_field *field, const struct muster_yaml_node *node)
{
    bool prefer = section == MUSTER_SECTION_PREFER;
    note_node(reading, section, field, node);
    switch (field->type) {
    case MUSTER_FIELD_NAME:
        read_name(reading, node);
        break;
    case MUSTER_FIELD_SECTION:
        read_section(reading, field->opens, field->word, node);
        break;
    case MUSTER_FIELD_LEAVE:
        read_leave(reading, node);
        break;
    case MUSTER_FIELD_CHANNELS:
        read_channels(reading, node);
        break;
    case MUSTER_FIELD_COLLECTIVE:
        read_words(reading, field, node, &reading->rule.collectives);
        break;
    case MUSTER_FIELD_ALGO:
        read_words(reading, field, node, prefer ? &reading->prefer_algos : &reading->avoid_algos);
        break;
    case MUSTER_FIELD_PROTO:
        read_words(reading, field, node, prefer ? &reading->prefer_protos : &reading->avoid_protos);
        break;
    case MUSTER_FIELD_RANGES:
        read_number_match(reading, field, node);
        break;
    }
}

static void fail_key(struct reading *reading, unsigned section, const char *name,
                     const struct muster_yaml_node *node)
{
    char list[LIST_TEXT];
    const char *why = muster_policy_unsupported(section, node->key);
    const char *nearest = muster_policy_nearest_field(section, node->key);
    muster_policy_field_list(section, list, sizeof(list));
    if (why)
        muster_policy_error(reading->parser, node->key_place, "'%.60s' is not supported: %s",
                            node->key, why);
    else if (nearest)
        muster_policy_error(reading->parser, node->key_place,
                            "unknown key '%.60s' in %s, did you mean '%s'?", node->key, name,
                            nearest);
    else
        muster_policy_error(reading->parser, node->key_place,
                            "unknown key '%.60s' in %s, expected %s", node->key, name, list);
}

static void read_section(struct reading *reading, unsigned section, const char *name,
                         const struct muster_yaml_node *node)
{
    if (node->kind != MUSTER_YAML_MAP || !node->first) {
        char list[LIST_TEXT];
        muster_policy_field_list(section, list, sizeof(list));
        fail_expected(reading, node, name, list);
        return;
    }
    for (const struct muster_yaml_node *n = node->first; n; n = n->next) {
        const struct muster_policy_field *field = muster_policy_field(section, n->key);
        if (field)
            read_field(reading, section, field, n);
        else
            fail_key(reading, section, name, n);
    }
}

/* ---- The whole ---- */

static uint32_t combinations(unsigned algos, unsigned protos)
{
    uint32_t all = 0;
    if (!algos && !protos)
        return 0;
    for (unsigned a = 1; a <= MUSTER_POLICY_ALGOS; a++)
        for (unsigned p = 1; p <= MUSTER_POLICY_PROTOS; p++)
            if ((!algos || algos >> a & 1) && (!protos || protos >> p & 1))
                all |= muster_policy_combination(a, p);
    return all;
}

static void check_shape(struct reading *reading)
{
    const struct muster_rule *rule = &reading->rule;
    struct muster_yaml_place place = reading->nodes.rule->place;
    bool acts = reading->nodes.prefer || reading->nodes.avoid || rule->channels;
    if (!rule->name[0])
        muster_policy_error(reading->parser, place, "expected a name for this rule");
    if (!acts && !rule->leave)
        muster_policy_error(reading->parser, place,
                            "expected prefer, avoid, channels or leave in this rule");
    if (acts && rule->leave)
        muster_policy_error(reading->parser, place,
                            "leave and prefer, avoid or channels in one rule contradict");
}

static void add_rule(struct muster_policy *policy, const struct muster_rule *rule)
{
    size_t rules = policy->rules;
    *(struct muster_rule *)muster_arena_add(&policy->memory, &policy->rule, &rules, sizeof(*rule)) =
        *rule;
    policy->rules = (unsigned)rules;
}

void muster_policy_parse_rule(struct muster_policy_parser *parser,
                              const struct muster_yaml_node *node)
{
    struct reading reading = {.parser = parser, .nodes.rule = node};
    unsigned errors = parser->errors;
    reading.rule.place = node->place;
    read_section(&reading, MUSTER_SECTION_RULE, "a rule", node);
    if (parser->errors != errors)
        return; /* what is missing now may be what was wrong */
    check_shape(&reading);
    reading.rule.prefer = combinations(reading.prefer_algos, reading.prefer_protos);
    reading.rule.avoid = combinations(reading.avoid_algos, reading.avoid_protos);
    if (parser->errors == errors)
        muster_policy_check_rule(parser, &reading.rule, &reading.nodes);
    add_rule(parser->policy, &reading.rule);
}
