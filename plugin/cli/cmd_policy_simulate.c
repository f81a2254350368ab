/* `muster policy simulate`: what a policy would have done to a recorded run. */
#include <inttypes.h>

#include "base/err.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/cmd_policy.h"
#include "policy/offline/simulate.h"
#include "policy/policy_fields.h"

enum { VARIANT = 64, WORDS = 512, SHOWN = 96 };

struct simulate_options {
    uint64_t nvlink_domains;
    int format;
};

static const struct muster_opt simulate_table[] = {
    {"nvlink-domains", 0, MUSTER_OPT_U64, offsetof(struct simulate_options, nvlink_domains), "N",
     .min = 1, .help = "of every communicator of the run, which does not tell (not known)"},
    {"format", 'f', MUSTER_OPT_CHOICE, offsetof(struct simulate_options, format), "FORMAT",
     muster_policy_formats, .help = "text or json (text)"},
    {.name = NULL},
};

struct result {
    const struct muster_policy_file *file;
    const struct muster_simulation *simulation;
    char *const *run; /* the first is simulated */
    int runs;
};

static const char *algo_word(unsigned algo)
{
    return algo ? muster_policy_name_of(MUSTER_FIELD_ALGO, algo) : "unknown";
}

static const char *proto_word(unsigned proto)
{
    return proto ? muster_policy_name_of(MUSTER_FIELD_PROTO, proto) : "unknown";
}

static void describe_variant(char to[VARIANT], struct muster_variant variant)
{
    if (!variant.algo || !variant.proto)
        snprintf(to, VARIANT, "not shown");
    else
        snprintf(to, VARIANT, "%s/%s %u ch", algo_word(variant.algo), proto_word(variant.proto),
                 variant.channels);
}

static const struct muster_rule *rule_of(const struct result *result,
                                         const struct muster_sim_class *class)
{
    int rule = class->cell->rule;
    return rule < 0 ? NULL : &result->file->policy->rule[rule];
}

/* ---- Text ---- */

static bool any_known(const struct muster_sim_class *class)
{
    return class->effects && class->effect[0].by != MUSTER_MEASURE_NONE;
}

static void put_effect(const struct muster_sim_class *class, const struct muster_sim_effect *effect,
                       FILE *out)
{
    char variant[VARIANT], clock[SHOWN] = "";
    describe_variant(variant, effect->variant);
    if (effect->clock_ratio > 0)
        snprintf(clock, sizeof clock, " (%.2f by the quickest rank's clock)", effect->clock_ratio);
    switch (effect->by) {
    case MUSTER_MEASURE_BEAT:
        fprintf(out, "      %s took %.2f times as long%s", variant, effect->ratio, clock);
        break;
    case MUSTER_MEASURE_CLOCK:
        fprintf(out, "      %s took %.2f times as long by the quickest rank's clock alone", variant,
                effect->ratio);
        break;
    default:
        fprintf(out, "      %s: unknown, only the quickest rank's clock compares them (%.2f)",
                variant, effect->clock_ratio);
    }
    fprintf(out, ", measured for %" PRIu64 " of %" PRIu64 " operations\n", effect->covered,
            class->ops);
}

static void put_change(const struct result *result, const struct muster_sim_class *class, FILE *out)
{
    static const char *const words[MUSTER_CHANGES] = {"", "would change", "may change",
                                                      "not known whether it would change"};
    char text[WORDS];
    muster_rule_describe_action(rule_of(result, class), text, sizeof text);
    fprintf(out, "      %s: %s%s\n", words[class->change], text,
            class->change == MUSTER_CHANGE_UNKNOWN ? "; NCCL does not show what ran"
            : any_known(class)                     ? ""
            : class->effects                       ? "; effect unknown"
                                                   : "; effect unknown, not measured");
    for (unsigned i = 0; i < class->effects; i++)
        put_effect(class, &class->effect[i], out);
}

