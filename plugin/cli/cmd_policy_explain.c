/* `muster policy explain`: which rule decides, why the earlier ones do not, what is written. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/cmd_policy.h"
#include "policy/offline/explain.h"
#include "policy/policy_fields.h"

enum { WHY = 512, CELL = 32 };

struct explain_options {
    const char *collective, *table;
    uint64_t bytes, ranks, nodes, nvlink_domains, pipe_ops;
    int format;
};

#define AT(field) offsetof(struct explain_options, field)

static const struct muster_opt explain_table[] = {
    {"collective", 'c', MUSTER_OPT_TEXT, AT(collective), "WORD",
     .help = "all_reduce, all_gather, reduce_scatter, broadcast or reduce"},
    {"bytes", 'b', MUSTER_OPT_SIZE, AT(bytes), "SIZE",
     .help = "of the whole operation; all_gather and reduce_scatter: of all ranks together"},
    {"ranks", 'r', MUSTER_OPT_U64, AT(ranks), "N", .min = 1, .help = "of the communicator"},
    {"nodes", 'n', MUSTER_OPT_U64, AT(nodes), "N", .min = 1, .help = "of the communicator (1)"},
    {"nvlink-domains", 0, MUSTER_OPT_U64, AT(nvlink_domains), "N", .min = 1,
     .help = "of the communicator (not told, as by NCCL before 2.28)"},
    {"pipe-ops", 0, MUSTER_OPT_U64, AT(pipe_ops), "N", .min = 1,
     .help = "operations of a group that follow each other through a channel (1)"},
    {"table", 't', MUSTER_OPT_TEXT, AT(table), "FILE",
     .help = "costs that NCCL offers, lines of ALGO PROTO MICROSECONDS (all that NCCL has)"},
    {"format", 'f', MUSTER_OPT_CHOICE, AT(format), "FORMAT", muster_policy_formats,
     .help = "text or json (text)"},
    {.name = NULL},
};

static const char *algo_word(unsigned i)
{
    return muster_policy_name_of(MUSTER_FIELD_ALGO, i / MUSTER_POLICY_PROTOS + 1);
}

static const char *proto_word(unsigned i)
{
    return muster_policy_name_of(MUSTER_FIELD_PROTO, i % MUSTER_POLICY_PROTOS + 1);
}

/* ---- Text ---- */

static void put_operation(const struct muster_explanation *explanation)
{
    const struct muster_query *query = &explanation->query;
    char size[32];
    muster_text_bytes(size, sizeof size, query->bytes);
    printf("%s of %s, ", muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, query->func), size);
    muster_policy_put_shape(stdout, query);
    if (query->pipe_ops > 1)
        printf(", %" PRIu64 " pipelined operations", query->pipe_ops);
    putchar('\n');
}

static void put_rules(const struct muster_explanation *explanation)
{
    const struct muster_policy *policy = explanation->policy;
    unsigned last = explanation->rule < 0 ? policy->rules : (unsigned)explanation->rule;
    char text[WHY];
    for (unsigned i = 0; i < last; i++) {
        muster_rule_explain(policy, &policy->rule[i], &explanation->query, text, sizeof text);
        printf("  %s (line %u): no, %s\n", policy->rule[i].name, policy->rule[i].place.line, text);
    }
    if (explanation->rule < 0) {
        puts(policy->rules ? "  no rule matches: the choice stays NCCL's, nothing is written"
                           : "  no rules: the choice stays NCCL's, nothing is written");
        return;
    }
    muster_rule_describe_action(&policy->rule[last], text, sizeof text);
    printf("  %s (line %u): decides: %s\n", policy->rule[last].name, policy->rule[last].place.line,
           text);
    if (last + 1 < policy->rules)
        printf("  (%u later rule%s not looked at)\n", policy->rules - last - 1,
               last + 2 == policy->rules ? " is" : "s are");
}

static void put_cell(const struct muster_explanation *explanation, unsigned i)
{
    char text[CELL];
    const char *more = muster_explain_raised(explanation, i) ? " +1000 s" : "";
    if (explanation->before[i] < 0)
        snprintf(text, sizeof text, "-");
    else if (!explanation->table)
        snprintf(text, sizeof text, "%s", *more ? "+1000 s" : "kept");
    else
        snprintf(text, sizeof text, "%.1f%s", (double)explanation->before[i], more);
    printf("  %18s", text);
}

