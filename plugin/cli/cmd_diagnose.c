/* `muster diagnose`: which rank, which path, which hang. */
#include "cli/cmd_diagnose.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/text.h"
#include "cli/cmd.h"
#include "cli/progress.h"
#include "config/settings.h"
#include "diagnose/diagnose.h"
#include "diagnose/evidence.h"
#include "diagnose/watch.h"
#include "diagnose/whereabouts.h"
#include "fleet/nats/worker.h"
#include "report/report_output.h"
#include "run/refresh.h"
#include "segment/reap.h"
#include "segment/segment_reader.h"
#include "told/told.h"
#include "verdict/verdict.h"

enum format { FORMAT_TEXT, FORMAT_JSON };
enum { SCHEMA = 1 };

struct options {
    bool live, follow;
    int format;
    struct muster_fleet_question fleet; /* job: NULL without --fleet */
    uint64_t hang_seconds; /* 0: as configured */
};

static const char *const formats[] = {"text", "json", NULL};

static const struct muster_opt table[] = {
    {"live", 0, MUSTER_OPT_FLAG, offsetof(struct options, live),
     .help = "every process of yours on this host"},
    {"follow", 0, MUSTER_OPT_FLAG, offsetof(struct options, follow),
     .help = "look each second, print what is new and what is over, until interrupted"},
    {"format", 'f', MUSTER_OPT_CHOICE, offsetof(struct options, format), "FORMAT", formats,
     .help = "text or json; with --follow one JSON object per line (text)"},
    {"fleet", 0, MUSTER_OPT_TEXT, offsetof(struct options, fleet.job), "JOB",
     .help = "what muster fleet found in a job that runs on many hosts; with --nats"},
    {"nats", 0, MUSTER_OPT_TEXT, offsetof(struct options, fleet.url), "URL",
     .help = "of --fleet: nats://HOST:4222, or tls://..."},
    {"nats-credentials", 0, MUSTER_OPT_TEXT, offsetof(struct options, fleet.credentials), "FILE",
     .help = "a NATS credentials file, or a line USER:PASSWORD or TOKEN"},
    {"nats-ca", 0, MUSTER_OPT_TEXT, offsetof(struct options, fleet.ca), "FILE",
     .help = "certificates to check the server's with (the system's)"},
    {"hang-seconds", 0, MUSTER_OPT_U64, offsetof(struct options, hang_seconds), "N", .min = 1,
     .max = 1000000, .help = "how long nothing may move (MUSTER_HANG_SECONDS, else 10)"},
    {.name = NULL},
};

/* ---- printing ---- */

static void print_lines(const struct muster_finding_lines *lines, const char *head,
                        const char *unless_in, const struct muster_terminal *terminal, FILE *out)
{
    char first[32];
    snprintf(first, sizeof first, "  %s", head);
    for (unsigned i = 0; i < lines->n; i++) {
        if (!strstr(unless_in, lines->line[i]))
            muster_terminal_wrap(out, terminal->width, first, "    ", lines->line[i]);
    }
}

void muster_diagnose_print(const struct muster_finding *finding,
                           const struct muster_terminal *terminal, FILE *out)
{
    char text[1024], confidence[32];
    muster_finding_sentence(finding, text, sizeof text);
    muster_terminal_wrap(out, terminal->width, "", "    ", text);
    print_lines(&finding->evidence, "", text, terminal, out);
    print_lines(&finding->not_observable, "not seen: ", "", terminal, out);
    if (finding->advice[0])
        muster_terminal_wrap(out, terminal->width, "  next: ", "    ", finding->advice);
    snprintf(confidence, sizeof confidence, "confidence %.2f", finding->confidence);
    muster_terminal_wrap(out, terminal->width, "  ", "    ", confidence);
}

void muster_verdict_print(const struct muster_view *view, const struct muster_findings *findings,
                          const struct muster_terminal *terminal, FILE *out)
{
    struct muster_verdict verdict;
    muster_verdict_of(view, findings, terminal->width, &verdict);
    const char *colour = verdict.state == MUSTER_VERDICT_HELD     ? "\033[1;31m"
                         : verdict.state == MUSTER_VERDICT_NOBODY ? "\033[1;32m"
                                                                  : "\033[1m";
    for (unsigned i = 0; i < verdict.lines; i++) {
        bool bold = i == 0 && terminal->style;
        fprintf(out, "%s%s%s\n", bold ? colour : "", verdict.line[i], bold ? "\033[0m" : "");
    }
}

static void print_notes(char *const *note, size_t n, const struct muster_terminal *terminal,
                        FILE *out)
{
    for (size_t i = 0; i < n; i++)
        muster_terminal_wrap(out, terminal->width, "not seen: ", "  ", note[i]);
}

