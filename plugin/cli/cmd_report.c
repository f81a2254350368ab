#include "cli/cmd_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/arena.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/diagnose/diagnose_look.h"
#include "cli/job_heading.h"
#include "cli/progress.h"
#include "diagnose/diagnose.h"
#include "page/page.h"
#include "policy/offline/report_rules.h"
#include "report/report_output.h"
#include "run/beside_work.h"
#include "timeline/timeline.h"
#include "verdict/verdict.h"

static enum muster_report_by rows_by(enum muster_report_format format,
                                     enum muster_report_choice choice)
{
    if (format != MUSTER_FORMAT_JSON && choice == MUSTER_SHOW_COMM)
        return MUSTER_BY_COMM;
    if (format != MUSTER_FORMAT_JSON && choice == MUSTER_SHOW_SIZE)
        return MUSTER_BY_SIZE;
    if (format != MUSTER_FORMAT_JSON && choice == MUSTER_SHOW_RANK_SIZE)
        return MUSTER_BY_RANK_SIZE;
    return MUSTER_BY_OP;
}

static enum muster_report_rows rows_of(enum muster_report_choice choice)
{
    switch (choice) {
    case MUSTER_SHOW_DEFAULT:
        return MUSTER_ROWS_BOTH;
    case MUSTER_SHOW_RANK:
        return MUSTER_ROWS_RANK;
    case MUSTER_SHOW_RULE:
        return MUSTER_ROWS_RULE;
    case MUSTER_SHOW_OP:
    case MUSTER_SHOW_COMM:
    case MUSTER_SHOW_SIZE:
    case MUSTER_SHOW_RANK_SIZE:
        break;
    }
    return MUSTER_ROWS_OP;
}

/* What a report has beside its tables. */
struct diagnosed {
    const struct muster_view *view;
    const struct muster_findings *findings; /* NULL: nobody looked */
    struct muster_verdict verdict;          /* for JSON, where somebody looked */
    char *text;                             /* the verdict's, where it is one; the owner frees */
};

static void add_findings(const void *arg, struct muster_json *json)
{
    const struct diagnosed *diagnosed = arg;
    if (!diagnosed->findings)
        return;
    muster_verdict_json(&diagnosed->verdict, json);
    muster_json_array(json, "findings");
    for (size_t i = 0; i < diagnosed->findings->n; i++) {
        muster_json_object(json, NULL);
        muster_finding_json(&diagnosed->findings->finding[i], json);
        muster_json_end(json);
    }
    muster_json_end(json);
    muster_json_array(json, "not_observable");
    for (unsigned i = 0; i < diagnosed->findings->not_observable.n; i++)
        muster_json_str(json, NULL, diagnosed->findings->not_observable.line[i]);
    muster_json_end(json);
}

static int print_text(const struct muster_report *report, const struct muster_report_show *show,
                      const struct diagnosed *diagnosed, FILE *out)
{
    if (diagnosed->text) {
        fputs(diagnosed->text, out);
        fputc('\n', out);
    }
    if (muster_report_text(report, show, out))
        return -1;
    if (diagnosed->findings)
        muster_diagnose_append(diagnosed->findings, &show->terminal, out);
    return 0;
}

static int print(const struct muster_report *report, const struct muster_report_request *request,
                 const struct diagnosed *diagnosed, FILE *out, struct muster_err *err)
{
    int fd = fileno(out);
    struct muster_report_show show = {
        .rows = rows_of(request->choice), .sort = request->sort, .top = request->top};
    bool text = request->format == MUSTER_FORMAT_TEXT;
    int result = 0;
    show.worst = text || request->top;
    if (text) {
        show.terminal = muster_terminal_of(fd);
        if (!request->top_given && request->choice != MUSTER_SHOW_RULE) {
            bool whole =
                request->choice != MUSTER_SHOW_DEFAULT && request->choice != MUSTER_SHOW_RANK;
            show.top = whole ? 0 : MUSTER_SHOW_TOP;
        }
    }
    if (!muster_report_can_sort(report, &show)) {
        return muster_fail(err,
                           "--sort %s: these rows have no such column; take one of the "
                           "headings, or of the names that --format csv shows",
                           request->sort);
    }
    /* In one write, so that reports of several hosts do not run into each other. */
    char *page = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&page, &bytes);
    if (!to)
        return muster_fail_memory(err, "the report");
    switch (request->format) {
    case MUSTER_FORMAT_JSON:
        muster_report_json(report, add_findings, diagnosed, to);
        break;
    case MUSTER_FORMAT_CSV:
        result = muster_report_csv(report, &show, to);
        break;
    case MUSTER_FORMAT_TEXT:
        result = print_text(report, &show, diagnosed, to);
        break;
    }
    if (!muster_text_close(to, &page) || result) {
        free(page);
        return muster_fail_memory(err, "the report");
    }
    fflush(out);
    fwrite(page, 1, bytes, out);
    free(page);
    return 0;
}

