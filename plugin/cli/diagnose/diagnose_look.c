#include "cli/diagnose/diagnose_look.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/host.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/job_heading.h"
#include "config/settings.h"
#include "diagnose/evidence.h"
#include "diagnose/whereabouts.h"
#include "emitted/emitted.h"
#include "report/report_output.h"
#include "run/refresh.h"
#include "verdict/verdict.h"

enum { SCHEMA = 1 };

/* ---- taking one ---- */

uint64_t muster_look_hang_ns(uint64_t seconds)
{
    struct muster_settings settings;
    if (seconds)
        return seconds * MUSTER_NS_PER_S;
    muster_settings_load(&settings, NULL);
    return settings.hang_seconds * MUSTER_NS_PER_S;
}

static bool lives_here(const struct muster_process *process, const struct muster_host *host)
{
    const struct muster_seg_identity *who = &process->identity;
    return process->state == MUSTER_PROCESS_RUNNING && who->boot_hash == host->boot_hash &&
           muster_process_start_ticks((pid_t)who->pid) == who->start_ticks;
}

/* Of one absent rank that lives here, or of one that is gone from where this one lives. */
static void add_evidence_of(const struct muster_seg_identity *who, struct muster_finding *finding)
{
    const struct muster_evidence_roots roots = {"/proc", "/sys"};
    struct muster_evidence now;
    if (finding->kind == MUSTER_FINDING_HANG_ABSENT && who->rank == finding->rank[0]) {
        muster_evidence_absent(&roots, who->pid, finding->rank[0], &finding->evidence);
    } else if (finding->kind == MUSTER_FINDING_HANG_DEAD) {
        muster_evidence_read(&roots, who->pid, &now);
        muster_evidence_gone(NULL, &now, who->rank, &finding->evidence);
    }
}

/* What the kernel shows of them. */
static void add_evidence(const struct muster_run *run, struct muster_findings *findings)
{
    struct muster_host host;
    muster_host_read(&host, NULL);
    for (size_t i = 0; i < findings->n; i++) {
        struct muster_finding *finding = &findings->finding[i];
        unsigned lines = finding->evidence.n;
        for (size_t p = 0; p < run->processes && finding->evidence.n == lines; p++)
            if (lives_here(&run->process[p], &host) &&
                strcmp(run->process[p].identity.host, finding->host) == 0)
                add_evidence_of(&run->process[p].identity, finding);
    }
}

int muster_look_take(struct muster_look *look, const struct muster_look_how *how,
                     struct muster_err *err)
{
    struct muster_run_query query = how->query;
    const char *dir;
    look->view = (struct muster_view){0};
    look->findings = (struct muster_findings){0};
    if (look->job)
        muster_live_query(look->job, &dir, &query);
    if (muster_run_refresh(&query, &look->run, err) != 0 ||
        muster_view_of_run(&look->run, &look->view, err) != 0)
        return -1;
    if (how->follows && muster_run_alive(&look->run) > 0)
        muster_windows_take(&look->windows, muster_run_since_unix_ns(&look->run), &look->view);
    if (muster_diagnose_view(&look->view, how->hang_ns, &look->findings, err) != 0)
        return -1;
    add_evidence(&look->run, &look->findings);
    return how->follows ? 0 : muster_emitted_add(&look->run, &look->findings, err);
}

void muster_look_end(struct muster_look *look)
{
    muster_findings_free(&look->findings);
    muster_view_free(&look->view);
}

bool muster_look_unresolved(const struct muster_look *look)
{
    for (size_t i = 0; i < look->findings.n; i++)
        if (!look->findings.finding[i].resolved && !look->findings.finding[i].retracted)
            return true;
    return false;
}

const char *muster_look_name(const struct muster_look *look)
{
    return look->job ? look->job->who.run_dir : "";
}

void muster_diagnose_shown(const struct muster_view *view, const struct muster_meanwhile *meanwhile,
                           struct muster_findings *findings)
{
    struct muster_settings settings;
    struct muster_err err;
    size_t kept = 0;
    if (muster_diagnose_view_meanwhile(view, muster_look_hang_ns(0), meanwhile, findings, &err) !=
            0 ||
        (view->run && muster_emitted_add(view->run, findings, &err) != 0))
        fprintf(stderr, "muster: no findings: %s\n", err.text);
    muster_settings_load(&settings, NULL);
    for (size_t i = 0; i < findings->n; i++)
        if (settings.on[findings->finding[i].kind].report)
            findings->finding[kept++] = findings->finding[i];
    findings->n = kept;
}

/* ---- findings and verdict, as text ---- */