static void put_table(const struct muster_explanation *explanation)
{
    printf("\n%s\n%-16s",
           explanation->table ? "costs in microseconds, and what is added to them"
                              : "what NCCL has, and what is added to its costs",
           "");
    for (unsigned p = 0; p < MUSTER_POLICY_PROTOS; p++)
        printf("  %18s", proto_word(p));
    putchar('\n');
    for (unsigned i = 0; i < MUSTER_COST_ENTRIES; i += MUSTER_POLICY_PROTOS) {
        bool any = false;
        for (unsigned p = 0; p < MUSTER_POLICY_PROTOS; p++)
            any |= explanation->before[i + p] >= 0;
        if (!any)
            continue;
        printf("  %-14s", algo_word(i));
        for (unsigned p = 0; p < MUSTER_POLICY_PROTOS; p++)
            put_cell(explanation, i + p);
        putchar('\n');
    }
}

static void put_choice(const char *when, const float cost[MUSTER_COST_ENTRIES])
{
    int best = muster_explain_choice(cost);
    if (best < 0)
        printf("%s: nothing is offered\n", when);
    else
        printf("%s: %s/%s, %.1f us\n", when, algo_word((unsigned)best), proto_word((unsigned)best),
               (double)cost[best]);
}

static void put_channels(const struct muster_explanation *explanation)
{
    const struct muster_rule *rule = &explanation->policy->rule[explanation->rule];
    if (!rule->channels)
        return;
    if (!explanation->channels) {
        puts("channels: not written");
        return;
    }
    printf("channels: at most %d%s\n", explanation->channels,
           explanation->unless_collnet ? "; not where NCCL offers CollNet" : "");
    if (explanation->query.func == MUSTER_FUNC_ALL_GATHER && explanation->channels > 1)
        puts("  from NCCL 2.29.2 on not written for all_gather, whose channels it then does not "
             "bound");
}

/* allgatherv_sched.cc, from 2.29 on. */
static void put_other_question(const struct muster_query *query)
{
    char size[32];
    uint64_t bytes;
    if (query->func != MUSTER_FUNC_BROADCAST ||
        __builtin_mul_overflow(query->bytes, query->ranks, &bytes))
        return;
    muster_text_bytes(size, sizeof size, bytes);
    printf("  from NCCL 2.29 on it may be asked about as an all_gather of %s\n", size);
}

static void put_text(const struct muster_explanation *explanation)
{
    put_operation(explanation);
    put_other_question(&explanation->query);
    put_rules(explanation);
    if (explanation->rule < 0)
        return;
    put_table(explanation);
    if (explanation->applied == MUSTER_APPLIED_NOT_OFFERED)
        puts("NCCL offers nothing of what the rule keeps: nothing is written, and it is counted");
    if (explanation->table) {
        put_choice("NCCL's own choice", explanation->before);
        put_choice("with the rule", explanation->after);
    }
    put_channels(explanation);
}

/* ---- JSON ---- */

static void json_operation(struct muster_json *json, const struct muster_query *query)
{
    muster_json_object(json, "operation");
    muster_json_str(json, "collective",
                    muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, query->func));
    muster_json_u64(json, "bytes", query->bytes);
    muster_json_u64(json, "pipe_ops", query->pipe_ops);
    muster_json_end(json);
    muster_policy_json_comm(json, query);
}

static void json_rules(struct muster_json *json, const struct muster_policy_file *file,
                       const struct muster_explanation *explanation)
{
    const struct muster_policy *policy = explanation->policy;
    char why[WHY];
    muster_json_array(json, "rules");
    for (unsigned i = 0; i < policy->rules; i++) {
        bool matches =
            muster_rule_explain(policy, &policy->rule[i], &explanation->query, why, sizeof why);
        muster_json_object(json, NULL);
        muster_policy_json_rule(json, file, i);
        muster_json_bool(json, "matches", matches);
        muster_json_str(json, "why_not", matches ? NULL : why);
        muster_json_end(json);
    }
    muster_json_end(json);
}

static void json_cost(struct muster_json *json, const char *key, bool known, float cost)
{
    if (known)
        muster_json_real(json, key, (double)cost, 3);
    else
        muster_json_null(json, key);
}

static void json_entries(struct muster_json *json, const struct muster_explanation *explanation)
{
    muster_json_array(json, "table");
    for (unsigned i = 0; i < MUSTER_COST_ENTRIES; i++) {
        if (explanation->before[i] < 0)
            continue;
        muster_json_object(json, NULL);
        muster_json_str(json, "algo", algo_word(i));
        muster_json_str(json, "proto", proto_word(i));
        json_cost(json, "before_us", explanation->table != NULL, explanation->before[i]);
        json_cost(json, "after_us", explanation->table != NULL, explanation->after[i]);
        muster_json_bool(json, "raised", muster_explain_raised(explanation, i));
        muster_json_end(json);
    }
    muster_json_end(json);
}