/* By the width of what it goes to; NULL: no memory. */
static char *verdict_text(const struct muster_view *view, const struct muster_findings *findings,
                          FILE *out)
{
    const struct muster_terminal terminal = muster_terminal_of(fileno(out));
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    bool whole = muster_verdict_print(view, findings, &terminal, to);
    if (muster_text_close(to, &text) && whole)
        return text;
    free(text);
    return NULL;
}

/* Who reads a report may not take want of memory for a verdict. As text, by `out`, or for JSON. */
static int look(const struct muster_view *view, const struct muster_findings *findings, FILE *out,
                struct diagnosed *diagnosed, struct muster_err *err)
{
    *diagnosed = (struct diagnosed){.view = view, .findings = findings};
    if (findings && out)
        diagnosed->text = verdict_text(view, findings, out);
    else if (findings)
        muster_verdict_of(view, findings, 0, &diagnosed->verdict);
    bool failed = diagnosed->verdict.no_memory || (findings && out && !diagnosed->text);
    return failed ? muster_fail_memory(err, "the verdict") : 0;
}

/* The rows, which rest on no finding: made beside the verdict. */
struct building {
    const struct muster_view *view;
    enum muster_report_by by;
    struct muster_report *report;
    struct muster_err err;
    int result;
};

static void build(void *arg)
{
    struct building *own = arg;
    own->result = muster_report_build(own->view, own->by, own->report, &own->err);
}

/* Both. -1: nothing is to be freed. */
static int look_and_build(const struct muster_view *view, const struct muster_findings *findings,
                          enum muster_report_by by, FILE *out, struct diagnosed *diagnosed,
                          struct muster_report *report, struct muster_err *err)
{
    struct building rows = {.view = view, .by = by, .report = report};
    struct muster_beside other;
    muster_beside_begin(&other, build, &rows);
    int result = look(view, findings, out, diagnosed, err);
    muster_beside_end(&other);
    if (result == 0 && rows.result != 0) {
        *err = rows.err;
        free(diagnosed->text);
    } else if (result != 0 && rows.result == 0) {
        muster_report_free(report);
    }
    return result == 0 ? rows.result : result;
}

static int print_view(const struct muster_view *view, const struct muster_findings *findings,
                      const struct muster_report_request *request, FILE *out,
                      struct muster_err *err)
{
    struct muster_report report;
    struct diagnosed diagnosed;
    bool of_rules = request->choice == MUSTER_SHOW_RULE || request->format == MUSTER_FORMAT_JSON;
    if (look_and_build(view, findings, rows_by(request->format, request->choice),
                       request->format == MUSTER_FORMAT_TEXT ? out : NULL, &diagnosed, &report,
                       err))
        return -1;
    if (findings)
        muster_verdict_mark(view, findings, &report);
    int result = of_rules ? muster_report_rules_add(view, &report, err) : 0;
    if (result == 0)
        result = print(&report, request, &diagnosed, out, err);
    free(diagnosed.text);
    muster_report_free(&report);
    return result;
}

static void write_drawn(const char *path, const struct muster_timeline_count *count)
{
    fprintf(stderr, "muster report: %s: %" PRIu64 " operations drawn", path, count->drawn);
    if (count->outside) {
        fprintf(stderr, "; %" PRIu64 " away from findings are left out (--whole draws them)",
                count->outside);
    }
    if (count->untimed)
        fprintf(stderr, "; %" PRIu64 " have no GPU times", count->untimed);
    fprintf(stderr, "\n");
}

static void write_beside(const struct muster_timeline_beside *beside)
{
    if (beside->matched) {
        fprintf(stderr,
                "muster report: %s: rank %" PRId64 ", laid by %zu operations, within %.1f us\n",
                beside->path, beside->rank, beside->matched, (double)beside->residual_ns / 1e3);
    } else {
        fprintf(stderr,
                "muster report: %s: not laid beside ours: of its %zu kernels with a process group "
                "and a number too few are in the run\n",
                beside->path, beside->operations);
    }
}

/* The paths between commas, which become ends. */
static size_t split_paths(char *paths, struct muster_timeline_beside *beside)
{
    size_t n = 0;
    for (char *rest = paths, *path; (path = strtok_r(rest, ",", &rest));)
        beside[n++] = (struct muster_timeline_beside){.path = path};
    return n;
}