static size_t alive(const struct muster_run *run)
{
    size_t n = 0;
    for (size_t i = 0; i < run->processes; i++)
        n += run->process[i].state == MUSTER_PROCESS_RUNNING;
    return n;
}

/* While any of it runs: where everybody is, before anything has lasted long enough to be a hang. */
static void print_where(const struct muster_view *view, const struct muster_terminal *terminal,
                        FILE *out)
{
    enum { SHOWN = 64 };
    struct muster_whereabouts all;
    struct muster_err err;
    if (alive(view->run) == 0)
        return;
    fputc('\n', out);
    if (muster_whereabouts_of(view, &all, &err) == 0)
        muster_whereabouts_print(&all, SHOWN, terminal, out);
    muster_whereabouts_free(&all);
}

static void print_text(const struct muster_view *view, const struct muster_findings *findings,
                       FILE *out)
{
    const struct muster_run *run = view->run;
    const struct muster_terminal terminal = muster_terminal_of(STDOUT_FILENO);
    muster_verdict_print(view, findings, &terminal, out);
    muster_report_scope(run, view->gpus, terminal.width, out);
    for (size_t i = 0; i < findings->n; i++) {
        fputc('\n', out);
        muster_diagnose_print(&findings->finding[i], &terminal, out);
    }
    print_where(view, &terminal, out);
    if (findings->n == 0)
        fputs("\nno findings\n", out);
    for (unsigned i = 0; i < findings->not_observable.n; i++) {
        const char *line = findings->not_observable.line[i];
        bool ok = strncmp(line, "ok: ", 4) == 0;
        muster_terminal_wrap(out, terminal.width, ok ? "" : "not seen: ", "  ", line);
    }
    print_notes(run->note, run->notes, &terminal, out);
}

static void json_strings(struct muster_json *json, const char *key, char *const *text, size_t n)
{
    muster_json_array(json, key);
    for (size_t i = 0; i < n; i++)
        muster_json_str(json, NULL, text[i]);
    muster_json_end(json);
}

static void json_where(const struct muster_view *view, struct muster_json *json)
{
    struct muster_whereabouts all;
    struct muster_err err;
    muster_json_array(json, "ranks");
    if (muster_whereabouts_of(view, &all, &err) == 0)
        muster_whereabouts_json(&all, json);
    muster_whereabouts_free(&all);
    muster_json_end(json);
}