static void print_lines(const struct muster_finding_lines *lines, const char *head,
                        const char *unless_in, const struct muster_terminal *terminal, FILE *out)
{
    char first[32];
    snprintf(first, sizeof first, "  %s", head);
    for (unsigned i = 0; i < lines->n; i++)
        if (!strstr(unless_in, lines->line[i]))
            muster_terminal_wrap(out, terminal->width, first, "    ", lines->line[i]);
}

/* "when: 2026-11-23 23:00:25 to 23:04:10 UTC", one line for each culprit; "since: ..." of what goes
 * on, or whose end is not known. */
static void print_when(const struct muster_finding *finding, const struct muster_terminal *terminal,
                       FILE *out)
{
    static const char since[] = "since ";
    struct muster_finding_lines when;
    muster_finding_when(finding, &when);
    for (unsigned i = 0; i < when.n; i++) {
        bool open = strncmp(when.line[i], since, strlen(since)) == 0;
        muster_terminal_wrap(out, terminal->width, open ? "  since: " : "  when: ", "    ",
                             when.line[i] + (open ? strlen(since) : 0));
    }
}

/* "cost: between ...", "causes: rank 5: ..."; nothing where there is no more. */
static void print_facts(const struct muster_finding *finding,
                        const struct muster_terminal *terminal, FILE *out)
{
    char text[MUSTER_FINDING_LINE];
    muster_finding_causes(finding, text, sizeof text);
    if (text[0])
        muster_terminal_wrap(out, terminal->width, "  causes: ", "    ", text);
    muster_finding_cost(finding, text, sizeof text);
    if (text[0])
        muster_terminal_wrap(out, terminal->width, "  cost: ", "    ", text);
}

void muster_finding_print(const struct muster_finding *finding, const char *job,
                          const struct muster_terminal *terminal, FILE *out)
{
    char text[1024], confidence[32], first[MUSTER_SEG_PATH + 8] = "";
    muster_finding_sentence(finding, text, sizeof text);
    if (job)
        snprintf(first, sizeof first, "job %s: ", job);
    muster_terminal_wrap(out, terminal->width, first, "    ", text);
    print_lines(&finding->evidence, "", text, terminal, out);
    print_facts(finding, terminal, out);
    print_lines(&finding->not_observable, "not seen: ", "", terminal, out);
    if (finding->advice[0])
        muster_terminal_wrap(out, terminal->width, "  next: ", "    ", finding->advice);
    print_when(finding, terminal, out);
    snprintf(confidence, sizeof confidence, "confidence %.2f", finding->confidence);
    muster_terminal_wrap(out, terminal->width, "  ", "    ", confidence);
}

bool muster_verdict_print(const struct muster_view *view, const struct muster_findings *findings,
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
    return !verdict.no_memory;
}

void muster_diagnose_append(const struct muster_findings *findings,
                            const struct muster_terminal *terminal, FILE *out)
{
    for (size_t i = 0; i < findings->n; i++) {
        fputs(i == 0 ? "\nfindings\n" : "", out);
        muster_finding_print(&findings->finding[i], NULL, terminal, out);
    }
}

/* ---- the worst first ---- */

/* Greater: worse. What costs nothing yet and hangs goes before all that goes on. */
static int by_weight(const void *left, const void *right)
{
    const struct muster_look *look[] = {*(const struct muster_look *const *)left,
                                        *(const struct muster_look *const *)right};
    double weight[2];
    for (int i = 0; i < 2; i++) {
        struct muster_verdict verdict;
        muster_verdict_of(&look[i]->view, &look[i]->findings, 0, &verdict);
        const struct muster_finding *finding = verdict.finding;
        weight[i] = verdict.state == MUSTER_VERDICT_NOBODY ? -1 : 0;
        if (finding)
            weight[i] = 1 + finding->cost_share +
                        2 * (MUSTER_SCOPE_CALLS - (int)muster_finding_rows[finding->kind].scope);
    }
    return (weight[0] < weight[1]) - (weight[0] > weight[1]);
}

void muster_looks_order(struct muster_look **look, size_t n)
{
    qsort(look, n, sizeof(struct muster_look *), by_weight);
}

/* ---- looks, as text ---- */

static void print_notes(const char *const *note, size_t n, const struct muster_terminal *terminal,
                        FILE *out)
{
    for (size_t i = 0; i < n; i++)
        muster_terminal_wrap(out, terminal->width, "not seen: ", "  ", note[i]);
}

/* While any of it runs: where everybody is, before anything has lasted long enough to be a hang. */
static void print_where(const struct muster_look *look, const struct muster_terminal *terminal,
                        FILE *out)
{
    enum { SHOWN = 64 };
    struct muster_whereabouts all;
    struct muster_err err;
    if (muster_run_alive(&look->run) == 0)
        return;
    fputc('\n', out);
    if (muster_whereabouts_of(&look->view, &all, &err) == 0)
        muster_whereabouts_print(&all, SHOWN, terminal, out);
    muster_whereabouts_free(&all);
}

