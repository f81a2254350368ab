/* `muster policy`: what its commands share, and `muster policy schema`. */
#include "cli/cmd_policy.h"

#include <inttypes.h>

#include "base/err.h"

const char *const muster_policy_formats[] = {"text", "json", NULL};

struct listener {
    struct muster_policy_file *file;
    FILE *out;
};

static void report(void *to, const struct muster_policy_message *message)
{
    char text[1700];
    struct listener *listener = to;
    if (message->warning)
        listener->file->warnings++;
    else
        listener->file->errors++;
    muster_policy_message_print(text, sizeof text, message);
    fprintf(listener->out, "%s\n", text);
}

int muster_policy_file_open(const struct muster_cmd *self, const char *path, FILE *messages,
                            struct muster_policy_file *file)
{
    struct muster_err err;
    struct listener listener = {file, messages};
    *file = (struct muster_policy_file){.policy = NULL};
    if (muster_document_read(&file->document, path, &err)) {
        fprintf(stderr, "muster %s: %s\n", self->name, err.text);
        return MUSTER_STATUS_USAGE;
    }
    if (muster_policy_parse(&file->policy, path, file->document.text, file->document.bytes, report,
                            &listener))
        return MUSTER_STATUS_FINDING;
    return MUSTER_STATUS_OK;
}

void muster_policy_file_close(struct muster_policy_file *file)
{
    muster_policy_free(file->policy);
    muster_document_free(&file->document);
}

void muster_policy_json_begin(struct muster_json *json, const struct muster_policy_file *file,
                              FILE *out)
{
    char hex[MUSTER_POLICY_HEX];
    muster_policy_hex(hex, file->policy->sha256);
    muster_json_begin(json, out, true);
    muster_json_object(json, NULL);
    muster_json_u64(json, "version", 1);
    muster_json_str(json, "muster", MUSTER_VERSION);
    muster_json_str(json, "file", file->document.name);
    muster_json_str(json, "sha256", hex);
}

void muster_policy_json_rule(struct muster_json *json, const struct muster_policy_file *file,
                             unsigned i)
{
    const struct muster_rule *rule = &file->policy->rule[i];
    char text[1024];
    muster_json_str(json, "name", rule->name);
    muster_json_u64(json, "line", rule->place.line);
    muster_json_u64(json, "column", rule->place.column);
    muster_rule_describe_match(file->policy, rule, text, sizeof text);
    muster_json_str(json, "match", text);
    muster_rule_describe_action(rule, text, sizeof text);
    muster_json_str(json, "action", text);
}

void muster_policy_json_comm(struct muster_json *json, const struct muster_query *comm)
{
    if (!comm) {
        muster_json_null(json, "communicator");
        return;
    }
    muster_json_object(json, "communicator");
    muster_json_u64(json, "ranks", comm->ranks);
    muster_json_u64(json, "nodes", comm->nodes);
    if (comm->nvlink_domains)
        muster_json_u64(json, "nvlink_domains", comm->nvlink_domains);
    else
        muster_json_null(json, "nvlink_domains");
    muster_json_end(json);
}

static void put_count(FILE *out, uint64_t n, const char *what)
{
    fprintf(out, "%" PRIu64 " %s%s", n, what, n == 1 ? "" : "s");
}

void muster_policy_put_shape(FILE *out, const struct muster_query *comm)
{
    put_count(out, comm->ranks, "rank");
    fputs(" on ", out);
    put_count(out, comm->nodes, "node");
    if (comm->nvlink_domains) {
        fputs(", ", out);
        put_count(out, comm->nvlink_domains, "NVLink domain");
    }
}

int muster_policy_check_shape(const struct muster_cmd *self, const struct muster_query *comm)
{
    if (comm->nodes > comm->ranks)
        return muster_opt_wrong(self, "--nodes %" PRIu64 ": more than --ranks %" PRIu64,
                                comm->nodes, comm->ranks);
    if (comm->nvlink_domains > comm->ranks)
        return muster_opt_wrong(self, "--nvlink-domains %" PRIu64 ": more than --ranks %" PRIu64,
                                comm->nvlink_domains, comm->ranks);
    return 0;
}

static int schema(const struct muster_cmd *self, int argc, char **argv)
{
    int status;
    if (!muster_opt_parse_all(self, argc, argv, NULL, &status))
        return status;
    muster_policy_schema(stdout);
    return MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_policy_schema = {
    .name = "policy schema",
    .summary = "print the JSON Schema of a policy, for editors",
    .usage = "",
    .examples = "  muster policy schema > muster-policy.schema.json\n",
    .run = schema,
};

static const struct muster_cmd *const subs[] = {
    &muster_cmd_policy_check, &muster_cmd_policy_explain, &muster_cmd_policy_simulate,
    &muster_cmd_policy_show,  &muster_cmd_policy_schema,  NULL,
};

const struct muster_cmd muster_cmd_policy = {
    .name = "policy",
    .summary = "check a policy, say what it decides, and what it would have done to a run",
    .usage = "check|explain|simulate|show|schema [FILE] [options]",
    .about =
        "A policy says which algorithm, protocol and number of channels NCCL should use where:\n"
        "docs/policy.md. Nothing here touches a job. Exit status: 1 if the policy has errors,\n"
        "2 for a wrong call or a file that cannot be read.\n",
    .examples = "  muster policy check policy.yaml\n"
                "What it would have done to a run, and a job under it:\n"
                "  muster policy simulate policy.yaml muster-4711\n"
                "  muster run --policy policy.yaml -- python train.py\n",
    .subs = subs,
    .run = muster_cmd_run_sub,
};