static void put_class(const struct result *result, const struct muster_sim_class *class, FILE *out)
{
    const struct muster_sim_cell *cell = class->cell;
    const struct muster_rule *rule = rule_of(result, class);
    char size[32], ran[VARIANT], name[64];
    muster_text_bytes(size, sizeof size, cell->size);
    describe_variant(ran, cell->ran);
    snprintf(name, sizeof name, "%s%s", muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, cell->func),
             cell->func == cell->query.func ? "" : " (1)");
    fprintf(out, "  %-18s %10s %6" PRIu64 " %6" PRIu64 " %10" PRIu64 "  %-24s  %s\n", name, size,
            cell->query.ranks, cell->query.nodes, class->ops, ran, rule ? rule->name : "-");
    if (class->change != MUSTER_CHANGE_NONE)
        put_change(result, class, out);
}

/* "360 of 908 operations would change, 548 stay as they are" */
static void put_totals(const struct muster_simulation *simulation, FILE *out)
{
    static const struct {
        enum muster_change change;
        const char *words;
    } rest[] = {{MUSTER_CHANGE_MAY, "may change"},
                {MUSTER_CHANGE_UNKNOWN, "are not known to stay"},
                {MUSTER_CHANGE_NONE, "stay as they are"}};
    uint64_t ops[MUSTER_CHANGES] = {0};
    for (size_t i = 0; i < simulation->classes; i++)
        ops[simulation->class[i].change] += simulation->class[i].ops;
    fprintf(out, "%" PRIu64 " of %" PRIu64 " operations would change", ops[MUSTER_CHANGE_WOULD],
            simulation->asked);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        if (ops[rest[i].change])
            fprintf(out, ", %" PRIu64 " %s", ops[rest[i].change], rest[i].words);
    if (simulation->never)
        fprintf(out, "; NCCL asks no tuner about %" PRIu64 " more", simulation->never);
    fputs("\n\n", out);
}

static void put_note(void *to, const char *text)
{
    fprintf(to, "  - %s\n", text);
}

/* What the answer does not cover. */
static void each_note(const struct result *result, void (*put)(void *to, const char *text),
                      void *to)
{
    const struct muster_simulation *simulation = result->simulation;
    char text[200];
    bool gathers = false, would = false, beats = false, clocks = false;
    for (size_t i = 0; i < simulation->classes; i++) {
        const struct muster_sim_class *class = &simulation->class[i];
        would |= class->ops && class->change == MUSTER_CHANGE_WOULD;
        gathers |= class->ops && class->cell->func != class->cell->query.func;
        for (unsigned e = 0; class->ops && class->change && e < class->effects; e++) {
            beats |= class->effect[e].by == MUSTER_MEASURE_BEAT;
            clocks |= class->effect[e].by == MUSTER_MEASURE_NONE;
        }
    }
    if (gathers)
        put(to, "(1) from NCCL 2.29 on a broadcast may be asked about as an all_gather of ranks x "
                "bytes, of which only protocol and channels are taken");
    if (would)
        put(to, "what would change does so only where NCCL offers something that the rule keeps, "
                "which a run does not tell");
    if (beats)
        put(to, "times are from the start of an operation to that of the next one of its "
                "communicator: what a job does in between is in both");
    if (clocks)
        put(to, "the quickest rank's clock says little of algorithms whose ranks do not end "
                "together, as in a tree; the time to the next operation is not known there");
    if (simulation->unknown) {
        snprintf(text, sizeof text,
                 "%" PRIu64 " operations are left out: NCCL before 2.27 does not tell the size of "
                 "their communicators",
                 simulation->unknown);
        put(to, text);
    }
    if (simulation->missing) {
        snprintf(text, sizeof text,
                 "%" PRIu64 " operations are left out: they are known by their class only",
                 simulation->missing);
        put(to, text);
    }
    if (result->file->policy->matches_nvlink_domains && !simulation->nvlink_domains)
        put(to, "rules that match nvlink_domains decide nothing here: give --nvlink-domains");
    if (result->file->policy->matches_pipe_ops)
        put(to, "rules that match pipe_ops are asked with 1: a run does not tell it");
    put(to, "operations are judged one by one: NCCL asks about several small ones of a group "
            "together, with their bytes in sum");
}