/* The picture beside the text; what it leaves out is printed. */
static int draw(const struct muster_view *view, const struct muster_report_request *request,
                struct muster_err *err)
{
    struct muster_findings findings = {0};
    struct muster_timeline_count count = {0};
    struct muster_arena memory = {0};
    const char *with = request->with ? request->with : "";
    char *paths = muster_arena_array(&memory, strlen(with) + 1, 1);
    struct muster_timeline_beside *beside =
        muster_arena_array(&memory, strlen(with) + 1, sizeof *beside);
    int result = muster_arena_check(&memory, err, request->perfetto);
    if (result == 0) {
        memcpy(paths, with, strlen(with) + 1);
        result = muster_diagnose_slow(view, &findings, err);
    }
    if (result == 0) {
        const struct muster_timeline_request drawn = {request->perfetto, request->whole, beside,
                                                      split_paths(paths, beside)};
        struct muster_progress *progress =
            muster_progress_begin("report", "drawing the timeline", 0);
        result = muster_timeline_write(view, &findings, &drawn, &count, err);
        muster_progress_end(progress);
        if (result == 0)
            write_drawn(request->perfetto, &count);
        for (size_t i = 0; result == 0 && i < drawn.besides; i++)
            write_beside(&beside[i]);
    }
    muster_findings_free(&findings);
    muster_arena_free(&memory);
    return result;
}

/* The page beside the text; the report in it is that of --format json. */
static int make_page(const struct muster_view *view, const struct muster_findings *findings,
                     const struct muster_report_request *request, struct muster_err *err)
{
    struct muster_report report;
    struct muster_page_made made;
    struct diagnosed diagnosed;
    const struct muster_page_request page = {
        .path = request->html,
        .command = request->command,
        .made_unix_s = (uint64_t)time(NULL),
        .more = add_findings,
        .more_arg = &diagnosed,
    };
    if (look_and_build(view, findings, MUSTER_BY_OP, NULL, &diagnosed, &report, err))
        return -1;
    struct muster_progress *progress = muster_progress_begin("report", "drawing the page", 0);
    muster_verdict_mark(view, findings, &report);
    int result = muster_report_rules_add(view, &report, err);
    if (result == 0)
        result = muster_page_write(view, &report, findings, &page, &made, err);
    muster_progress_end(progress);
    if (result == 0) {
        fprintf(stderr, "muster report: %s: %.1f MB, %zu ranks%s\n", request->html,
                (double)made.bytes / 1e6, report.ranks,
                made.left_out ? "; rows of the tables that would not fit are left out" : "");
    }
    muster_report_free(&report);
    return result;
}

/* Of CSV only the ranks have a column that rests on findings. */
static bool with_findings(const struct muster_report_request *request)
{
    bool ranks = request->choice == MUSTER_SHOW_DEFAULT || request->choice == MUSTER_SHOW_RANK;
    return request->choice != MUSTER_SHOW_RULE && (ranks || request->format != MUSTER_FORMAT_CSV);
}

/* What is printed and drawn from. -1: nothing is to be freed. */
static int read_run(const struct muster_run_query *query,
                    const struct muster_report_request *request, struct muster_run *run,
                    struct muster_view *view, struct muster_findings *findings,
                    struct muster_err *err)
{
    bool whole = with_findings(request) || request->perfetto || request->html;
    struct muster_run_query streamed = *query;
    streamed.streamed = true;
    struct muster_progress *progress = muster_progress_begin("report", "reading the run", 0);
    int result = muster_run_load(&streamed, run, err);
    if (result == 0) {
        result =
            whole ? muster_view_of_run(run, view, err) : muster_view_of_run_aligned(run, view, err);
        if (result)
            muster_run_free(run);
    }
    if (result == 0 && (with_findings(request) || request->html)) {
        muster_progress_now(progress, "looking for what holds the job back");
        muster_diagnose_shown(view, NULL, findings);
    }
    muster_progress_end(progress);
    return result;
}

int muster_report_print(const struct muster_run_query *query,
                        const struct muster_report_request *request, FILE *out,
                        struct muster_err *err)
{
    struct muster_run run;
    struct muster_view view;
    struct muster_findings findings = {0};
    muster_beside_permit();
    if (read_run(query, request, &run, &view, &findings, err))
        return -1;
    if (request->jobs > 1 && request->format == MUSTER_FORMAT_TEXT) {
        const struct muster_terminal terminal = muster_terminal_of(fileno(out));
        muster_job_heading(&run, query->job->who.run_dir, request->job, request->jobs, &terminal,
                           out);
    }
    int result =
        query->live && !query->job && muster_run_alive(&run) == 0
            ? muster_live_none(&run, "muster report", err)
            : print_view(&view, with_findings(request) ? &findings : NULL, request, out, err);
    if (result == 0 && request->perfetto)
        result = draw(&view, request, err);
    if (result == 0 && request->html)
        result = make_page(&view, &findings, request, err);
    muster_findings_free(&findings);
    muster_view_free(&view);
    muster_run_free(&run);
    return result;
}

