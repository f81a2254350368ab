/* `muster diagnose --fleet`: what the fleet's workers found, from where it stands for everybody. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/terminal.h"
#include "fleet/nats/asker.h"
#include "fleet/nats/worker.h"
#include "ras/ras_ask.h"

static bool holds(const char *line)
{
    return strstr(line, "\"resolved\":false") && !strstr(line, "\"retracted\":true");
}

static void print_array(const json_t *finding, const char *member, const char *head,
                        const struct muster_terminal *terminal, FILE *out)
{
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(finding, member), i, line)
    {
        if (json_string_value(line))
            muster_terminal_wrap(out, terminal->width, head, "    ", json_string_value(line));
    }
}

/* ---- NCCL's RAS, of what hangs ---- */

struct witness {
    bool asked;
    struct muster_ras_report report;
};

static bool hangs(const json_t *finding)
{
    const char *kind = json_string_value(json_object_get(finding, "kind"));
    return kind && strncmp(kind, "hang_", 5) == 0;
}

static void hear(const struct witness *witness, const json_t *finding,
                 struct muster_finding_lines *to)
{
    const char *comm = json_string_value(json_object_get(finding, "comm"));
    to->n = 0;
    if (witness->asked && comm && hangs(finding))
        muster_ras_describe(&witness->report, strtoull(comm, NULL, 16), to);
}

/* Only if something hangs; that nobody answers is printed and no failure. */
static void ask_ras(const struct muster_answer *answer, const char *where, struct witness *witness)
{
    struct muster_err err;
    bool any = false;
    for (size_t i = 0; where && i < answer->lines; i++) {
        json_t *finding = holds(answer->line[i]) ? json_loads(answer->line[i], 0, NULL) : NULL;
        any |= finding && hangs(finding);
        json_decref(finding);
    }
    if (!any)
        return;
    witness->asked = muster_ras_ask(where, &witness->report, &err) == 0;
    if (!witness->asked)
        fprintf(stderr, "muster diagnose: %s\n", err.text);
}

/* ---- printing ---- */

static void print_finding(const char *line, const struct witness *witness,
                          const struct muster_terminal *terminal, FILE *out)
{
    struct muster_finding_lines heard;
    json_t *finding = json_loads(line, 0, NULL);
    const char *sentence = json_string_value(json_object_get(finding, "sentence"));
    const char *advice = json_string_value(json_object_get(finding, "advice"));
    muster_terminal_wrap(out, terminal->width, holds(line) ? "" : "over: ", "    ",
                         sentence ? sentence : "a finding that cannot be read");
    print_array(finding, "evidence", "  ", terminal, out);
    hear(witness, finding, &heard);
    for (unsigned i = 0; i < heard.n && holds(line); i++)
        muster_terminal_wrap(out, terminal->width, "  ", "    ", heard.line[i]);
    print_array(finding, "not_observable", "  not seen: ", terminal, out);
    if (advice && advice[0] && holds(line))
        muster_terminal_wrap(out, terminal->width, "  next: ", "    ", advice);
    json_decref(finding);
}

static void print_other_versions(const json_t *hosts, FILE *out)
{
    size_t i;
    json_t *host;
    json_array_foreach(hosts, i, host)
    {
        fprintf(out, "%s%s", i ? ", " : "Not heard, as muster there is of another version: ",
                json_string_value(host));
    }
    if (json_array_size(hosts))
        fprintf(out, ". Install one version on all hosts.\n");
}

static void print_state(const struct muster_answer *answer, size_t found, FILE *out)
{
    json_t *state = answer->state ? json_loads(answer->state, 0, NULL) : NULL;
    if (!state) {
        fprintf(out, "job %s: no worker holds it now: it has ended, or none runs (muster fleet)\n",
                answer->name);
        return;
    }
    long long ranks = json_integer_value(json_object_get(state, "ranks"));
    long long expected = json_integer_value(json_object_get(state, "expected"));
    long long silent = json_integer_value(json_object_get(state, "silent_hosts"));
    fprintf(out, "job %s: %s; %lld of %lld ranks on %lld hosts are heard", answer->name,
            found                       ? "findings hold"
            : ranks * 10 < expected * 9 ? "too little is heard to judge it"
                                        : "nobody is named",
            ranks, expected, (long long)json_integer_value(json_object_get(state, "hosts")));
    if (silent)
        fprintf(out, ", %lld of these hosts fell silent", silent);
    fprintf(out, ".\n");
    print_other_versions(json_object_get(state, "other_versions"), out);
    json_decref(state);
}

static void print_text(const struct muster_answer *answer, const struct witness *witness,
                       size_t found, FILE *out)
{
    struct muster_terminal terminal = muster_terminal_of(fileno(out));
    print_state(answer, found, out);
    for (unsigned over = 0; over < 2; over++)
        for (size_t i = 0; i < answer->lines; i++)
            if (holds(answer->line[i]) == (over == 0)) {
                fputc('\n', out);
                print_finding(answer->line[i], witness, &terminal, out);
            }
}

/* A finding as it stands there, with what RAS reports of it. */
static void print_json_finding(const char *line, const struct witness *witness, FILE *out)
{
    struct muster_finding_lines heard;
    json_t *finding = witness->asked ? json_loads(line, 0, NULL) : NULL;
    hear(witness, finding, &heard);
    if (!finding || heard.n == 0) {
        fputs(line, out);
    } else {
        json_t *ras = json_array();
        for (unsigned i = 0; i < heard.n; i++)
            json_array_append_new(ras, json_string(heard.line[i]));
        json_object_set_new(finding, "ras", ras);
        json_dumpf(finding, out, JSON_COMPACT);
    }
    json_decref(finding);
}

static void print_json(const struct muster_answer *answer, const struct witness *witness, FILE *out)
{
    fprintf(out, "{\"schema\":1,\"job\":\"%s\",\"state\":%s,\"findings\":[", answer->name,
            answer->state ? answer->state : "null");
    for (size_t i = 0; i < answer->lines; i++) {
        fputs(i ? "," : "", out);
        print_json_finding(answer->line[i], witness, out);
    }
    fprintf(out, "]}\n");
}

/* ---- all ---- */

int muster_fleet_ask(const struct muster_fleet_question *question, FILE *out, size_t *found,
                     struct muster_err *err)
{
    const struct muster_asker_options options = {
        .nats = question->nats, .job = question->job, .who = "muster diagnose"};
    struct muster_answer answer;
    struct muster_asker *asker;
    *found = 0;
    if (muster_asker_open(&options, &asker, err) != 0)
        return -1;
    int rc = muster_asker_ask(asker, &answer, err);
    for (size_t i = 0; i < answer.lines; i++)
        *found += holds(answer.line[i]);
    struct witness witness = {false};
    if (rc == 0)
        ask_ras(&answer, question->ras, &witness);
    if (rc == 0 && question->json)
        print_json(&answer, &witness, out);
    else if (rc == 0)
        print_text(&answer, &witness, *found, out);
    muster_ras_free(&witness.report);
    muster_answer_free(&answer);
    muster_asker_close(asker);
    return rc;
}