static void put_text(const struct result *result, FILE *out)
{
    const struct muster_simulation *simulation = result->simulation;
    fprintf(out, "%s on %s: ", result->file->document.name, result->run[0]);
    put_totals(simulation, out);
    if (simulation->asked)
        fprintf(out, "  %-18s %10s %6s %6s %10s  %-24s  %s\n", "collective", "size >=", "ranks",
                "nodes", "count", "ran", "decided by");
    for (size_t i = 0; i < simulation->classes; i++)
        if (simulation->class[i].ops)
            put_class(result, &simulation->class[i], out);
    fputc('\n', out);
    each_note(result, put_note, out);
}

static void print_page(const struct result *result)
{
    struct muster_terminal_page page;
    muster_terminal_page_begin(&page);
    put_text(result, page.out);
    muster_terminal_page_end(&page);
}

/* ---- JSON ---- */

static void json_variant(struct muster_json *json, struct muster_variant variant)
{
    muster_json_str(json, "algo", algo_word(variant.algo));
    muster_json_str(json, "proto", proto_word(variant.proto));
    muster_json_u64(json, "channels", variant.channels);
}

static void json_ratio(struct muster_json *json, const char *key, double ratio)
{
    if (ratio > 0)
        muster_json_real(json, key, ratio, 4);
    else
        muster_json_null(json, key);
}

static void json_changes(struct muster_json *json, const struct result *result,
                         const struct muster_sim_class *class)
{
    static const char *const by[MUSTER_MEASURES] = {NULL, "beat", "clock"};
    const struct muster_rule *rule = rule_of(result, class);
    muster_json_str(json, "change", muster_change_name(class->change));
    muster_json_array(json, "keeps");
    for (unsigned i = 0; rule && i < MUSTER_POLICY_ALGOS * MUSTER_POLICY_PROTOS; i++)
        if (class->keeps >> i & 1) {
            char word[VARIANT];
            snprintf(word, sizeof word, "%s/%s", algo_word(i / MUSTER_POLICY_PROTOS + 1),
                     proto_word(i % MUSTER_POLICY_PROTOS + 1));
            muster_json_str(json, NULL, word);
        }
    muster_json_end(json);
    if (rule && rule->channels)
        muster_json_u64(json, "channels_max", rule->channels);
    else
        muster_json_null(json, "channels_max");
    muster_json_array(json, "effects");
    for (unsigned i = 0; i < class->effects; i++) {
        muster_json_object(json, NULL);
        json_variant(json, class->effect[i].variant);
        json_ratio(json, "ratio", class->effect[i].ratio);
        json_ratio(json, "clock_ratio", class->effect[i].clock_ratio);
        muster_json_str(json, "by", by[class->effect[i].by]);
        muster_json_u64(json, "covered", class->effect[i].covered);
        muster_json_end(json);
    }
    muster_json_end(json);
}

static void json_class(struct muster_json *json, const struct result *result,
                       const struct muster_sim_class *class)
{
    const struct muster_sim_cell *cell = class->cell;
    const struct muster_rule *rule = rule_of(result, class);
    muster_json_object(json, NULL);
    muster_json_str(json, "collective", muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, cell->func));
    muster_json_str(json, "asked_as",
                    muster_policy_name_of(MUSTER_FIELD_COLLECTIVE, cell->query.func));
    muster_json_u64(json, "size", cell->size);
    muster_json_u64(json, "ranks", cell->query.ranks);
    muster_json_u64(json, "nodes", cell->query.nodes);
    muster_json_u64(json, "count", class->ops);
    json_variant(json, cell->ran);
    muster_json_str(json, "rule", rule ? rule->name : NULL);
    json_changes(json, result, class);
    muster_json_end(json);
}

