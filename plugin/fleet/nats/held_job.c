#include "fleet/nats/held_job.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "launch/hook_claim.h"

#define AT_ONCE_NS (100 * MUSTER_NS_PER_MS)
#define BEHIND_NS  (5 * MUSTER_NS_PER_S) /* then it is looked at although more waits to be read */
#define STATE_NS   MUSTER_NS_PER_S
#define SILENT_NS  (3 * MUSTER_NS_PER_S) /* then the subscription is made anew */
#define LOG_NS     (60 * MUSTER_NS_PER_S)
/* What stood there before and is not found again within so long beyond a hang's time is over. */
#define INHERIT_NS (15 * MUSTER_NS_PER_S)

struct muster_held_job {
    struct muster_held_by by;
    struct muster_join *join;
    struct muster_evaluator *evaluator;
    natsSubscription *subscription;
    bool caught_up;
    uint64_t read_ns;    /* when messages were taken last */
    uint64_t abreast_ns; /* when none was left, last */
    uint64_t came_ns, state_ns, logged_ns, caught_ns;
    struct {
        const char **key; /* of findings that another worker emitted */
        size_t n;
        struct muster_arena memory;
    } inherited;
};

static natsStatus subscribe(struct muster_held_job *job)
{
    char subject[sizeof MUSTER_FLEET_JOBS + MUSTER_FLEET_NAME + 1];
    jsSubOptions options;
    natsSubscription_Destroy(job->subscription);
    job->subscription = NULL;
    jsSubOptions_Init(&options);
    options.Stream = MUSTER_FLEET_STREAM;
    options.Ordered = true;
    snprintf(subject, sizeof subject, "%s.%s", MUSTER_FLEET_JOBS, job->join->name);
    natsStatus s = js_SubscribeSync(&job->subscription, muster_link_js(job->by.link), subject, NULL,
                                    &options, NULL);
    return s == NATS_OK ? natsSubscription_SetPendingLimits(job->subscription, -1, -1) : s;
}

static void inherit(void *arg, const char *key, const char *json)
{
    struct muster_held_job *job = arg;
    if (!strstr(json, "\"resolved\":false"))
        return;
    const char **copy = muster_arena_add(&job->inherited.memory, &job->inherited.key,
                                         &job->inherited.n, sizeof *copy);
    *copy = muster_arena_text(&job->inherited.memory, key);
}

struct muster_held_job *muster_held_job_new(const struct muster_held_by *by, const char *name,
                                            struct muster_err *err)
{
    struct muster_held_job *job = calloc(1, sizeof *job);
    if (!job) {
        muster_fail_memory(err, "a job");
        return NULL;
    }
    job->by = *by;
    job->join = muster_join_new(name);
    job->evaluator = muster_evaluator_new(by->hang_ns);
    job->came_ns = muster_now_ns();
    natsStatus s = job->join && job->evaluator ? subscribe(job) : NATS_NO_MEMORY;
    if (s == NATS_OK && muster_board_read(by->board, name, inherit, job, err) == 0 &&
        muster_arena_check(&job->inherited.memory, err, "a job") == 0)
        return job;
    if (s != NATS_OK)
        muster_fail(err, "job %s is not given: %s", name, natsStatus_GetText(s));
    muster_held_job_free(job);
    return NULL;
}

void muster_held_job_free(struct muster_held_job *job)
{
    if (!job)
        return;
    natsSubscription_Destroy(job->subscription);
    muster_join_free(job->join);
    muster_evaluator_free(job->evaluator);
    muster_arena_free(&job->inherited.memory);
    free(job);
}

const char *muster_held_job_name(const struct muster_held_job *job)
{
    return job->join->name;
}

const struct muster_join *muster_held_job_join(const struct muster_held_job *job)
{
    return job->join;
}

const struct muster_evaluator *muster_held_job_evaluator(const struct muster_held_job *job)
{
    return job->evaluator;
}

/* ---- messages ---- */

/* Once a minute; `news`: a host that is named for the first time. */
static void log_refused(struct muster_held_job *job, const struct muster_err *err, bool news,
                        uint64_t now_ns)
{
    if (!err->text[0] || (!news && job->logged_ns && now_ns - job->logged_ns < LOG_NS))
        return;
    job->logged_ns = news ? job->logged_ns : now_ns;
    fprintf(job->by.log, "muster fleet: %s\n", err->text);
    fflush(job->by.log);
}

static void take_one(struct muster_held_job *job, natsMsg *message, uint64_t now_ns)
{
    jsMsgMetaData *meta = NULL;
    struct muster_err err;
    if (natsMsg_GetMetaData(&meta, message) == NATS_OK) {
        job->caught_up |= meta->NumPending == 0;
        job->caught_ns = job->caught_ns ? job->caught_ns : job->caught_up ? now_ns : 0;
        size_t foreigns = job->join->foreigns;
        if (muster_join_take(job->join, natsMsg_GetData(message),
                             (size_t)natsMsg_GetDataLength(message), (uint64_t)meta->Timestamp,
                             now_ns, &err) != 0)
            log_refused(job, &err, job->join->foreigns > foreigns, now_ns);
    }
    jsMsgMetaData_Destroy(meta);
}

