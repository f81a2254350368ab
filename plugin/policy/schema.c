#include "base/json.h"
#include "policy/policy.h"
#include "policy/rules.h"

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

static void put_words(struct muster_json *json, enum muster_policy_type type)
{
    muster_json_array(json, "enum");
    for (size_t i = 0; muster_policy_word(type, i); i++)
        muster_json_str(json, NULL, muster_policy_word(type, i));
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

static void put_field(struct muster_json *json, const struct muster_policy_field *field)
{
    muster_json_object(json, field->word);
    muster_json_str(json, "description", field->help);
    switch (field->type) {
    case MUSTER_FIELD_NAME:
        muster_json_str(json, "type", "string");
        muster_json_str(json, "pattern", "^[A-Za-z0-9._-]{1,63}$");
        break;
    case MUSTER_FIELD_SECTION:
        put_section(json, field->opens);
        break;
    case MUSTER_FIELD_LEAVE:
        muster_json_bool(json, "const", true);
        break;
    case MUSTER_FIELD_CHANNELS:
        muster_json_str(json, "type", "integer");
        muster_json_u64(json, "minimum", 1);
        muster_json_u64(json, "maximum", MUSTER_POLICY_CHANNELS);
        break;
    default:
        put_one_or_list(json, field);
    }
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
    if (section != MUSTER_SECTION_RULE)
        return;
    muster_json_array(json, "required");
    muster_json_str(json, NULL, "name");
    muster_json_end(json);
}

static void put_policy(struct muster_json *json)
{
    muster_json_object(json, "policy");
    muster_json_str(json, "description", "the first rule that matches an operation decides");
    muster_json_array(json, "type");
    muster_json_str(json, NULL, "array");
    muster_json_str(json, NULL, "null");
    muster_json_end(json);
    muster_json_u64(json, "maxItems", MUSTER_POLICY_RULES);
    muster_json_object(json, "items");
    put_section(json, MUSTER_SECTION_RULE);
    muster_json_end(json);
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
    muster_json_u64(&json, "const", 1);
    muster_json_end(&json);
    put_policy(&json);
    muster_json_end(&json);
    muster_json_array(&json, "required");
    muster_json_str(&json, NULL, "muster");
    muster_json_end(&json);
    muster_json_end(&json);
}
