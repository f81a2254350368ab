#include "fleet/nats/board.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "fleet/picture.h"
#include "fleet/wire.h"

#define BUCKET_FINDINGS "muster_findings"
#define MINUTE_NS       (60 * (int64_t)MUSTER_NS_PER_S)
#define WEEK_NS         (7 * 86400 * (int64_t)MUSTER_NS_PER_S)
enum { STREAM_BYTES = 1 << 30 };

/* ---- making ---- */

static natsStatus make_stream(jsCtx *js)
{
    jsStreamConfig config;
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    const char *subjects[] = {MUSTER_FLEET_JOBS ".>"};
    jsStreamConfig_Init(&config);
    config.Name = MUSTER_FLEET_STREAM;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.MaxAge = MINUTE_NS;
    config.MaxBytes = STREAM_BYTES;
    config.MaxMsgSize = MUSTER_WIRE_MOST;
    config.Discard = js_DiscardOld;
    config.Duplicates = MINUTE_NS;
    natsStatus s = js_AddStream(&info, js, &config, NULL, &code);
    jsStreamInfo_Destroy(info);
    return s == NATS_OK || code == JSStreamNameExistErr ? NATS_OK : s;
}

static natsStatus make_bucket(jsCtx *js, const char *name, int64_t ttl_ns, bool make, kvStore **to)
{
    kvConfig config;
    natsStatus s = js_KeyValue(to, js, name);
    if (s == NATS_OK || !make)
        return s;
    kvConfig_Init(&config);
    config.Bucket = name;
    config.History = 1;
    config.TTL = ttl_ns;
    return js_CreateKeyValue(to, js, &config);
}

/* The first one writes it; everybody else has to be the same. */
static int check_version(struct muster_board *board, struct muster_err *err)
{
    char own[16];
    kvEntry *entry = NULL;
    snprintf(own, sizeof own, "%d", MUSTER_WIRE_VERSION);
    kvStore_CreateString(NULL, board->findings, "version", own);
    if (kvStore_Get(&entry, board->findings, "version") != NATS_OK)
        return 0; /* its week is over this moment */
    const char *text = kvEntry_ValueString(entry);
    int rc = text && strcmp(text, own) == 0
                 ? 0
                 : muster_fail(err,
                               "the fleet there speaks version %.8s, this muster %s: update all "
                               "workers and agents, then delete the bucket " BUCKET_FINDINGS,
                               text ? text : "?", own);
    kvEntry_Destroy(entry);
    return rc;
}

int muster_board_open(struct muster_link *link, bool make, struct muster_board *board,
                      struct muster_err *err)
{
    jsCtx *js = muster_link_js(link);
    *board = (struct muster_board){.link = link};
    if (!muster_link_is_up(link) || !js)
        return muster_link_why_down(link, err);
    natsStatus s = make ? make_stream(js) : NATS_OK;
    s = s == NATS_OK ? make_bucket(js, MUSTER_FLEET_BUCKET, MINUTE_NS, make, &board->leases) : s;
    s = s == NATS_OK ? make_bucket(js, BUCKET_FINDINGS, WEEK_NS, make, &board->findings) : s;
    const char *why = s == NATS_OK ? NULL : nats_GetLastError(NULL);
    if (s == NATS_NO_RESPONDERS)
        muster_fail(err, "NATS answers, but without JetStream: switch it on in the server's "
                         "configuration (jetstream {}), for this account, too");
    else if (s == NATS_NOT_FOUND)
        muster_fail(err, "no fleet has worked here yet: start muster fleet");
    else if (s == NATS_TIMEOUT)
        muster_fail(
            err,
            "NATS did not answer within %d s: is its host or its disk overloaded, or may these "
            "credentials not ask (docs/fleet.md)?",
            MUSTER_LINK_WAIT_MS / 1000);
    else if (s != NATS_OK && why && strstr(why, "insufficient"))
        muster_fail(err,
                    "NATS has no room for a minute of messages (%s): see its disk, and "
                    "JetStream's max_file_store",
                    why);
    else if (s != NATS_OK)
        muster_fail(err,
                    "NATS refuses what a worker needs (%s): see docs/fleet.md for its "
                    "permissions",
                    why ? why : natsStatus_GetText(s));
    int rc = s == NATS_OK ? (make ? check_version(board, err) : 0) : -1;
    if (rc != 0)
        muster_board_close(board);
    return rc;
}

