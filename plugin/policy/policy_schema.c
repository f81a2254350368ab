#include <ctype.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "config/settings_table.h"
#include "policy/policy.h"
#include "policy/policy_fields.h"

static const char size_pattern[] = "[0-9]+ ?([KMGT]iB|[kMGT]?B)?";

static void put_range(struct muster_json *json, const struct muster_policy_field *field)
{
    char pattern[160];
    const char *number = field->sizes ? size_pattern : "[0-9]+";
    snprintf(pattern, sizeof(pattern), "^ *((>=|<=)? *%s|%s *\\.\\. *%s) *$", number, number,
             number);
    muster_json_array(json, "anyOf");
    muster_json_object(json, NULL);
    muster_json_str(json, "type", "integer");
    muster_json_u64(json, "minimum", field->min);
    muster_json_end(json);
    muster_json_object(json, NULL);
    muster_json_str(json, "type", "string");
    muster_json_str(json, "pattern", pattern);
    muster_json_end(json);
    muster_json_end(json);
}

/* All spellings that the parser knows: any case, '_' and '-' anywhere. */
static void put_spellings(struct muster_json *json, enum muster_policy_type type)
{
    char pattern[2048];
    struct muster_text text = muster_text_begin(pattern, sizeof(pattern));
    muster_text_add(&text, "^(");
    for (size_t i = 0; muster_policy_name(type, i); i++) {
        muster_text_add(&text, "%s", i ? "|" : "");
        for (const char *c = muster_policy_name(type, i); *c; c++)
            if (*c != '_')
                muster_text_add(&text, isalpha(*c) ? "[-_]*[%c%c]" : "[-_]*%c", *c, toupper(*c));
    }
    muster_text_add(&text, ")[-_]*$");
    muster_json_str(json, "pattern", pattern);
}

/* The words as muster writes them come first: editors offer these. */
static void put_words(struct muster_json *json, enum muster_policy_type type)
{
    muster_json_array(json, "anyOf");
    muster_json_object(json, NULL);
    muster_json_array(json, "enum");
    for (size_t i = 0; muster_policy_name(type, i); i++)
        muster_json_str(json, NULL, muster_policy_name(type, i));
    muster_json_end(json);
    muster_json_end(json);
    muster_json_object(json, NULL);
    muster_json_str(json, "type", "string");
    put_spellings(json, type);
    muster_json_end(json);
    muster_json_end(json);
}

static void put_one(struct muster_json *json, const struct muster_policy_field *field)
{
    if (field->type == MUSTER_FIELD_RANGES)
        put_range(json, field);
    else
        put_words(json, field->type);
}

/* One, or a list of at least one. */
static void put_one_or_list(struct muster_json *json, const struct muster_policy_field *field)
{
    muster_json_array(json, "anyOf");
    muster_json_object(json, NULL);
    put_one(json, field);
    muster_json_end(json);
    muster_json_object(json, NULL);
    muster_json_str(json, "type", "array");
    muster_json_u64(json, "minItems", 1);
    if (field->type == MUSTER_FIELD_RANGES)
        muster_json_u64(json, "maxItems", MUSTER_POLICY_RANGES);
    else
        muster_json_bool(json, "uniqueItems", true);
    muster_json_object(json, "items");
    put_one(json, field);
    muster_json_end(json);
    muster_json_end(json);
    muster_json_end(json);
}

static void put_section(struct muster_json *json, unsigned section);

static void put_types(struct muster_json *json, const char *const *types)
{
    muster_json_array(json, "type");
    for (; *types; types++)
        muster_json_str(json, NULL, *types);
    muster_json_end(json);
}

/* A policy's values are texts: a number or a truth value in quotes is the same. */
static void put_channels(struct muster_json *json)
{
    put_types(json, (const char *const[]){"integer", "string", NULL});
    muster_json_u64(json, "minimum", 1);
    muster_json_u64(json, "maximum", MUSTER_POLICY_CHANNELS);
    muster_json_str(json, "pattern", "^[0-9]+$");
}

