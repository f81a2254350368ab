/* `muster diagnose --fleet`: what the fleet's workers found, from where it stands for everybody. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/terminal.h"
#include "base/text.h"
#include "fleet/nats/board.h"
#include "fleet/nats/worker.h"

enum { WAIT_MS = 5000, NAMES = 16 };

struct answer {
    const struct muster_fleet_question *question;
    char name[MUSTER_FLEET_NAME]; /* of the job */
    char *state;                  /* JSON; NULL: no worker holds it now */
    unsigned fitting;
    char others[512]; /* names that fit, too */
    char **line;
    size_t lines;
};

/* ---- reading ---- */

static void note_name(struct answer *answer, const char *name)
{
    if (!strstr(name, answer->question->job) || strcmp(answer->name, name) == 0)
        return;
    size_t used = strlen(answer->others);
    snprintf(answer->others + used, sizeof answer->others - used, "%s%s", used ? ", " : "", name);
    if (answer->fitting++ == 0)
        snprintf(answer->name, sizeof answer->name, "%s", name);
}

/* "finding.1000.muster-1-abc.late_rank-123": the middle. */
static void note_finding_name(void *arg, const char *key, const char *json)
{
    char name[MUSTER_BOARD_KEY];
    (void)json;
    snprintf(name, sizeof name, "%s", strchr(key, '.') ? strchr(key, '.') + 1 : key);
    char *last = strrchr(name, '.');
    if (last)
        *last = '\0';
    note_name(arg, name);
}

static int read_states(struct muster_board *board, struct answer *answer, struct muster_err *err)
{
    kvWatcher *watcher = NULL;
    kvEntry *entry = NULL;
    natsStatus s = kvStore_Watch(&watcher, board->leases, "state.>", NULL);
    while (s == NATS_OK) {
        s = kvWatcher_Next(&entry, watcher, 2 * MUSTER_LINK_WAIT_MS);
        if (s != NATS_OK || !entry)
            break;
        const char *name = kvEntry_Key(entry) + sizeof "state";
        note_name(answer, name);
        if (strcmp(name, answer->name) == 0 && kvEntry_ValueString(entry)) {
            free(answer->state);
            answer->state = strdup(kvEntry_ValueString(entry));
        }
        kvEntry_Destroy(entry);
        entry = NULL;
    }
    kvWatcher_Destroy(watcher);
    return s == NATS_OK ? 0 : muster_fail(err, "no states from NATS: %s", natsStatus_GetText(s));
}

static void keep_line(void *arg, const char *key, const char *json)
{
    struct answer *answer = arg;
    char *copy = strdup(json);
    (void)key;
    if (copy && muster_grow(&answer->line, answer->lines, sizeof(char *)))
        answer->line[answer->lines++] = copy;
    else
        free(copy);
}

static int read_all(struct muster_board *board, struct answer *answer, struct muster_err *err)
{
    if (read_states(board, answer, err) != 0 ||
        muster_board_read(board, "*.*", note_finding_name, answer, err) != 0)
        return -1;
    if (answer->fitting == 0)
        return muster_fail(err, "no job \"%s\" in this fleet: does an agent on its hosts tell NATS "
                                "of it (muster agent --nats)?",
                           answer->question->job);
    if (answer->fitting > 1 && strcmp(answer->name, answer->question->job) != 0)
        return muster_fail(err, "\"%s\" is part of several jobs' names: %s",
                           answer->question->job, answer->others);
    return muster_board_read(board, answer->name, keep_line, answer, err);
}

/* ---- printing ---- */

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

static void print_state(const struct answer *answer, size_t found, FILE *out)
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

static void print_text(const struct answer *answer, size_t found, FILE *out)
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

static void print_json(const struct answer *answer, FILE *out)
{
    fprintf(out, "{\"schema\":1,\"job\":\"%s\",\"state\":%s,\"findings\":[", answer->name,
            answer->state ? answer->state : "null");
    for (size_t i = 0; i < answer->lines; i++)
        fprintf(out, "%s%s", i ? "," : "", answer->line[i]);
    fprintf(out, "]}\n");
}

/* ---- all ---- */

static void wait_for(struct muster_link *link)
{
    for (unsigned i = 0; i < WAIT_MS / 20 && !muster_link_is_up(link); i++)
        nats_Sleep(20);
}

int muster_fleet_ask(const struct muster_fleet_question *question, FILE *out, size_t *found,
                     struct muster_err *err)
{
    const struct muster_link_options options = {.url = question->url,
                                                .credentials = question->credentials,
                                                .ca = question->ca,
                                                .who = "muster diagnose",
                                                .log = stderr,
                                                .quiet = true};
    struct answer answer = {.question = question};
    struct muster_link *link;
    struct muster_board board;
    if (muster_link_open(&options, &link, err) != 0)
        return -1;
    wait_for(link);
    int rc = muster_board_open(link, false, &board, err);
    if (rc == 0) {
        rc = read_all(&board, &answer, err);
        muster_board_close(&board);
    }
    *found = 0;
    for (size_t i = 0; i < answer.lines; i++)
        *found += holds(answer.line[i]);
    if (rc == 0 && question->json)
        print_json(&answer, out);
    else if (rc == 0)
        print_text(&answer, *found, out);
    for (size_t i = 0; i < answer.lines; i++)
        free(answer.line[i]);
    free(answer.line);
    free(answer.state);
    muster_link_close(link);
    return rc;
}