static void json_note(void *to, const char *text)
{
    muster_json_str(to, NULL, text);
}

static void put_json(const struct result *result)
{
    const struct muster_simulation *simulation = result->simulation;
    struct muster_json json;
    muster_policy_json_begin(&json, result->file, stdout);
    muster_json_array(&json, "run");
    for (int i = 0; i < result->runs; i++)
        muster_json_str(&json, NULL, result->run[i]);
    muster_json_end(&json);
    muster_json_u64(&json, "asked", simulation->asked);
    muster_json_u64(&json, "not_asked", simulation->never);
    muster_json_u64(&json, "left_out", simulation->unknown + simulation->missing);
    muster_json_array(&json, "classes");
    for (size_t i = 0; i < simulation->classes; i++)
        if (simulation->class[i].ops)
            json_class(&json, result, &simulation->class[i]);
    muster_json_end(&json);
    muster_json_array(&json, "notes");
    each_note(result, json_note, &json);
    muster_json_end(&json);
    muster_json_end(&json);
}

/* ---- The command ---- */

static int add_run(struct muster_simulation *simulation, const char *path, bool simulate,
                   struct muster_err *err)
{
    struct muster_run run;
    struct muster_view view;
    struct muster_run_query query = {.run = &path, .runs = 1, .streamed = true};
    if (muster_run_load(&query, &run, err))
        return -1;
    int result = muster_view_of_run_aligned(&run, &view, err);
    if (result == 0) {
        muster_simulation_add(simulation, &view, simulate);
        muster_view_free(&view);
    }
    muster_run_free(&run);
    return result;
}

static int simulate(const struct muster_policy_file *file, const struct simulate_options *options,
                    char *const *run, int runs, struct muster_err *err)
{
    struct muster_simulation simulation = {.policy = file->policy,
                                           .nvlink_domains = options->nvlink_domains};
    struct result result = {file, &simulation, run, runs};
    int rc = 0;
    for (int i = 0; i < runs && rc == 0; i++)
        rc = add_run(&simulation, run[i], i == 0, err);
    if (rc == 0 && muster_simulation_finish(&simulation))
        rc = muster_fail_memory(err, "the classes of operations");
    if (rc == 0)
        options->format == MUSTER_POLICY_AS_JSON ? put_json(&result) : print_page(&result);
    muster_simulation_free(&simulation);
    return rc;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct simulate_options options = {0};
    struct muster_policy_file file;
    struct muster_err err;
    int status;
    int at = muster_opt_parse(self, argc, argv, &options, &status);
    if (at < 0)
        return status;
    if (argc - at < 2)
        return muster_opt_wrong(self, at == argc ? "which file?" : "which run?");
    status = muster_policy_file_open(self, argv[at], stderr, &file);
    if (status == MUSTER_STATUS_OK &&
        simulate(&file, &options, argv + at + 1, argc - at - 1, &err)) {
        fprintf(stderr, "muster %s: %s\n", self->name, err.text);
        status = MUSTER_STATUS_USAGE;
    }
    muster_policy_file_close(&file);
    return status;
}

const struct muster_cmd muster_cmd_policy_simulate = {
    .name = "policy simulate",
    .summary = "what a policy would have done to a recorded run",
    .usage = "FILE RUN [RUN...] [options]",
    .about =
        "For each class of operations of the first RUN (collective, size, ranks and nodes of the\n"
        "communicator): what ran, which rule would have decided, and what would change. How long\n"
        "the change takes is told where what ran and what the rule keeps were both measured for\n"
        "the same size, in RUN or one of the others: from the start of an operation to that of "
        "the\n"
        "next, medians of at least 10 that every rank timed each way. Where that is not known the\n"
        "quickest rank's clock stands in, from ring to ring only. Else the effect is unknown.\n",
    .examples = "The run that is looked at, and one where the other choice was measured:\n"
                "  muster policy simulate policy.yaml muster-4711 muster-4710\n",
    .options = simulate_table,
    .run = run,
};
