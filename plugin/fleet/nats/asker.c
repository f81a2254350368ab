#include "fleet/nats/asker.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "fleet/nats/board.h"

enum { WAIT_MS = 5000, PAUSE_MS = 20 };

struct muster_asker {
    struct muster_asker_options options;
    struct muster_link *link;
};

/* One question on its way. */
struct search {
    const char *job;
    struct muster_answer *answer;
    unsigned fitting;
    char others[512]; /* names that fit, too */
};

/* ---- reading ---- */

static void note_name(struct search *search, const char *name)
{
    if (!strstr(name, search->job) || strcmp(search->answer->name, name) == 0)
        return;
    struct muster_text text = muster_text_behind(search->others, sizeof search->others);
    muster_text_add(&text, "%s%s", text.used ? ", " : "", name);
    if (search->fitting++ == 0)
        snprintf(search->answer->name, sizeof search->answer->name, "%s", name);
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

static int read_states(struct muster_board *board, struct search *search, struct muster_err *err)
{
    kvWatcher *watcher = NULL;
    kvEntry *entry = NULL;
    natsStatus s = kvStore_Watch(&watcher, board->leases, "state.>", NULL);
    while (s == NATS_OK) {
        s = kvWatcher_Next(&entry, watcher, 2 * MUSTER_LINK_WAIT_MS);
        if (s != NATS_OK || !entry)
            break;
        const char *name = kvEntry_Key(entry) + sizeof "state";
        note_name(search, name);
        if (strcmp(name, search->answer->name) == 0 && kvEntry_ValueString(entry))
            search->answer->state =
                muster_arena_text(&search->answer->memory, kvEntry_ValueString(entry));
        kvEntry_Destroy(entry);
        entry = NULL;
    }
    kvWatcher_Destroy(watcher);
    return s == NATS_OK ? 0 : muster_fail(err, "no states from NATS: %s", natsStatus_GetText(s));
}

static void keep_line(void *arg, const char *key, const char *json)
{
    struct search *search = arg;
    struct muster_answer *answer = search->answer;
    (void)key;
    const char **line =
        muster_arena_add(&answer->memory, &answer->line, &answer->lines, sizeof *line);
    *line = muster_arena_text(&answer->memory, json);
}

static int read_all(struct muster_board *board, struct search *search, struct muster_err *err)
{
    if (read_states(board, search, err) != 0 ||
        muster_board_read(board, "*.*", note_finding_name, search, err) != 0)
        return -1;
    if (search->fitting == 0)
        return muster_fail(err,
                           "no job \"%s\" in this fleet: does an agent on its hosts tell NATS "
                           "of it (muster agent --nats)?",
                           search->job);
    if (search->fitting > 1 && strcmp(search->answer->name, search->job) != 0)
        return muster_fail(err, "\"%s\" is part of several jobs' names: %s", search->job,
                           search->others);
    if (muster_board_read(board, search->answer->name, keep_line, search, err) != 0)
        return -1;
    return muster_arena_check(&search->answer->memory, err, "what the fleet found");
}

/* ---- all ---- */

int muster_asker_open(const struct muster_asker_options *options, struct muster_asker **asker,
                      struct muster_err *err)
{
    const struct muster_link_options link = {
        .nats = options->nats, .who = options->who, .log = stderr, .quiet = true};
    struct muster_asker *one = calloc(1, sizeof *one);
    if (!one)
        return muster_fail_memory(err, "a question");
    one->options = *options;
    if (muster_link_open(&link, &one->link, err) != 0) {
        free(one);
        return -1;
    }
    for (unsigned i = 0;
         i < WAIT_MS / PAUSE_MS && !muster_link_is_up(one->link) && !muster_link_is_over(one->link);
         i++)
        nats_Sleep(PAUSE_MS);
    *asker = one;
    return 0;
}

int muster_asker_ask(struct muster_asker *asker, struct muster_answer *answer,
                     struct muster_err *err)
{
    struct search search = {.job = asker->options.job, .answer = answer};
    struct muster_board board;
    *answer = (struct muster_answer){.name = ""};
    muster_link_tend(asker->link, muster_now_ns());
    if (muster_board_open(asker->link, false, &board, err) != 0)
        return -1;
    int rc = read_all(&board, &search, err);
    muster_board_close(&board);
    return rc;
}

void muster_answer_free(struct muster_answer *answer)
{
    muster_arena_free(&answer->memory);
    *answer = (struct muster_answer){.name = ""};
}

void muster_asker_close(struct muster_asker *asker)
{
    if (asker)
        muster_link_close(asker->link);
    free(asker);
}