static void print_json(const struct muster_view *view, const struct muster_findings *findings)
{
    const struct muster_run *run = view->run;
    struct muster_json json;
    muster_json_begin(&json, stdout, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", SCHEMA);
    muster_json_str(&json, "muster", MUSTER_VERSION);
    json_strings(&json, "run", run->source, run->sources);
    muster_json_array(&json, "findings");
    for (size_t i = 0; i < findings->n; i++) {
        muster_json_object(&json, NULL);
        muster_finding_json(&findings->finding[i], &json);
        muster_json_end(&json);
    }
    muster_json_end(&json);
    muster_json_array(&json, "not_observable");
    for (unsigned i = 0; i < findings->not_observable.n; i++)
        muster_json_str(&json, NULL, findings->not_observable.line[i]);
    for (size_t i = 0; i < run->notes; i++)
        muster_json_str(&json, NULL, run->note[i]);
    muster_json_end(&json);
    json_where(view, &json);
    muster_json_end(&json);
}

/* ---- where to look ---- */

/* The run directories of what lives here: a rank that died stands there, not among the living. */
struct places {
    char **dir;
    size_t n;
};

static void add_place(struct places *places, const char *dir)
{
    struct stat st;
    for (size_t i = 0; i < places->n; i++) {
        if (strcmp(places->dir[i], dir) == 0)
            return;
    }
    char *copy = stat(dir, &st) == 0 ? strdup(dir) : NULL;
    if (copy && muster_grow(&places->dir, places->n, sizeof *places->dir))
        places->dir[places->n++] = copy;
    else
        free(copy);
}

static struct places live_places(const struct muster_run_query *query)
{
    struct muster_found *found;
    struct places places = {NULL, 0};
    const char *dir = muster_run_segment_dir(query);
    size_t n = geteuid() == 0 ? muster_find_all_segments(dir, &found)
                              : muster_find_segments(dir, &found);
    for (size_t i = 0; i < n; i++) {
        struct muster_segment *segment;
        unsigned unstable;
        if (!found[i].alive ||
            muster_segment_read_live(found[i].path, &segment, &unstable, NULL) != 0)
            continue;
        if (segment->identity.run_dir[0])
            add_place(&places, segment->identity.run_dir);
        free(segment);
    }
    muster_found_free(found, n);
    return places;
}

static void free_places(struct places *places)
{
    for (size_t i = 0; i < places->n; i++)
        free(places->dir[i]);
    free(places->dir);
}

static uint64_t hang_ns(const struct options *options)
{
    struct muster_settings settings;
    if (options->hang_seconds)
        return options->hang_seconds * MUSTER_NS_PER_S;
    muster_settings_load(&settings, NULL);
    return settings.hang_seconds * MUSTER_NS_PER_S;
}

/* What the kernel says of absent ranks that live here. */
static void add_evidence(const struct muster_run *run, struct muster_findings *findings)
{
    const struct muster_evidence_roots roots = {"/proc", "/sys"};
    struct muster_host host;
    muster_host_read(&host, NULL);
    for (size_t i = 0; i < findings->n; i++) {
        struct muster_finding *finding = &findings->finding[i];
        for (size_t p = 0; p < run->processes; p++) {
            const struct muster_process *process = &run->process[p];
            if (finding->kind == MUSTER_FINDING_HANG_ABSENT &&
                process->state == MUSTER_PROCESS_RUNNING &&
                process->identity.boot_hash == host.boot_hash &&
                muster_process_start_ticks((pid_t)process->identity.pid) ==
                    process->identity.start_ticks &&
                process->identity.rank == finding->rank[0] &&
                strcmp(process->identity.host, finding->host) == 0)
                muster_evidence_absent(&roots, process->identity.pid, finding->rank[0],
                                       &finding->evidence);
        }
    }
}

/* What was looked at, and what was found. */
struct look {
    struct muster_run run; /* zeroed, or of the last time */
    struct muster_view view;
    struct muster_findings findings;
};

/* Afterwards view and findings are to be freed (end_look), after a failure, too. */
static int scan(const struct options *options, const struct muster_run_query *query,
                struct look *look, struct muster_err *err)
{
    struct muster_run_query with_dirs = *query;
    struct places places = {NULL, 0};
    look->view = (struct muster_view){0};
    look->findings = (struct muster_findings){0};
    if (options->live) {
        places = live_places(query);
        with_dirs.run = (const char *const *)places.dir;
        with_dirs.runs = places.n;
    }
    int rc = muster_run_refresh(&with_dirs, &look->run, err);
    free_places(&places);
    if (rc != 0 || muster_view_of_run(&look->run, &look->view, err) != 0 ||
        muster_diagnose_view(&look->view, hang_ns(options), &look->findings, err) != 0)
        return -1;
    add_evidence(&look->run, &look->findings);
    /* Who follows was told of all that as it came. */
    return options->follow ? 0 : muster_told_add(&look->run, &look->findings, err);
}

static void end_look(struct look *look)
{
    muster_findings_free(&look->findings);
    muster_view_free(&look->view);
}

void muster_diagnose_shown(const struct muster_view *view, struct muster_findings *findings)
{
    const struct options options = {0};
    struct muster_settings settings;
    struct muster_err err;
    size_t kept = 0;
    if (muster_diagnose_view(view, hang_ns(&options), findings, &err) != 0)
        fprintf(stderr, "muster: no findings: %s\n", err.text);
    muster_settings_load(&settings, NULL);
    for (size_t i = 0; i < findings->n; i++) {
        if (settings.on[findings->finding[i].kind].report)
            findings->finding[kept++] = findings->finding[i];
    }
    findings->n = kept;
}

void muster_diagnose_append(const struct muster_findings *findings,
                            const struct muster_terminal *terminal, FILE *out)
{
    for (size_t i = 0; i < findings->n; i++) {
        fputs(i == 0 ? "\nfindings\n" : "", out);
        muster_diagnose_print(&findings->finding[i], terminal, out);
    }
}

/* ---- once, and again and again ---- */

static bool is_over(const struct muster_finding *finding)
{
    return finding->resolved || finding->retracted;
}

/* What was left by jobs that are over is no answer to what runs now. */
static int nobody_lives(const struct muster_run *run, struct muster_err *err)
{
    const struct muster_process *newest = &run->process[0];
    char age[32];
    for (size_t i = 1; i < run->processes; i++)
        if (run->process[i].last_seen_unix_ns > newest->last_seen_unix_ns)
            newest = &run->process[i];
    muster_text_age(age, sizeof age, newest->last_seen_unix_ns, muster_unix_ns());
    return muster_fail(err,
                       "No job recorded by muster is running here%s. The newest that did ended %s; "
                       "what it left: muster diagnose %.300s",
                       geteuid() == 0 ? "" : " as this user", age, newest->identity.run_dir);
}

static int once(const struct options *options, const struct muster_run_query *query)
{
    struct look look = {0};
    struct muster_err err;
    int status = MUSTER_STATUS_USAGE;
    struct muster_progress *progress = muster_progress_begin("diagnose", "reading the run", 0);
    int failed = scan(options, query, &look, &err);
    if (!failed && options->live && alive(&look.run) == 0)
        failed = nobody_lives(&look.run, &err);
    muster_progress_end(progress);
    if (failed) {
        fprintf(stderr, "muster diagnose: %s\n", err.text);
    } else {
        status = MUSTER_STATUS_OK;
        for (size_t i = 0; i < look.findings.n; i++)
            status = is_over(&look.findings.finding[i]) ? status : MUSTER_STATUS_FINDING;
        if (options->format == FORMAT_JSON)
            print_json(&look.view, &look.findings);
        else
            print_text(&look.view, &look.findings, stdout);
    }
    end_look(&look);
    muster_run_free(&look.run);
    return status;
}

static void tell(void *arg, const struct muster_finding *finding)
{
    const struct options *options = arg;
    struct muster_json json;
    if (options->format == FORMAT_TEXT) {
        const struct muster_terminal terminal = muster_terminal_of(STDOUT_FILENO);
        muster_diagnose_print(finding, &terminal, stdout);
    } else {
        muster_json_begin(&json, stdout, false);
        muster_json_object(&json, NULL);
        muster_finding_json(finding, &json);
        muster_json_end(&json);
    }
    fflush(stdout);
}

/* Until nothing lives any more, or it is interrupted. Directories and processes may come later. */
static int follow(struct options *options, const struct muster_run_query *query)
{
    struct muster_watch watch = {0};
    struct look look = {0};
    bool seen = false, running = true, said = false;
    while (running && !ferror(stdout)) {
        struct muster_err err;
        if (scan(options, query, &look, &err) == 0) {
            muster_watch_alive(&watch, alive(&look.run));
            muster_watch_window(&watch, muster_run_since_unix_ns(&look.run));
            muster_watch_update(&watch, &look.findings, tell, options);
            running = watch.alive > 0;
            muster_watch_slow(&watch, &look.findings, !running, tell, options);
            seen = true;
        } else {
            running = !(seen && options->live);
            if (!running)
                muster_watch_end(&watch, tell, options);
            else if (!seen && !said)
                fprintf(stderr, "muster diagnose: %s; waiting\n", err.text);
            said = true;
        }
        end_look(&look);
        if (running)
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    int status = muster_watch_unresolved(&watch) ? MUSTER_STATUS_FINDING : MUSTER_STATUS_OK;
    muster_watch_free(&watch);
    muster_run_free(&look.run);
    return status;
}

/* What the workers of a fleet found. */
static int ask_fleet(const struct muster_cmd *self, struct options *options, bool more)
{
    struct muster_err err;
    size_t found;
    options->fleet.json = options->format == FORMAT_JSON;
    if (!options->fleet.job || !options->fleet.url)
        return muster_opt_wrong(self, "--fleet JOB and --nats URL go together");
    if (more || options->live || options->follow)
        return muster_opt_wrong(self, "--fleet asks for one job, without RUN, --live and --follow");
    if (muster_fleet_ask(&options->fleet, stdout, &found, &err) == 0)
        return found ? MUSTER_STATUS_FINDING : MUSTER_STATUS_OK;
    fprintf(stderr, "muster diagnose: %s\n", err.text);
    return MUSTER_STATUS_USAGE;
}

static int run(const struct muster_cmd *self, int argc, char **argv)
{
    struct options options = {.format = FORMAT_TEXT};
    int status;
    int at = muster_opt_parse(self, argc, argv, &options, &status);
    if (at < 0)
        return status;
    if (options.fleet.job || options.fleet.url || options.fleet.credentials || options.fleet.ca)
        return ask_fleet(self, &options, at < argc);
    if (options.live && at < argc)
        return muster_opt_wrong(self, "--live takes what lives here, not also \"%s\"", argv[at]);
    struct muster_run_query query = {
        .run = (const char *const *)&argv[at],
        .runs = (size_t)(argc - at),
        .live = options.live,
        .streamed = true,
    };
    return options.follow ? follow(&options, &query) : once(&options, &query);
}

const struct muster_cmd muster_cmd_diagnose = {
    .name = "diagnose",
    .summary = "which rank or path holds a job back, and why it hangs",
    .usage = "[RUN... | --live] [options]",
    .about =
        "RUN is a run directory or the pid of a live process; several are taken together, of\n"
        "several hosts, too. Without RUN: the newest ./muster-* directory. The kinds and\n"
        "fields of findings are explained in docs/interface.md. --follow ends when the job\n"
        "does. Exit status: 1 with unresolved findings, 0 without, 2 if nothing can be read.\n",
    .examples =
        "What runs here now, where everybody is, and why it hangs:\n"
        "  muster diagnose --live\n"
        "A run that is over, and one that is watched until it ends:\n"
        "  muster diagnose muster-4711\n"
        "  muster diagnose --follow muster-4711\n"
        "A job on many hosts, while it runs:\n"
        "  muster diagnose --fleet muster-4711 --nats nats://head:4222\n",
    .options = table,
    .run = run,
};
