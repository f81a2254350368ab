#include "policy/policy_parse.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/settings.h"
#include "policy/sha256.h"

enum { ERRORS_REPORTED = 100 };

static const char policy_key[] = "policy";

static void report(struct muster_policy_parser *parser, struct muster_yaml_place place,
                   bool warning, const char *text)
{
    unsigned *count = warning ? &parser->warnings : &parser->errors;
    if ((*count)++ >= ERRORS_REPORTED || !parser->emit)
        return;
    struct muster_policy_message message = {.file = parser->file,
                                            .line = place.line,
                                            .column = place.column,
                                            .warning = warning,
                                            .text = text};
    parser->emit(parser->to, &message);
}

__attribute__((format(printf, 4, 0))) static void format(struct muster_policy_parser *parser,
                                                         struct muster_yaml_place place,
                                                         bool warning, const char *fmt,
                                                         va_list args)
{
    char text[512];
    vsnprintf(text, sizeof text, fmt, args);
    muster_text_copy(text, sizeof text, text); /* keys and values may hold control characters */
    report(parser, place, warning, text);
}

bool muster_policy_error(struct muster_policy_parser *parser, struct muster_yaml_place place,
                         const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    format(parser, place, false, fmt, args);
    va_end(args);
    return false;
}

void muster_policy_warn(struct muster_policy_parser *parser, struct muster_yaml_place place,
                        const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    format(parser, place, true, fmt, args);
    va_end(args);
}

/* An error of plugin/config, "name:line:column: text" or "name: text", whose name may have been
 * shortened: what is behind the place. */
static const char *split_error(const char *error, const char *file, struct muster_yaml_place *place)
{
    size_t length = strlen(file);
    *place = (struct muster_yaml_place){0, 0};
    for (const char *at = error; (at = strchr(at, ':')); at++) {
        size_t name = (size_t)(at - error);
        struct muster_yaml_place found;
        int n = 0;
        if (name > length || strncmp(error, file + length - name, name) != 0)
            continue;
        if (sscanf(at, ":%u:%u: %n", &found.line, &found.column, &n) == 2 && n > 0) {
            *place = found;
            return at + n;
        }
        if (name == length && at[1] == ' ')
            return at + 2;
    }
    return error;
}

static void report_foreign(struct muster_policy_parser *parser, const struct muster_err *err)
{
    struct muster_yaml_place place;
    const char *text = split_error(err->text, parser->file, &place);
    report(parser, place, false, text);
}

/* Whether >= stands there without quotes, or one column before: a bare > begins a block of text for
 * YAML, and its error for that helps nobody. */
static bool is_bare_comparison(const char *text, size_t bytes, struct muster_yaml_place place)
{
    const char *at = text, *end = text + bytes;
    for (unsigned line = 1; at && line < place.line; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at ? at + 1 : NULL;
    }
    if (!at || place.column < 2 || (size_t)(end - at) < place.column + 1)
        return false;
    at += place.column - 2;
    return memcmp(at, ">=", 2) == 0 || memcmp(at + 1, ">=", 2) == 0;
}

static void report_yaml_error(struct muster_policy_parser *parser, const struct muster_err *err,
                              const char *text, size_t bytes)
{
    struct muster_yaml_place place;
    split_error(err->text, parser->file, &place);
    if (is_bare_comparison(text, bytes, place))
        muster_policy_error(parser, place, "put '>=...' in quotes: YAML gives a bare > a meaning");
    else
        report_foreign(parser, err);
}

static void parse_list(struct muster_policy_parser *parser, const struct muster_yaml_node *list)
{
    if (muster_yaml_is_null(list))
        return;
    if (list->kind != MUSTER_YAML_LIST) {
        char found[80];
        muster_yaml_describe(list, found, sizeof(found));
        muster_policy_error(parser, list->place, "policy: expected a list of rules, found %s",
                            found);
        return;
    }
    unsigned rules = 0;
    for (const struct muster_yaml_node *n = list->first; n; n = n->next) {
        if (++rules > MUSTER_POLICY_RULES) {
            muster_policy_error(parser, n->place, "more than %d rules", MUSTER_POLICY_RULES);
            return;
        }
        muster_policy_parse_rule(parser, n);
    }
}

static void parse_root(struct muster_policy_parser *parser, const struct muster_yaml_node *root)
{
    if (root->kind != MUSTER_YAML_MAP)
        return;
    for (const struct muster_yaml_node *n = root->first; n; n = n->next)
        if (strcmp(n->key, policy_key) == 0)
            parse_list(parser, n);
}

static void parse_document(struct muster_policy_parser *parser, const char *text, size_t bytes)
{
    struct muster_yaml_node *root;
    struct muster_arena tree = {0};
    struct muster_settings others;
    struct muster_err err;
    if (bytes > MUSTER_POLICY_BYTES) {
        muster_policy_error(parser, (struct muster_yaml_place){0, 0}, "larger than %d MiB",
                            MUSTER_POLICY_BYTES >> 20);
        return;
    }
    if (muster_yaml_parse(&root, &tree, parser->file, text, bytes, &err) != 0) {
        report_yaml_error(parser, &err, text, bytes);
        muster_arena_free(&tree);
        return;
    }
    /* A misspelt `policy:` or version must not pass for a document without rules. */
    if (muster_settings_parse(&others, parser->file, text, bytes, &err) != 0)
        report_foreign(parser, &err);
    parse_root(parser, root);
    muster_arena_free(&tree);
    muster_policy_check_all(parser);
}

static void make_advice(struct muster_policy *policy)
{
    for (unsigned i = 0; i < policy->rules; i++) {
        const struct muster_rule *rule = &policy->rule[i];
        policy->advice[i] = (struct muster_advice){
            .keep = (rule->prefer ? rule->prefer : UINT32_MAX) & ~rule->avoid,
            .keep_others = rule->prefer == 0,
            .channels = rule->channels,
        };
    }
}

int muster_policy_parse(struct muster_policy **policy, const char *file, const char *text,
                        size_t bytes, muster_policy_report *emit, void *to)
{
    struct muster_policy *made = calloc(1, sizeof(*made));
    struct muster_err err;
    struct muster_policy_parser parser = {.policy = made, .file = file, .emit = emit, .to = to};
    if (made)
        parse_document(&parser, text, bytes);
    if (made && parser.errors == 0)
        made->advice = muster_arena_array(&made->memory, made->rules + 1, sizeof(*made->advice));
    if (!made || made->memory.failed) {
        muster_fail_memory(&err, "the policy");
        report(&parser, (struct muster_yaml_place){0, 0}, false, err.text);
    }
    if (parser.errors) {
        muster_policy_free(made);
        return -1;
    }
    make_advice(made);
    muster_sha256(made->sha256, text, bytes);
    *policy = made;
    return 0;
}

void muster_policy_free(struct muster_policy *policy)
{
    if (!policy)
        return;
    muster_arena_free(&policy->memory);
    free(policy);
}