struct report_options {
    bool live, whole;
    int format;
    int choice;
    uint64_t top;
    const char *sort;
    const char *perfetto, *html, *with, *out;
};

enum { TOP_USUAL = UINT16_MAX }; /* --top was not given */

static const char *const formats[] = {"text", "json", "csv", NULL};
static const char *const choices[] = {"default", "rank",      "op",   "comm",
                                      "size",    "rank-size", "rule", NULL};

static const struct muster_opt report_table[] = {
    {"live", 0, MUSTER_OPT_FLAG, offsetof(struct report_options, live),
     .help = "every job of yours on this host, each by itself"},
    {"format", 'f', MUSTER_OPT_CHOICE, offsetof(struct report_options, format), "FORMAT", formats,
     .help = "text, json or csv (text)"},
    {"by", 'b', MUSTER_OPT_CHOICE, offsetof(struct report_options, choice), "ROWS", choices,
     .help = "rows of text and CSV: rank, op, comm, size, rank-size, or rule of the policy"},
    {"sort", 's', MUSTER_OPT_TEXT, offsetof(struct report_options, sort), "COLUMN",
     .help = "biggest first by this column: waited, p99, total, ... (ranks: worst first)"},
    {"top", 0, MUSTER_OPT_U64, offsetof(struct report_options, top), "N", .max = 65534,
     .help = "at most N rows of a table, with rank-size of each rank; 0: all (text: 20)"},
    {"out", 'o', MUSTER_OPT_TEXT, offsetof(struct report_options, out), "FILE",
     .help = "the text, JSON or CSV goes there (standard output)"},
    {"html", 0, MUSTER_OPT_TEXT, offsetof(struct report_options, html), "FILE",
     .help = "also a page with pictures, one file that needs no network"},
    {"perfetto", 0, MUSTER_OPT_TEXT, offsetof(struct report_options, perfetto), "FILE",
     .help = "also a timeline for ui.perfetto.dev, of the 10 s around each finding"},
    {"whole", 0, MUSTER_OPT_FLAG, offsetof(struct report_options, whole),
     .help = "with --perfetto: of the whole run"},
    {"with", 0, MUSTER_OPT_TEXT, offsetof(struct report_options, with), "TORCH.json,...",
     .help = "with --perfetto: FILE is an archive that holds these traces of torch.profiler, too"},
    {.name = NULL},
};

/* A page's own data. */
static int read_page(const struct muster_cmd *self, const struct report_options *options,
                     const char *path)
{
    struct muster_err err;
    if (options->format != MUSTER_FORMAT_JSON || options->html || options->perfetto) {
        return muster_opt_wrong(self, "%s is a page, which holds the report as JSON: --format json",
                                path);
    }
    if (muster_page_read(path, MUSTER_PAGE_REPORT, stdout, &err)) {
        fprintf(stderr, "muster report: %s\n", err.text);
        return MUSTER_STATUS_USAGE;
    }
    return MUSTER_STATUS_OK;
}

/* What is one file, or one table, is of one job. */
static int several_fit(const struct muster_live_job *job, size_t jobs,
                       const struct muster_report_request *request, struct muster_err *err)
{
    const char *one = request->html                          ? "--html"
                      : request->perfetto                    ? "--perfetto"
                      : request->format == MUSTER_FORMAT_CSV ? "--format csv"
                                                             : NULL;
    if (jobs < 2 || !one)
        return 0;
    return muster_fail(err,
                       "%zu jobs run here, and %s is of one: name its run directory instead of "
                       "--live: %.200s, or %.200s%s",
                       jobs, one, job[0].who.run_dir, job[1].who.run_dir, jobs > 2 ? ", ..." : "");
}

/* Each job that lives here by itself; without any, why there is none. One that cannot be read is
 * reported. Returns how many were printed. */