static void put_field(struct muster_json *json, const struct muster_policy_field *field)
{
    muster_json_object(json, field->word);
    muster_json_str(json, "description", field->help);
    switch (field->type) {
    case MUSTER_FIELD_NAME:
        put_types(json, (const char *const[]){"string", "number", "boolean", NULL});
        muster_json_str(json, "pattern", "^[A-Za-z0-9._-]{1,63}$");
        break;
    case MUSTER_FIELD_SECTION:
        put_section(json, field->opens);
        break;
    case MUSTER_FIELD_LEAVE:
        muster_json_array(json, "enum");
        muster_json_bool(json, NULL, true);
        muster_json_str(json, NULL, "true");
        muster_json_end(json);
        break;
    case MUSTER_FIELD_CHANNELS:
        put_channels(json);
        break;
    default:
        put_one_or_list(json, field);
    }
    muster_json_end(json);
}

static void put_required(struct muster_json *json, const char *word)
{
    muster_json_array(json, "required");
    muster_json_str(json, NULL, word);
    muster_json_end(json);
}

/* A rule leaves the choice alone, or does at least one of the others. */
static void put_actions(struct muster_json *json)
{
    static const char *const words[] = {"prefer", "avoid", "channels"};
    put_required(json, "name");
    muster_json_array(json, "oneOf");
    muster_json_object(json, NULL);
    put_required(json, "leave");
    muster_json_end(json);
    muster_json_object(json, NULL);
    muster_json_array(json, "anyOf");
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        muster_json_object(json, NULL);
        put_required(json, words[i]);
        muster_json_end(json);
    }
    muster_json_end(json);
    muster_json_end(json);
    muster_json_end(json);
}

static void put_section(struct muster_json *json, unsigned section)
{
    muster_json_str(json, "type", "object");
    muster_json_bool(json, "additionalProperties", false);
    muster_json_u64(json, "minProperties", 1);
    muster_json_object(json, "properties");
    for (size_t i = 0; i < muster_policy_field_count; i++)
        if (muster_policy_fields[i].sections & section)
            put_field(json, &muster_policy_fields[i]);
    muster_json_end(json);
    if (section == MUSTER_SECTION_RULE)
        put_actions(json);
}

static void put_policy(struct muster_json *json)
{
    muster_json_object(json, "policy");
    muster_json_str(json, "description", "the first rule that matches an operation decides");
    put_types(json, (const char *const[]){"array", "null", NULL});
    muster_json_u64(json, "maxItems", MUSTER_POLICY_RULES);
    muster_json_object(json, "items");
    put_section(json, MUSTER_SECTION_RULE);
    muster_json_end(json);
    muster_json_end(json);
}

/* The document's other sections, by their names only. The settings stand in the table by section.
 */
static void put_settings(struct muster_json *json)
{
    const char *before = "";
    for (size_t i = 0; i < muster_settings_count; i++) {
        const char *key = muster_settings_table[i].key;
        char name[64];
        size_t length = strcspn(key, ".");
        if (strncmp(before, key, length + 1) == 0)
            continue;
        before = key;
        snprintf(name, sizeof(name), "%.*s", (int)length, key);
        muster_json_object(json, name);
        put_types(json, (const char *const[]){"object", "null", NULL});
        muster_json_end(json);
    }
    muster_json_object(json, "on");
    put_types(json, (const char *const[]){"object", "null", NULL});
    muster_json_end(json);
}

void muster_policy_schema(FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_str(&json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    muster_json_str(&json, "title", "muster configuration with a policy");
    muster_json_str(&json, "type", "object");
    muster_json_object(&json, "properties");
    muster_json_object(&json, "muster");
    muster_json_array(&json, "enum");
    muster_json_u64(&json, NULL, 1);
    muster_json_str(&json, NULL, "1");
    muster_json_end(&json);
    muster_json_end(&json);
    put_policy(&json);
    put_settings(&json);
    muster_json_end(&json);
    muster_json_bool(&json, "additionalProperties", false);
    put_required(&json, "muster");
    muster_json_end(&json);
}
