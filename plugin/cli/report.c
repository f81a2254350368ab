#include "cli/report.h"

#include "cli/cmd.h"
#include "cli/diagnose.h"
#include "cli/report_rules.h"
#include "export/report_out.h"

static enum muster_report_by rows_by(enum muster_report_format format,
                                     enum muster_report_choice choice)
{
    if (format != MUSTER_FORMAT_JSON && choice == MUSTER_SHOW_COMM) {
        return MUSTER_BY_COMM;
    }
    if (format != MUSTER_FORMAT_JSON && choice == MUSTER_SHOW_SIZE) {
        return MUSTER_BY_SIZE;
    }
    return MUSTER_BY_OP;
}

static int print(const struct muster_report *report, enum muster_report_format format,
                 enum muster_report_choice choice, FILE *out, struct muster_err *err)
{
    enum muster_report_rows rows = choice == MUSTER_SHOW_DEFAULT ? MUSTER_ROWS_BOTH
                                   : choice == MUSTER_SHOW_RANK  ? MUSTER_ROWS_RANK
                                   : choice == MUSTER_SHOW_RULE  ? MUSTER_ROWS_RULE
                                                                 : MUSTER_ROWS_OP;
    switch (format) {
    case MUSTER_FORMAT_JSON:
        muster_report_json(report, out);
        return 0;
    case MUSTER_FORMAT_CSV:
        muster_report_csv(report, rows, out);
        return 0;
    case MUSTER_FORMAT_TEXT:
        break;
    }
    return muster_report_text(report, rows, out) ? muster_fail(err, "out of memory for a table")
                                                 : 0;
}

int muster_report_print(const struct muster_run_query *query, enum muster_report_format format,
                        enum muster_report_choice choice, FILE *out, struct muster_err *err)
{
    struct muster_run run;
    struct muster_report report;
    if (muster_run_load(query, &run, err)) {
        return -1;
    }
    struct muster_report_rules rules = {0};
    int result = muster_report_build(&run, rows_by(format, choice), &report, err);
    if (result == 0) {
        bool of_rules = choice == MUSTER_SHOW_RULE || format == MUSTER_FORMAT_JSON;
        result = of_rules ? muster_report_rules_add(&rules, &run, &report, err) : 0;
        if (result) {
            muster_report_free(&report);
        }
    }
    if (result == 0) {
        result = print(&report, format, choice, out, err);
        muster_report_free(&report);
    }
    muster_report_rules_free(&rules);
    if (result == 0 && format == MUSTER_FORMAT_TEXT && choice != MUSTER_SHOW_RULE) {
        muster_diagnose_append(&run, out);
    }
    muster_run_free(&run);
    return result;
}

struct report_options {
    bool live;
    int format;
    int choice;
};

static const char *const formats[] = {"text", "json", "csv", NULL};
static const char *const choices[] = {"default", "rank", "op", "comm", "size", "rule", NULL};

static const struct muster_opt report_table[] = {
    {"live", 0, MUSTER_OPT_FLAG, offsetof(struct report_options, live),
     .help = "every process of yours on this host"},
    {"format", 'f', MUSTER_OPT_CHOICE, offsetof(struct report_options, format), "FORMAT", formats,
     .help = "text, json or csv (text)"},
    {"by", 'b', MUSTER_OPT_CHOICE, offsetof(struct report_options, choice), "ROWS", choices,
     .help = "rows of text and CSV: rank, op, comm, size, or rule of the policy"},
    {.name = NULL},
};

static int report(const struct muster_cmd *self, int argc, char **argv)
{
    struct report_options options = {.format = MUSTER_FORMAT_TEXT};
    struct muster_err err;
    int status;
    int at = muster_opt_parse(self, argc, argv, &options, &status);
    if (at < 0) {
        return status;
    }
    if (options.live && at < argc) {
        return muster_opt_wrong(self, "--live takes what lives here, not also \"%s\"", argv[at]);
    }
    struct muster_run_query query = {
        .run = (const char *const *)&argv[at],
        .runs = (size_t)(argc - at),
        .live = options.live,
    };
    if (muster_report_print(&query, (enum muster_report_format)options.format,
                            (enum muster_report_choice)options.choice, stdout, &err)) {
        fprintf(stderr, "muster report: %s\n", err.text);
        return MUSTER_STATUS_USAGE;
    }
    return MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_report = {
    .name = "report",
    .summary = "what every operation of a run cost, rank by rank",
    .usage = "[RUN...] [options]",
    .about = "RUN is a run directory or the pid of a live process; several are taken together.\n"
             "Without RUN: the newest ./muster-* directory. The words and fields of the report\n"
             "are explained in docs/interface.md; JSON holds all rows, whatever --by says.\n",
    .options = report_table,
    .run = report,
};