void muster_board_close(struct muster_board *board)
{
    kvStore_Destroy(board->leases);
    kvStore_Destroy(board->findings);
    board->leases = board->findings = NULL;
}

/* ---- findings ---- */

void muster_board_key(char to[static MUSTER_BOARD_KEY], const char *job,
                      const struct muster_finding *finding)
{
    const struct muster_finding_row *row = &muster_finding_rows[finding->kind];
    /* Whatever others wait in by and by, it is the same late rank, and the same death. */
    bool by_rank = row->scope == MUSTER_SCOPE_SLOW || finding->kind == MUSTER_FINDING_HANG_DEAD;
    uint64_t is[] = {by_rank ? 0 : finding->comm, by_rank ? 0 : finding->op.index,
                     finding->ranks ? (uint64_t)finding->rank[0] : UINT64_MAX,
                     finding->kind == MUSTER_FINDING_SLOW_TRANSFER && finding->ranks > 1
                         ? (uint64_t)finding->rank[1]
                         : 0};
    snprintf(to, MUSTER_BOARD_KEY, "finding.%s.%s-%08x", job, row->name,
             (unsigned)muster_hash(MUSTER_HASH_SEED, is, sizeof is));
}

static char *line_of(const char *run_dir, const struct muster_finding *finding, unsigned times)
{
    char *text = NULL, sentence[1024];
    size_t bytes = 0;
    FILE *memory = open_memstream(&text, &bytes);
    struct muster_json json;
    if (!memory)
        return NULL;
    muster_finding_sentence(finding, sentence, sizeof sentence);
    muster_json_begin(&json, memory, false);
    muster_json_object(&json, NULL);
    muster_finding_json(finding, &json);
    muster_json_str(&json, "sentence", sentence);
    muster_json_str(&json, "run_dir", run_dir);
    muster_json_u64(&json, "over_before", times);
    muster_json_end(&json);
    if (!muster_text_close(memory, &text))
        return NULL;
    text[strcspn(text, "\n")] = '\0'; /* a line without its end */
    return text;
}

static bool is_over(const char *json)
{
    return json && (strstr(json, "\"resolved\":true") || strstr(json, "\"retracted\":true"));
}

static bool ends(const struct muster_finding *finding)
{
    return finding->resolved || finding->retracted;
}

static unsigned times_over(const char *json)
{
    static const char name[] = "\"over_before\":";
    const char *at = json ? strstr(json, name) : NULL;
    return at ? (unsigned)strtoul(at + sizeof name - 1, NULL, 10) : 0;
}

static void publish(struct muster_board *board, const char *job, const char *line)
{
    char subject[sizeof MUSTER_FLEET_FINDINGS + MUSTER_FLEET_NAME + 1];
    snprintf(subject, sizeof subject, "%s.%s", MUSTER_FLEET_FINDINGS, job);
    natsConnection_PublishString(muster_link_connection(board->link), subject, line);
}

bool muster_board_names_more(const char *json, const struct muster_finding *finding)
{
    static const char name[] = "\"ranks\":[";
    const char *at = json ? strstr(json, name) : NULL;
    unsigned there = 0;
    if (!at)
        return false;
    at += sizeof name - 1;
    for (const char *end = at + strcspn(at, "]"); at < end; at += strcspn(at, ",]") + 1)
        there++;
    return finding->ranks > there;
}

/* One whose key is not there yet: only one worker makes it. */
static bool make(kvStore *findings, const char *key, const char *run_dir,
                 const struct muster_finding *finding, char **line)
{
    *line = ends(finding) ? NULL : line_of(run_dir, finding, 0);
    if (*line && kvStore_CreateString(NULL, findings, key, *line) == NATS_OK)
        return true;
    free(*line);
    *line = NULL;
    return false;
}

/* One that holds is ended or names more, one that was over is made anew: against what was seen, so
 * that only one worker succeeds. */
static bool turn(kvStore *findings, const char *key, const char *run_dir,
                 const struct muster_finding *finding, char **line, unsigned *times)
{
    kvEntry *entry = NULL;
    if (kvStore_Get(&entry, findings, key) != NATS_OK)
        return false;
    const char *was = kvEntry_ValueString(entry);
    bool over = is_over(was);
    *times = times_over(was) + (over ? 1 : 0);
    bool more = !over && !ends(finding) && muster_board_names_more(was, finding);
    *line = over != ends(finding) || more ? line_of(run_dir, finding, *times) : NULL;
    bool mine = *line && kvStore_UpdateString(NULL, findings, key, *line,
                                              kvEntry_Revision(entry)) == NATS_OK;
    if (!mine) {
        free(*line);
        *line = NULL;
    }
    kvEntry_Destroy(entry);
    return mine;
}

