/* `muster diagnose --fleet`: what the fleet's workers found, from where it stands for everybody. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/terminal.h"
#include "fleet/nats/asker.h"
#include "fleet/nats/worker.h"

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

static void print_finding(const char *line, const struct muster_terminal *terminal, FILE *out)
{
    json_t *finding = json_loads(line, 0, NULL);
    const char *sentence = json_string_value(json_object_get(finding, "sentence"));
    const char *advice = json_string_value(json_object_get(finding, "advice"));
    muster_terminal_wrap(out, terminal->width, holds(line) ? "" : "over: ", "    ",
                         sentence ? sentence : "a finding that cannot be read");
    print_array(finding, "evidence", "  ", terminal, out);
    print_array(finding, "not_observable", "  not seen: ", terminal, out);
    if (advice && advice[0] && holds(line))
        muster_terminal_wrap(out, terminal->width, "  next: ", "    ", advice);
    json_decref(finding);
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
            found ? "findings hold" : ranks * 10 < expected * 9 ? "too little is heard to judge it"
                                                                : "nobody is named",
            ranks, expected, (long long)json_integer_value(json_object_get(state, "hosts")));
    if (silent)
        fprintf(out, ", %lld of these hosts fell silent", silent);
    fprintf(out, ".\n");
    json_decref(state);
}

static void print_text(const struct muster_answer *answer, size_t found, FILE *out)
{
    struct muster_terminal terminal = muster_terminal_of(fileno(out));
    print_state(answer, found, out);
    for (unsigned over = 0; over < 2; over++)
        for (size_t i = 0; i < answer->lines; i++)
            if (holds(answer->line[i]) == (over == 0)) {
                fputc('\n', out);
                print_finding(answer->line[i], &terminal, out);
            }
}

static void print_json(const struct muster_answer *answer, FILE *out)
{
    fprintf(out, "{\"schema\":1,\"job\":\"%s\",\"state\":%s,\"findings\":[", answer->name,
            answer->state ? answer->state : "null");
    for (size_t i = 0; i < answer->lines; i++)
        fprintf(out, "%s%s", i ? "," : "", answer->line[i]);
    fprintf(out, "]}\n");
}

/* ---- all ---- */

int muster_fleet_ask(const struct muster_fleet_question *question, FILE *out, size_t *found,
                     struct muster_err *err)
{
    const struct muster_asker_options options = {.url = question->url,
                                                 .credentials = question->credentials,
                                                 .ca = question->ca,
                                                 .job = question->job,
                                                 .who = "muster diagnose"};
    struct muster_answer answer;
    struct muster_asker *asker;
    *found = 0;
    if (muster_asker_open(&options, &asker, err) != 0)
        return -1;
    int rc = muster_asker_ask(asker, &answer, err);
    for (size_t i = 0; i < answer.lines; i++)
        *found += holds(answer.line[i]);
    if (rc == 0 && question->json)
        print_json(&answer, out);
    else if (rc == 0)
        print_text(&answer, *found, out);
    muster_answer_free(&answer);
    muster_asker_close(asker);
    return rc;
}