static size_t print_live(const struct muster_run_query *query,
                         const struct muster_report_request *request, FILE *out)
{
    struct muster_live_job *job = NULL;
    struct muster_err err;
    size_t jobs = muster_live_jobs(query, &job), n = jobs ? jobs : 1, printed = 0;
    int fit = several_fit(job, jobs, request, &err);
    if (fit)
        fprintf(stderr, "muster report: %s\n", err.text);
    for (size_t i = 0; i < n && fit == 0; i++) {
        struct muster_run_query own = *query;
        struct muster_report_request of_job = *request;
        const char *dir = "";
        of_job.job = i;
        of_job.jobs = jobs;
        if (jobs)
            muster_live_query(&job[i], &dir, &own);
        if (muster_report_print(&own, &of_job, out, &err) == 0)
            printed++;
        else
            fprintf(stderr, "muster report: %s%s%s\n", dir, dir[0] ? ": " : "", err.text);
    }
    free(job);
    return printed;
}

/* False: nothing was printed, and why was printed. */
static bool print_asked(const struct muster_run_query *query,
                        const struct muster_report_request *request, FILE *out)
{
    struct muster_err err;
    if (query->live)
        return print_live(query, request, out) > 0;
    if (muster_report_print(query, request, out, &err) == 0)
        return true;
    fprintf(stderr, "muster report: %s\n", err.text);
    return false;
}

/* Where FILE was left out and RUN is taken for it; NULL: nowhere. */
static const char *folder_as_file(const struct report_options *options)
{
    const char *const file[] = {options->html, options->perfetto, options->out};
    struct stat st;
    for (size_t i = 0; i < sizeof file / sizeof *file; i++)
        if (file[i] && stat(file[i], &st) == 0 && S_ISDIR(st.st_mode))
            return file[i];
    return NULL;
}

static int report(const struct muster_cmd *self, int argc, char **argv)
{
    struct report_options options = {.format = MUSTER_FORMAT_TEXT, .top = TOP_USUAL};
    char command[1024];
    int status;
    muster_opt_describe(argc, argv, command, sizeof command);
    int at = muster_opt_parse(self, argc, argv, &options, &status);
    if (at < 0)
        return status;
    if (options.live && at < argc)
        return muster_opt_wrong(self, "--live takes what lives here, not also \"%s\"", argv[at]);
    const char *folder = folder_as_file(&options);
    if (folder)
        return muster_opt_wrong(self, "%s is a directory: name the FILE to write, then RUN",
                                folder);
    if (options.with && !options.perfetto)
        return muster_opt_wrong(self, "--with goes with --perfetto FILE");
    if (argc - at == 1 && muster_page_is_named(argv[at]))
        return read_page(self, &options, argv[at]);
    struct muster_run_query query = {
        .run = (const char *const *)&argv[at],
        .runs = (size_t)(argc - at),
        .live = options.live,
    };
    if (options.whole && !options.perfetto)
        return muster_opt_wrong(self, "--whole goes with --perfetto FILE");
    const struct muster_report_request request = {
        .format = (enum muster_report_format)options.format,
        .choice = (enum muster_report_choice)options.choice,
        .sort = options.sort,
        .top = options.top == TOP_USUAL ? 0 : options.top,
        .top_given = options.top != TOP_USUAL,
        .perfetto = options.perfetto,
        .whole = options.whole,
        .with = options.with,
        .html = options.html,
        .command = command,
    };
    FILE *out = options.out ? fopen(options.out, "we") : stdout;
    if (!out) {
        fprintf(stderr, "muster report: %s: %s\n", options.out, strerror(errno));
        return MUSTER_STATUS_USAGE;
    }
    bool printed = print_asked(&query, &request, out);
    bool lost = options.out && ferror(out);
    lost = (options.out && fclose(out) != 0) || lost;
    if (lost)
        fprintf(stderr, "muster report: %s: could not be written\n", options.out);
    return !printed || lost ? MUSTER_STATUS_USAGE : MUSTER_STATUS_OK;
}

const struct muster_cmd muster_cmd_report = {
    .name = "report",
    .summary = "who holds a job back, and what every operation cost, rank by rank",
    .usage = "[RUN... | --live] [options]",
    .about = "RUN is a run directory or the pid of a live process; several are taken together.\n"
             "Without RUN: the newest ./muster-* directory. --live reports each job by itself, in\n"
             "JSON a document each, as jq reads them. The words and fields of the report are\n"
             "explained in docs/interface.md; JSON holds all rows, whatever --by says.\n",
    .examples = "The newest run here, and one of several hosts:\n"
                "  muster report\n"
                "  muster report /shared/run-7\n"
                "The five slowest sizes of each rank, as CSV:\n"
                "  muster report --by rank-size --sort p99 --top 5 --format csv\n"
                "A page with pictures, and the verdict for a program:\n"
                "  muster report --html report.html\n"
                "  muster report --format json | jq .verdict\n",
    .options = report_table,
    .run = report,
};
