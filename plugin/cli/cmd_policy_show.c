/* `muster policy show`: the rules, and the table that they become for one communicator. */
#include <inttypes.h>

#include "base/err.h"
#include "cli/cmd_policy.h"
#include "policy/policy_fields.h"
#include "policy/range.h"

enum { TEXT = 1024, NUMBER = 96 };

struct show_options {
    uint64_t ranks, nodes, nvlink_domains;
    int format;
};

#define AT(field) offsetof(struct show_options, field)

static const struct muster_opt show_table[] = {
    {"ranks", 'r', MUSTER_OPT_U64, AT(ranks), "N", .min = 1,
     .help = "of a communicator: show the table that decides for it (the rules alone)"},
    {"nodes", 'n', MUSTER_OPT_U64, AT(nodes), "N", .min = 1, .help = "of that communicator (1)"},
    {"nvlink-domains", 0, MUSTER_OPT_U64, AT(nvlink_domains), "N", .min = 1,
     .help = "of that communicator (not told, as by NCCL before 2.28)"},
    {"format", 'f', MUSTER_OPT_CHOICE, AT(format), "FORMAT", muster_policy_formats,
     .help = "text or json (text)"},
    {.name = NULL},
};

struct view {
    const struct muster_policy_file *file;
    const struct muster_frozen *frozen;
    unsigned func;
    struct muster_json *json; /* NULL: text */
    bool first;
};

static void put_rules(const struct muster_policy_file *file)
{
    const struct muster_policy *policy = file->policy;
    char hex[MUSTER_POLICY_HEX], match[TEXT], action[TEXT];
    muster_policy_hex(hex, policy->sha256);
    printf("%s: %u rule%s, SHA-256 %s\n", file->document.name, policy->rules,
           policy->rules == 1 ? "" : "s", hex);
    for (unsigned i = 0; i < policy->rules; i++) {
        muster_rule_describe_match(policy, &policy->rule[i], match, sizeof match);
        muster_rule_describe_action(&policy->rule[i], action, sizeof action);
        printf("  %s (line %u)\n      %s\n      %s\n", policy->rule[i].name,
               policy->rule[i].place.line, match, action);
    }
}

static void text_interval(struct view *view, const struct muster_policy_range *pipe_ops,
                          const struct muster_policy_range *bytes, const char *rule)
{
    char text[NUMBER];
    muster_range_print(text, sizeof text, bytes, true);
    printf("  %-16s  %-24s  ",
           view->first ? muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, view->func) : "", text);
    if (view->file->policy->matches_pipe_ops) {
        muster_range_print(text, sizeof text, pipe_ops, false);
        printf("%-10s  ", text);
    }
    puts(rule ? rule : "-");
    view->first = false;
}

static void json_interval(const struct view *view, const struct muster_policy_range *pipe_ops,
                          const struct muster_policy_range *bytes, const char *rule)
{
    struct muster_json *json = view->json;
    muster_json_object(json, NULL);
    muster_json_str(json, "collective", muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, view->func));
    muster_json_u64(json, "pipe_ops_min", pipe_ops->min);
    muster_json_u64(json, "pipe_ops_max", pipe_ops->max);
    muster_json_u64(json, "bytes_min", bytes->min);
    muster_json_u64(json, "bytes_max", bytes->max);
    muster_json_str(json, "rule", rule);
    muster_json_end(json);
}

static void take_interval(void *to, struct muster_policy_range pipe_ops,
                          struct muster_policy_range bytes, int rule)
{
    struct view *view = to;
    const char *name = rule < 0 ? NULL : view->file->policy->rule[rule].name;
    if (view->json)
        json_interval(view, &pipe_ops, &bytes, name);
    else
        text_interval(view, &pipe_ops, &bytes, name);
}

static void walk(struct view *view)
{
    const char *word;
    for (size_t i = 0; (word = muster_policy_name(MUSTER_FIELD_COLLECTIVE, i)); i++) {
        view->func = muster_policy_name_value(MUSTER_FIELD_COLLECTIVE, word);
        view->first = true;
        muster_frozen_walk(view->frozen, view->func, take_interval, view);
    }
}

static void put_text(struct view *view, const struct muster_query *comm)
{
    put_rules(view->file);
    if (!view->frozen)
        return;
    fputs("\nfor ", stdout);
    muster_policy_put_shape(stdout, comm);
    printf("\n  %-16s  %-24s  %s%s\n", "collective", "bytes",
           view->file->policy->matches_pipe_ops ? "pipe_ops    " : "", "rule");
    walk(view);
}

static void put_json(struct view *view, const struct muster_query *comm)
{
    struct muster_json json;
    muster_policy_json_begin(&json, view->file, stdout);
    muster_json_array(&json, "rules");
    for (unsigned i = 0; i < view->file->policy->rules; i++) {
        muster_json_object(&json, NULL);
        muster_policy_json_rule(&json, view->file, i);
        muster_json_end(&json);
    }
    muster_json_end(&json);
    muster_policy_json_comm(&json, view->frozen ? comm : NULL);
    muster_json_array(&json, "table");
    view->json = &json;
    if (view->frozen)
        walk(view);
    view->json = NULL;
    muster_json_end(&json);
    muster_json_end(&json);
}

static int show(const struct muster_cmd *self, const struct show_options *options,
                const struct muster_policy_file *file)
{
    struct muster_query comm = {.ranks = options->ranks,
                                .nodes = options->nodes,
                                .nvlink_domains = options->nvlink_domains};
    struct muster_frozen *frozen = NULL;
    struct muster_err err;
    if (comm.ranks && muster_policy_freeze(&frozen, file->policy, &comm)) {
        muster_fail_memory(&err, "the table");
        fprintf(stderr, "muster %s: %s\n", self->name, err.text);
        return MUSTER_STATUS_USAGE;
    }
    struct view view = {.file = file, .frozen = frozen};
    if (options->format == MUSTER_POLICY_AS_JSON)
        put_json(&view, &comm);
    else
        put_text(&view, &comm);
    muster_frozen_free(frozen);
    return MUSTER_STATUS_OK;
}

static int check_options(const struct muster_cmd *self, struct show_options *options)
{
    struct muster_query comm = {.ranks = options->ranks, .nvlink_domains = options->nvlink_domains};
    if (!options->ranks && (options->nodes || options->nvlink_domains))
        return muster_opt_wrong(self, "--ranks is missing");
    if (!options->nodes)
        options->nodes = 1;
    comm.nodes = options->nodes;
    return options->ranks ? muster_policy_check_shape(self, &comm) : 0;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct show_options options = {0};
    struct muster_policy_file file;
    int status;
    int at = muster_opt_parse_one(self, argc, argv, &options, "file", &status);
    if (at < 0)
        return status;
    status = check_options(self, &options);
    if (status)
        return status;
    status = muster_policy_file_open(self, argv[at], stderr, &file);
    if (status == MUSTER_STATUS_OK)
        status = show(self, &options, &file);
    muster_policy_file_close(&file);
    return status;
}

const struct muster_cmd muster_cmd_policy_show = {
    .name = "policy show",
    .summary = "the rules, and the table that they become for a communicator",
    .usage = "FILE [options]",
    .about = "With --ranks: for each collective that NCCL asks about, which rule decides at which\n"
             "bytes (\"-\": none, the choice stays NCCL's). This table is what the plugin looks\n"
             "operations up in.\n",
    .examples = "  muster policy show policy.yaml --ranks 16 --nodes 2\n",
    .options = show_table,
    .run = run,
};