static void print_one(const struct muster_look *look, const struct muster_terminal *terminal,
                      FILE *out)
{
    const struct muster_view *view = &look->view;
    const struct muster_run *run = &look->run;
    const struct muster_findings *findings = &look->findings;
    muster_verdict_print(view, findings, terminal, out);
    muster_report_scope(run, view->gpus, terminal->width, out);
    for (size_t i = 0; i < findings->n; i++) {
        fputc('\n', out);
        muster_finding_print(&findings->finding[i], NULL, terminal, out);
    }
    print_where(look, terminal, out);
    if (findings->n == 0)
        fputs("\nno findings\n", out);
    for (unsigned i = 0; i < findings->not_observable.n; i++) {
        const char *line = findings->not_observable.line[i];
        bool ok = strncmp(line, "ok: ", 4) == 0;
        muster_terminal_wrap(out, terminal->width, ok ? "" : "not seen: ", "  ", line);
    }
    print_notes(run->note, run->notes, terminal, out);
}

void muster_looks_text(struct muster_look *const *look, size_t n, FILE *out)
{
    const struct muster_terminal terminal = muster_terminal_of(STDOUT_FILENO);
    for (size_t i = 0; i < n; i++) {
        if (n > 1)
            muster_job_heading(&look[i]->run, muster_look_name(look[i]), i, n, &terminal, out);
        print_one(look[i], &terminal, out);
    }
}

/* ---- looks, as JSON ---- */

static void json_findings(const struct muster_look *look, const char *job, struct muster_json *json)
{
    for (size_t i = 0; i < look->findings.n; i++) {
        muster_json_object(json, NULL);
        muster_finding_json(&look->findings.finding[i], json);
        if (job)
            muster_json_str(json, "job", job);
        muster_json_end(json);
    }
}

static void json_notes(const struct muster_look *look, const char *job, struct muster_json *json)
{
    (void)job;
    for (unsigned i = 0; i < look->findings.not_observable.n; i++)
        muster_json_str(json, NULL, look->findings.not_observable.line[i]);
    for (size_t i = 0; i < look->run.notes; i++)
        muster_json_str(json, NULL, look->run.note[i]);
}

static void json_where(const struct muster_look *look, const char *job, struct muster_json *json)
{
    struct muster_whereabouts all;
    struct muster_err err;
    if (muster_whereabouts_of(&look->view, &all, &err) == 0)
        muster_whereabouts_json(&all, job, json);
    muster_whereabouts_free(&all);
}

static void json_verdict(const struct muster_look *look, struct muster_json *json)
{
    struct muster_verdict verdict;
    muster_verdict_of(&look->view, &look->findings, 0, &verdict);
    muster_verdict_json(&verdict, json);
}

static void json_job(const struct muster_look *look, const char *job, struct muster_json *json)
{
    muster_json_object(json, NULL);
    muster_json_str(json, "job", job);
    json_verdict(look, json);
    muster_json_array(json, "not_observable");
    json_notes(look, job, json);
    muster_json_end(json);
    muster_json_array(json, "pids");
    for (size_t i = 0; i < look->run.processes; i++)
        if (look->run.process[i].state == MUSTER_PROCESS_RUNNING)
            muster_json_u64(json, NULL, look->run.process[i].identity.pid);
    muster_json_end(json);
    muster_json_end(json);
}

/* An array of what each look has, by `put`; of several, with the job's name. */
typedef void put_look(const struct muster_look *look, const char *job, struct muster_json *json);
static void json_each(struct muster_look *const *look, size_t n, const char *key, put_look *put,
                      struct muster_json *json)
{
    muster_json_array(json, key);
    for (size_t i = 0; i < n; i++)
        put(look[i], n > 1 ? muster_look_name(look[i]) : NULL, json);
    muster_json_end(json);
}

static void json_sources(const struct muster_look *look, const char *job, struct muster_json *json)
{
    (void)job;
    for (size_t i = 0; i < look->run.sources; i++)
        muster_json_str(json, NULL, look->run.source[i]);
}

void muster_looks_json(struct muster_look *const *look, size_t n, FILE *out)
{
    struct muster_json json;
    muster_json_begin(&json, out, true);
    muster_json_object(&json, NULL);
    muster_json_u64(&json, "version", SCHEMA);
    muster_json_str(&json, "muster", MUSTER_VERSION);
    json_each(look, n, "run", json_sources, &json);
    json_verdict(look[0], &json);
    json_each(look, n, "findings", json_findings, &json);
    json_each(look, n, "not_observable", json_notes, &json);
    json_each(look, n, "ranks", json_where, &json);
    if (n > 1)
        json_each(look, n, "jobs", json_job, &json);
    muster_json_end(&json);
}