size_t muster_held_job_take(struct muster_held_job *job, uint64_t now_ns)
{
    natsMsg *message = NULL;
    size_t n = 0;
    uint64_t begin = muster_now_ns();
    bool more = true;
    while (job->subscription && muster_now_ns() - begin < AT_ONCE_NS) {
        more = natsSubscription_NextMsg(&message, job->subscription, 0) == NATS_OK;
        if (!more)
            break;
        take_one(job, message, muster_now_ns());
        natsMsg_Destroy(message);
        message = NULL;
        n++;
    }
    job->read_ns = muster_now_ns();
    if (!more || !job->subscription)
        job->abreast_ns = job->read_ns;
    if (n > 0)
        job->came_ns = now_ns;
    /* After a restart of the server a consumer may be gone; what came already is known again. */
    if (now_ns - job->came_ns > SILENT_NS && muster_link_is_up(job->by.link)) {
        job->came_ns = now_ns;
        subscribe(job);
    }
    return n;
}

uint64_t muster_held_job_read_ns(const struct muster_held_job *job)
{
    return job->read_ns;
}

/* ---- findings ---- */

/* Where the run directory is here, too, and its owner's own, `muster run` and workers share its
 * claims. Its path is the hosts' word: nothing is written into another user's folder. */
static bool is_first(const struct muster_held_job *job, const char *line, unsigned times)
{
    struct muster_hook_line read;
    struct stat file;
    char path[32];
    bool first = true;
    int fd = open(job->join->run_dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd >= 0 && fstat(fd, &file) == 0 && file.st_uid == job->join->uid &&
        muster_hook_line_read(&read, line, strlen(line)))
        first = muster_hook_claim(path, read.finding, times);
    if (fd >= 0)
        close(fd);
    return first;
}

static void emit(void *arg, const struct muster_finding *finding)
{
    struct muster_held_job *job = arg;
    char *line, sentence[1024];
    unsigned times;
    if (!muster_board_claim(job->by.board, job->join->name, job->join->run_dir, finding, &line,
                            &times))
        return;
    muster_finding_sentence(finding, sentence, sizeof sentence);
    fprintf(job->by.log, "muster fleet: %s: %s%s\n", job->join->name,
            finding->resolved ? "over: " : "", sentence);
    fflush(job->by.log);
    bool begins = !finding->resolved && !finding->retracted;
    job->by.ever[finding->kind] += begins;
    if (begins && muster_hook_queue_wants(job->by.hooks, finding->kind) &&
        is_first(job, line, times))
        muster_hook_queue_add(job->by.hooks, finding->kind, line);
    else
        free(line);
}

struct search {
    const char *job, *key;
    bool found;
};

static void compare(void *arg, const struct muster_finding *finding)
{
    struct search *search = arg;
    char key[MUSTER_BOARD_KEY];
    muster_board_key(key, search->job, finding);
    search->found |= strcmp(key, search->key) == 0;
}

/* What another worker emitted and this one does not find: it ended while nobody looked. */
static void resolve_inherited(struct muster_held_job *job)
{
    for (size_t i = 0; i < job->inherited.n; i++) {
        struct search search = {job->join->name, job->inherited.key[i], false};
        muster_evaluator_findings(job->evaluator, compare, &search);
        if (!search.found)
            muster_board_resolve(job->by.board, job->join->name, job->inherited.key[i]);
    }
    job->inherited.n = 0;
    job->inherited.key = NULL;
    muster_arena_free(&job->inherited.memory);
}

static void end_one(void *arg, const struct muster_finding *finding)
{
    struct muster_finding over = *finding;
    over.resolved = true;
    emit(arg, &over);
}

void muster_held_job_end(struct muster_held_job *job)
{
    muster_evaluator_findings(job->evaluator, end_one, job);
    for (size_t i = 0; i < job->inherited.n; i++)
        muster_board_resolve(job->by.board, job->join->name, job->inherited.key[i]);
}

void muster_held_job_look(struct muster_held_job *job, uint64_t now_ns)
{
    if (!job->caught_up ||
        (job->abreast_ns != job->read_ns && now_ns - job->abreast_ns < BEHIND_NS))
        return;
    muster_evaluator_look(job->evaluator, job->join, now_ns, emit, job);
    if (job->inherited.n && now_ns - job->caught_ns > job->by.hang_ns + INHERIT_NS)
        resolve_inherited(job);
    if (now_ns - job->state_ns < STATE_NS)
        return;
    job->state_ns = now_ns;
    muster_board_state(job->by.board, job->join, muster_evaluator_costs(job->evaluator), now_ns,
                       job->by.worker);
}