bool muster_board_claim(struct muster_board *board, const char *job, const char *run_dir,
                        const struct muster_finding *finding, char **json, unsigned *times)
{
    char key[MUSTER_BOARD_KEY];
    muster_board_key(key, job, finding);
    *times = 0;
    bool mine = make(board->findings, key, run_dir, finding, json) ||
                turn(board->findings, key, run_dir, finding, json, times);
    if (mine)
        publish(board, job, *json);
    return mine;
}

void muster_board_resolve(struct muster_board *board, const char *job, const char *key)
{
    static const char holds[] = "\"resolved\":false", over[] = "\"resolved\":true";
    kvEntry *entry = NULL;
    if (kvStore_Get(&entry, board->findings, key) != NATS_OK)
        return;
    const char *was = kvEntry_ValueString(entry);
    const char *at = was ? strstr(was, holds) : NULL;
    char *line = at ? malloc(strlen(was) + 1) : NULL;
    if (line) {
        size_t before = (size_t)(at - was);
        memcpy(line, was, before);
        snprintf(line + before, strlen(was) + 1 - before, "%s%s", over, at + sizeof holds - 1);
        if (kvStore_UpdateString(NULL, board->findings, key, line, kvEntry_Revision(entry)) ==
            NATS_OK)
            publish(board, job, line);
    }
    free(line);
    kvEntry_Destroy(entry);
}

int muster_board_read(struct muster_board *board, const char *job, muster_board_take *take,
                      void *arg, struct muster_err *err)
{
    char keys[MUSTER_BOARD_KEY];
    kvWatcher *watcher = NULL;
    kvEntry *entry = NULL;
    natsStatus s;
    snprintf(keys, sizeof keys, "finding.%s.>", job);
    s = kvStore_Watch(&watcher, board->findings, keys, NULL);
    while (s == NATS_OK) {
        s = kvWatcher_Next(&entry, watcher, 2 * MUSTER_LINK_WAIT_MS);
        if (s != NATS_OK || !entry) /* NULL: that is all */
            break;
        if (kvEntry_Operation(entry) == kvOp_Put && kvEntry_ValueString(entry))
            take(arg, kvEntry_Key(entry), kvEntry_ValueString(entry));
        kvEntry_Destroy(entry);
        entry = NULL;
    }
    kvWatcher_Destroy(watcher);
    return s == NATS_OK ? 0 : muster_fail(err, "no findings from NATS: %s", natsStatus_GetText(s));
}

/* ---- states ---- */

void muster_board_state(struct muster_board *board, const struct muster_join *join,
                        const struct muster_rank_costs *costs, uint64_t now_ns, const char *worker)
{
    struct muster_join_coverage is = muster_join_coverage(join, now_ns);
    char key[MUSTER_FLEET_NAME + 8], *text = NULL;
    size_t bytes = 0;
    struct muster_json json;
    FILE *memory = open_memstream(&text, &bytes);
    if (!memory)
        return;
    snprintf(key, sizeof key, "state.%s", join->name);
    muster_json_begin(&json, memory, false);
    muster_json_object(&json, NULL);
    muster_json_str(&json, "run_dir", join->run_dir);
    muster_json_u64(&json, "uid", join->uid);
    muster_json_u64(&json, "ranks", is.ranks);
    muster_json_u64(&json, "expected", is.expected);
    muster_json_u64(&json, "hosts", is.hosts);
    muster_json_u64(&json, "silent_hosts", is.silent_hosts);
    muster_json_array(&json, "other_versions");
    for (size_t i = 0; i < join->foreigns; i++)
        muster_json_str(&json, NULL, join->foreign[i].host);
    muster_json_end(&json);
    muster_json_u64(&json, "running", is.living);
    muster_json_u64(&json, "timed", join->timed);
    muster_json_str(&json, "worker", worker);
    muster_picture_write(join, costs, now_ns, &json);
    muster_json_end(&json);
    if (muster_text_close(memory, &text))
        kvStore_PutString(NULL, board->leases, key, text);
    free(text);
}