static void json_choice(struct muster_json *json, const char *key,
                        const struct muster_explanation *explanation, const float *cost)
{
    int best = explanation->table ? muster_explain_choice(cost) : -1;
    char text[64];
    if (best >= 0)
        snprintf(text, sizeof text, "%s/%s", algo_word((unsigned)best), proto_word((unsigned)best));
    muster_json_str(json, key, best >= 0 ? text : NULL);
}

static void put_json(const struct muster_policy_file *file,
                     const struct muster_explanation *explanation)
{
    static const char *const applied[] = {"nothing", "applied", "not_offered"};
    struct muster_json json;
    bool decided = explanation->rule >= 0;
    muster_policy_json_begin(&json, file, stdout);
    json_operation(&json, &explanation->query);
    json_rules(&json, file, explanation);
    muster_json_str(&json, "rule",
                    decided ? explanation->policy->rule[explanation->rule].name : NULL);
    muster_json_str(&json, "written", applied[explanation->applied]);
    json_entries(&json, explanation);
    json_choice(&json, "choice_before", explanation, explanation->before);
    json_choice(&json, "choice_after", explanation, explanation->after);
    if (explanation->channels)
        muster_json_i64(&json, "channels", explanation->channels);
    else
        muster_json_null(&json, "channels");
    muster_json_end(&json);
}

/* ---- The command ---- */

static int parse_collective(const struct muster_cmd *self, const char *text, unsigned *func)
{
    char known[160];
    *func = muster_policy_name_value(MUSTER_FIELD_COLLECTIVE, text);
    if (*func)
        return 0;
    const char *near = muster_policy_nearest_name(MUSTER_FIELD_COLLECTIVE, text);
    muster_policy_name_list(MUSTER_FIELD_COLLECTIVE, known, sizeof known);
    return near ? muster_opt_wrong(self, "--collective: \"%s\" is not %s, did you mean %s?", text,
                                   known, near)
                : muster_opt_wrong(self, "--collective: \"%s\" is not %s", text, known);
}

static int check_options(const struct muster_cmd *self, const struct explain_options *options,
                         struct muster_query *query)
{
    const char *missing = !options->collective           ? "collective"
                          : options->bytes == UINT64_MAX ? "bytes"
                          : !options->ranks              ? "ranks"
                                                         : NULL;
    if (missing)
        return muster_opt_wrong(self, "--%s is missing", missing);
    *query = (struct muster_query){.bytes = options->bytes,
                                   .pipe_ops = options->pipe_ops,
                                   .ranks = options->ranks,
                                   .nodes = options->nodes,
                                   .nvlink_domains = options->nvlink_domains};
    int wrong = parse_collective(self, options->collective, &query->func);
    return wrong ? wrong : muster_policy_check_shape(self, query);
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct explain_options options = {.bytes = UINT64_MAX, .nodes = 1, .pipe_ops = 1};
    struct muster_policy_file file;
    struct muster_explanation explanation = {.rule = MUSTER_POLICY_NO_RULE};
    struct muster_err err;
    int status;
    int at = muster_opt_parse_one(self, argc, argv, &options, "file", &status);
    if (at < 0)
        return status;
    status = check_options(self, &options, &explanation.query);
    if (status)
        return status;
    status = muster_policy_file_open(self, argv[at], stderr, &file);
    if (status == MUSTER_STATUS_OK) {
        explanation.policy = file.policy;
        explanation.table = options.table;
        if (muster_explain(&explanation, &err)) {
            fprintf(stderr, "muster policy explain: %s\n", err.text);
            status = MUSTER_STATUS_USAGE;
        } else {
            options.format == MUSTER_POLICY_AS_JSON ? put_json(&file, &explanation)
                                                    : put_text(&explanation);
        }
    }
    muster_policy_file_close(&file);
    return status;
}

const struct muster_cmd muster_cmd_policy_explain = {
    .name = "policy explain",
    .summary = "which rule decides an operation, why the earlier ones do not, what is written",
    .usage = "FILE --collective WORD --bytes SIZE --ranks N [options]",
    .about =
        "--table names a text with NCCL's costs of this operation, a line for each entry:\n"
        "  # algorithm, protocol, and microseconds, or latency/bandwidth\n"
        "  ring simple 28.5\n"
        "  tree ll 8.4/1.2\n"
        "Latency/bandwidth, in microseconds and GB/s, is what NCCL prints per communicator with\n"
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING; its time is latency + bytes / bandwidth. What\n"
        "is missing, or below 0, is not offered. Without --table all is shown that NCCL has for\n"
        "the collective.\n",
    .examples = "Which rule decides a 64 MiB all-reduce of 16 ranks on two nodes:\n"
                "  muster policy explain policy.yaml --collective all_reduce --bytes 64MiB \\\n"
                "    --ranks 16 --nodes 2\n",
    .options = explain_table,
    .run = run,
};
